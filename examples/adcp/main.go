// Command adcp submits a task to Codex over REST with the envelope of AdCP 3.1. An
// idempotency key makes retries safe.
//
//	adcp "Explain what this package does."
//
// ADCP_URL is the base URL of linesman, ADCP_TOKEN a token with the scopes read and
// submit. The exit status is 1 unless the task completed.
package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/cenkalti/backoff/v5"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: adcp PROMPT")
		os.Exit(2)
	}
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "adcp:", err)
		os.Exit(1)
	}
}

// envelope has the fields of a response that this program uses.
type envelope struct {
	Status  string
	TaskID  string          `json:"task_id"`
	Message string          `json:"message"`
	Context json.RawMessage `json:"context"`
	Error   *failure        `json:"adcp_error"`
}

// failure is the adcp_error of a response.
type failure struct {
	Code, Message, Recovery string
	RetryAfter              int `json:"retry_after"` // seconds
}

func (f *failure) Error() string { return f.Code + ": " + f.Message }

func run(ctx context.Context, prompt string) error {
	// A retry with the same key, even after a crash, returns the same task. The
	// context is returned unchanged.
	submitted, err := call(ctx, http.MethodPost, "/v1/runs", map[string]any{
		"task": prompt, "idempotency_key": "adcp-example." + rand.Text(),
		"context": map[string]any{"asked_by": "examples/adcp"},
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "task", submitted.TaskID, submitted.Status, string(submitted.Context))
	for {
		e, err := call(ctx, http.MethodGet, "/v1/runs/"+submitted.TaskID+"/wait?timeout=60", nil)
		switch {
		case err != nil:
			return err
		case e.Status == "submitted" || e.Status == "working" || e.Status == "input-required":
			continue
		case e.Status != "completed":
			return fmt.Errorf("the task is %s: %s", e.Status, e.Message)
		}
		fmt.Println(e.Message)
		return nil
	}
}

// call sends a request and returns the response. It retries transient errors and
// connection errors with exponential backoff.
func call(ctx context.Context, method, path string, body any) (e envelope, err error) {
	var raw []byte
	if body != nil {
		if raw, err = json.Marshal(body); err != nil {
			return e, err
		}
	}
	return backoff.Retry(ctx, func() (envelope, error) {
		e, err := send(ctx, method, path, raw)
		switch {
		case err != nil:
			return e, err
		case e.Error == nil || e.Status == "failed" && e.TaskID != "": // success, or a failed task
			return e, nil
		case e.Error.Recovery != "transient":
			return e, backoff.Permanent(e.Error)
		case e.Error.RetryAfter > 0:
			return e, backoff.RetryAfter(e.Error.RetryAfter)
		}
		return e, e.Error
	}, backoff.WithMaxElapsedTime(0))
}

// send sends a request once.
func send(ctx context.Context, method, path string, body []byte) (e envelope, err error) {
	r, err := http.NewRequestWithContext(ctx, method, os.Getenv("ADCP_URL")+path, bytes.NewReader(body))
	if err != nil {
		return e, err
	}
	r.Header.Set("Authorization", "Bearer "+os.Getenv("ADCP_TOKEN"))
	r.Header.Set("Accept", "application/adcp+json")
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return e, err
	}
	defer response.Body.Close()
	if raw, err := io.ReadAll(io.LimitReader(response.Body, 16<<20)); err != nil {
		return e, err
	} else if json.Unmarshal(raw, &e) != nil || e.Status == "" { // an HTTP error, such as an invalid token
		f := &failure{Code: response.Status, Message: string(raw[:min(len(raw), 300)])}
		return envelope{Status: "rejected", Error: f}, nil
	}
	return e, nil
}
