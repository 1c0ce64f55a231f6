// Command bridge requests an answer from an agent with a file, exits, and is
// restarted when `linesman bridge` has written the answer.
//
//	bridge "Explain what this package does."; test $? = 42   # writes .agent-request-phase1.json
//	bridge --resume                                          # prints the answer
//
// It works in the current directory. The exit status is 42 if it needs an answer,
// and 1 if there is no answer or the answer is an error.
package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

const (
	needsAgent = 42
	request    = ".agent-request-phase1.json"
	response   = ".agent-response-phase1.json"
	state      = ".bridge-example.json" // state of this program
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bridge PROMPT | --resume")
		os.Exit(2)
	}
	run, done := ask, needsAgent
	if os.Args[1] == "--resume" {
		run, done = resume, 0
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "bridge:", err)
		done = 1
	}
	os.Exit(done)
}

// ask writes a request. The rename makes the write atomic for readers.
func ask(prompt string) error {
	id := rand.Text()
	b, err := json.Marshal(map[string]any{
		"request_id": id, "version": "1.0", "phase": 1, "phase_name": "example",
		"agent_name": "example", "prompt": prompt,
		"timeout_seconds": 300, "created_at": time.Now().Format(time.RFC3339),
		"context": map[string]any{}, "model": nil,
	})
	if err != nil {
		return err
	}
	if err := os.WriteFile(state, []byte(id), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(request+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(request+".new", request)
}

// resume reads, prints and removes the answer.
func resume(string) error {
	id, err := os.ReadFile(state)
	if err != nil {
		return err
	}
	b, err := os.ReadFile(response)
	if err != nil {
		return err
	}
	var r struct {
		ID      string  `json:"request_id"`
		Status  string  `json:"status"`
		Text    *string `json:"response"`
		Message *string `json:"error_message"`
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return err
	}
	switch {
	case r.ID != string(id):
		return errors.New("the response is to another request")
	case r.Text == nil && r.Message == nil:
		return errors.New("the response has neither text nor error message")
	case r.Text == nil:
		err = errors.New(*r.Message)
	default:
		_, err = fmt.Println(*r.Text)
	}
	return errors.Join(err, os.Remove(response))
}
