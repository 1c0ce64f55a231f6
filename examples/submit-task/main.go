// Command submit-task submits a task to Codex over NATS, waits for its end, and
// prints a summary of one line.
//
//	submit-task "Explain what this package does."
//
// NATS_URL, NATS_USER and NATS_PASSWORD are the server and the credentials. The
// user operator may submit tasks. The exit status is 1 unless the task completed.
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
		nats.CustomInboxPrefix("_INBOX_"+user)) // a user may subscribe only to its own inboxes
	if err != nil {
		return err
	}
	defer nc.Close()

	// The agent may only read files. To allow writes, add "mode":
	// "workspace-write" and "confirm": true.
	var task struct {
		ID string `json:"runId"`
	}
	if err := call(ctx, nc, "submit", map[string]any{"prompt": prompt}, &task); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "run", task.ID)

	// A wait returns at the end of the task or after its timeout. The timeout does
	// not affect the task.
	var end struct{ State, Summary string }
	for {
		err := call(ctx, nc, "wait", map[string]any{"run": task.ID, "timeoutSec": 60}, &end)
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

// problem is an error of the service.
type problem struct {
	Code    string
	Field   string // of the request; "" of all of it
	Message string
}

func (p *problem) Error() string {
	if p.Field == "" {
		return p.Code + ": " + p.Message
	}
	return p.Code + ": " + p.Field + ": " + p.Message
}

// call sends a request and decodes the outcome.
func call(ctx context.Context, nc *nats.Conn, verb string, request, outcome any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second) // longer than the timeout of any wait
	defer cancel()
	m, err := nc.RequestWithContext(ctx, "linesman.api."+verb, body)
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	// An error is in the headers and, in most cases, in the body.
	if text := m.Header.Get("Nats-Service-Error"); text != "" {
		p := &problem{}
		if json.Unmarshal(m.Data, p) != nil {
			return fmt.Errorf("%s: %s", verb, text)
		}
		return fmt.Errorf("%s: %w", verb, p)
	}
	return json.Unmarshal(m.Data, outcome)
}
