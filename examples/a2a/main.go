// Command a2a submits a task to Codex over A2A 1.0 and streams the output of the
// agent. It resumes the stream after a connection error.
//
//	a2a "Explain what this package does."
//
// A2A_URL is the base URL of linesman, A2A_TOKEN a token with the scopes read and
// submit. The exit status is 1 unless the task completed.
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
	client, err := a2aclient.NewFromCard(ctx, card,
		a2aclient.WithCallInterceptors(&bearer{token: os.Getenv("A2A_TOKEN")}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Destroy() }()

	// The messageId makes retries safe: linesman starts only one task for a
	// messageId.
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(prompt),
		a2a.NewDataPart(map[string]any{"skipGitRepoCheck": true}))
	task, err := follow(client.SendStreamingMessage(ctx, &a2a.SendMessageRequest{Message: message}), nil)
	for err == nil && !task.Status.State.Terminal() { // a new stream repeats the output from the beginning
		task, err = follow(client.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task.ID}), task)
		if errors.Is(err, a2a.ErrUnsupportedOperation) { // the task has ended
			task, err = client.GetTask(ctx, &a2a.GetTaskRequest{ID: task.ID})
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

// follow reads a stream and returns the latest state of the task. It returns an
// error only for the first event; later errors end the stream.
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
			if output := text(e.Artifact.Parts); output != "" {
				fmt.Fprintln(os.Stderr, ">", output)
			}
		}
	}
	if task == nil {
		return nil, errors.New("the stream ended before the task")
	}
	return task, nil
}

// text returns the first text in parts.
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

// bearer adds a token to each request.
type bearer struct {
	a2aclient.PassthroughInterceptor
	token string
}

func (b *bearer) Before(ctx context.Context, r *a2aclient.Request) (context.Context, any, error) {
	r.ServiceParams.Append("Authorization", "Bearer "+b.token)
	return ctx, nil, nil
}
