// Command rest gives Codex a task over HTTP, prints its events as they come,
// and then its answer.
//
//	rest "Explain what this package does."
//
// REST_URL and REST_TOKEN say where linesman serves HTTP, and what to show: a
// token with the scopes read and submit. It exits with 1 unless the task
// completed.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rest PROMPT")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rest:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, prompt string) error {
	task, err := json.Marshal(map[string]any{"task": prompt, "skipGitRepoCheck": true})
	if err != nil {
		return err
	}
	var submitted struct{ ID string }
	if err := ask(ctx, "POST", "/v1/runs", task, &submitted); err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	fmt.Fprintln(os.Stderr, "run", submitted.ID)
	path := "/v1/runs/" + submitted.ID
	// A stream that breaks is opened again behind the last event that came;
	// nothing is lost by it, and nothing comes twice.
	for last, done := "", false; !done; {
		if last, done, err = follow(ctx, path+"/events", last); err != nil {
			return fmt.Errorf("events: %w", err)
		}
	}
	var end struct {
		State, Summary string
		FinalText      string `json:"finalText"`
	}
	// The record of a run follows its last event by a moment.
	if err := ask(ctx, "GET", path+"/wait?timeout=10", nil, &end); err != nil {
		return fmt.Errorf("result: %w", err)
	}
	if end.State != "completed" {
		return fmt.Errorf("the task is %s: %s", end.State, end.Summary)
	}
	fmt.Println(end.FinalText)
	return nil
}

// ask sends a request and reads the JSON of its answer.
func ask(ctx context.Context, method, path string, body []byte, v any) error {
	answer, err := send(ctx, method, path, body, "Content-Type", "application/json")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	return json.NewDecoder(answer.Body).Decode(v)
}

// follow prints the events behind one, and returns the last that came and
// whether it was the run's last.
func follow(ctx context.Context, path, last string) (string, bool, error) {
	answer, err := send(ctx, "GET", path, nil, "Accept", "text/event-stream", "Last-Event-ID", last)
	if err != nil {
		return last, false, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusNoContent {
		return last, true, nil
	}
	var id, kind, data string
	lines := bufio.NewReader(answer.Body)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case ctx.Err() != nil:
			return last, false, ctx.Err()
		case err != nil: // it broke, at any byte; what is not whole comes again
			return last, false, pause(ctx)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data = value
		case "":
			if value != "" || id == "" { // a comment, or nothing before the empty line
				continue
			}
			fmt.Fprintln(os.Stderr, kind, data)
			if last = id; kind == "completion" {
				return last, true, nil
			}
			id = ""
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-time.After(time.Second):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// send sends a request; an answer that is a problem is an error.
func send(ctx context.Context, method, path string, body []byte, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(os.Getenv("REST_URL"), "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("REST_TOKEN"))
	for i := 0; i < len(header); i += 2 {
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 400 {
		return answer, nil
	}
	defer answer.Body.Close()
	var problem struct{ Code, Detail string }
	if err := json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&problem); err != nil || problem.Code == "" {
		return nil, errors.New(answer.Status)
	}
	return nil, fmt.Errorf("%s: %s", problem.Code, problem.Detail)
}
