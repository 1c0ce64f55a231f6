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
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/runs"
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
	c, err := client.Connect(ctx, client.Config{
		URL: os.Getenv("NATS_URL"), User: os.Getenv("NATS_USER"), Password: os.Getenv("NATS_PASSWORD"),
	})
	if err != nil {
		return err
	}
	defer c.Close()

	// The agent may only read files. To allow writes, add Mode:
	// runs.WorkspaceWrite and Confirm: true.
	task, err := c.Submit(ctx, api.Submission{Task: runs.Task{Prompt: prompt}})
	if err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	fmt.Fprintln(os.Stderr, "run", task.Run)
	end, err := c.Wait(ctx, task.Run, nil) // ended by ctx alone, which does not affect the task
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	fmt.Println(end.Sentence)
	if end.State != runs.StateCompleted {
		return fmt.Errorf("the task is %s", end.State)
	}
	return nil
}
