// Command rest submits a task to Codex over HTTP, streams its events, and prints its
// answer.
//
//	rest "Explain what this package does."
//
// REST_URL is the base URL of linesman, REST_TOKEN a token with the scopes read and
// submit. The exit status is 1 unless the task completed.
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
	"slices"
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
	var submitted struct{ Run string }
	if err := call(ctx, "POST", "/v1/runs", task, &submitted); err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	fmt.Fprintln(os.Stderr, "run", submitted.Run)
	path := "/v1/runs/" + submitted.Run
	// After a connection error the stream is resumed after the last event, so that
	// no event is lost or duplicated.
	for last, done := "", false; !done; {
		if last, done, err = follow(ctx, path+"/events", last); err != nil {
			return fmt.Errorf("events: %w", err)
		}
	}
	var end struct {
		State, Summary string
		FinalText      string `json:"finalText"`
	}
	// The run record can be updated shortly after the last event.
	for slices.Contains([]string{"", "queued", "working", "input-required"}, end.State) {
		if err := call(ctx, "GET", path+"/wait?timeout=10", nil, &end); err != nil {
			return fmt.Errorf("result: %w", err)
		}
	}
	if end.State != "completed" {
		return fmt.Errorf("the task is %s: %s", end.State, end.Summary)
	}
	fmt.Println(end.FinalText)
	return nil
}

// call sends a request and decodes the JSON response into v.
func call(ctx context.Context, method, path string, body []byte, v any) error {
	response, err := send(ctx, method, path, body, "Content-Type", "application/json")
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(v)
}

// follow prints the events after the event with id last. It returns the id of the
// last printed event, and whether it was the last event of the run.
func follow(ctx context.Context, path, last string) (string, bool, error) {
	response, err := send(ctx, "GET", path, nil, "Accept", "text/event-stream", "Last-Event-ID", last)
	if err != nil {
		return last, false, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNoContent {
		return last, true, nil
	}
	var id, kind, data string
	lines := bufio.NewReader(response.Body)
	for {
		line, err := lines.ReadString('\n')
		switch {
		case ctx.Err() != nil:
			return last, false, ctx.Err()
		case err != nil: // connection error: an incomplete event is sent again
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
			if value != "" || id == "" { // a comment, or an empty event
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

// send sends a request. An HTTP error status is an error.
func send(ctx context.Context, method, path string, body []byte, header ...string) (*http.Response, error) {
	url := strings.TrimSuffix(os.Getenv("REST_URL"), "/") + path
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("REST_TOKEN"))
	for i := 0; i < len(header); i += 2 {
		if header[i+1] != "" {
			r.Header.Set(header[i], header[i+1])
		}
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < 400 {
		return response, nil
	}
	defer response.Body.Close()
	var problem struct{ Code, Detail string }
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&problem); err != nil || problem.Code == "" {
		return nil, errors.New(response.Status)
	}
	return nil, fmt.Errorf("%s: %s", problem.Code, problem.Detail)
}
