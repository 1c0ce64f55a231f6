// Command a2a gives Codex a task over A2A 1.0, prints what the agent says as it
// says it, and goes on when its connection breaks.
//
//	a2a "Explain what this package does."
//
// A2A_URL and A2A_TOKEN say where linesman serves HTTP, and what to show: a
// token with the scopes read and submit. It exits with 1 unless the task
// completed.
package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: a2a PROMPT")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "a2a:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, prompt string) error {
	card, err := agentcard.DefaultResolver.Resolve(ctx, os.Getenv("A2A_URL"))
	if err != nil {
		return fmt.Errorf("agent card: %w", err)
	}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithCallInterceptors(&bearer{token: os.Getenv("A2A_TOKEN")}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Destroy() }()

	// The messageId is what makes it safe to send the message again: linesman
	// begins one task for it, however often it comes.
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(prompt), a2a.NewDataPart(map[string]any{"skipGitRepoCheck": true}))
	task, err := follow(client.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: message}), nil)
	for err == nil && !task.Status.State.Terminal() { // cut off: a new stream begins with all that was said
		if task, err = follow(client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.ID}), task); errors.Is(err, a2a.ErrUnsupportedOperation) {
			task, err = client.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID}) // it has ended meanwhile
		}
		if err == nil && !task.Status.State.Terminal() {
			err = pause(ctx)
		}
	}
	if err != nil {
		return err
	}
	if task.Status.State != a2a.TaskStateCompleted {
		return fmt.Errorf("the task is %s: %s", task.Status.State, text(task.Status.Message.Parts))
	}
	if task, err = client.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID}); err != nil {
		return err
	}
	fmt.Println(text(task.Artifacts[0].Parts))
	return nil
}

// follow reads a stream and returns the task as it was told last. An error is
// one of the first event; a later one only cuts the stream.
func follow(events iter.Seq2[a2a.Event, error], task *a2a.Task) (*a2a.Task, error) {
	for event, err := range events {
		if err != nil && task == nil {
			return nil, err
		} else if err != nil {
			if errors.Is(err, a2a.ErrUnsupportedOperation) {
				return task, err
			}
			return task, nil
		}
		switch e := event.(type) {
		case *a2a.Task:
			task = e
			fmt.Fprintln(os.Stderr, "task", e.ID, e.Status.State)
		case *a2a.TaskStatusUpdateEvent:
			task.Status = e.Status
			fmt.Fprintln(os.Stderr, e.Status.State, text(e.Status.Message.Parts))
		case *a2a.TaskArtifactUpdateEvent:
			if said := text(e.Artifact.Parts); said != "" {
				fmt.Fprintln(os.Stderr, ">", said)
			}
		}
	}
	if task == nil {
		return nil, errors.New("the stream ended before the task")
	}
	return task, nil
}

// text is the first text of some parts.
func text(parts a2a.ContentParts) string {
	for _, p := range parts {
		if t := p.Text(); t != "" {
			return t
		}
	}
	return ""
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// bearer shows a token with each request.
type bearer struct {
	a2aclient.PassthroughInterceptor
	token string
}

func (b *bearer) Before(ctx context.Context, r *a2aclient.Request) (context.Context, any, error) {
	r.ServiceParams.Append("Authorization", "Bearer "+b.token)
	return ctx, nil, nil
}
