// Command submit-task gives Codex a task, waits for its end, and prints one
// line about what came of it.
//
//	submit-task "Explain what this package does."
//
// NATS_URL, NATS_USER and NATS_PASSWORD say where to connect and as whom; the
// user operator may submit tasks. It exits with 1 unless the task completed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: submit-task PROMPT")
		os.Exit(2)
	}
	if err := submit(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "submit-task:", err)
		os.Exit(1)
	}
}

func submit(ctx context.Context, prompt string) error {
	user := os.Getenv("NATS_USER")
	nc, err := nats.Connect(os.Getenv("NATS_URL"),
		nats.UserInfo(user, os.Getenv("NATS_PASSWORD")),
		nats.CustomInboxPrefix("_INBOX_"+user)) // each user may listen to its own inboxes only
	if err != nil {
		return err
	}
	defer nc.Close()

	// The agent may read; to let it write, add "mode": "workspace-write" and
	// "confirm": true.
	var task struct {
		ID string `json:"task_id"`
	}
	if err := ask(ctx, nc, "submit", map[string]any{"task": prompt}, &task); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "run", task.ID)

	// A wait ends with the task or with its own time, whichever comes first.
	// The task goes on whatever becomes of who waits.
	var end struct{ State, Summary string }
	for {
		err := ask(ctx, nc, "wait", map[string]any{"task_id": task.ID, "timeout_sec": 60}, &end)
		var p *problem
		if errors.As(err, &p) && p.Code == "TIMEOUT" {
			continue
		}
		if err != nil {
			return err
		}
		break
	}
	fmt.Println(end.Summary)
	if end.State != "completed" {
		return fmt.Errorf("the task is %s", end.State)
	}
	return nil
}

// problem is the error of an envelope.
type problem struct {
	Code      string
	Message   string
	Retryable bool
}

func (p *problem) Error() string { return p.Code + ": " + p.Message }

// ask sends one request, and reads the data of its answer.
func ask(ctx context.Context, nc *nats.Conn, verb string, args, data any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second) // more than any wait that is asked for
	defer cancel()
	m, err := nc.RequestWithContext(ctx, "linesman.api."+verb, body)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	// An error without an envelope is told by headers alone.
	if text := m.Header.Get("Nats-Service-Error"); len(m.Data) == 0 && text != "" {
		return fmt.Errorf("%s: %s", verb, text)
	}
	var envelope struct {
		Data  json.RawMessage
		Error *problem
	}
	if err := json.Unmarshal(m.Data, &envelope); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	if envelope.Error != nil {
		return fmt.Errorf("%s: %w", verb, envelope.Error)
	}
	return json.Unmarshal(envelope.Data, data)
}
