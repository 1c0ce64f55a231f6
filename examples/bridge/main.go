// Command bridge asks an agent by a file, and is started again for the answer.
// `linesman bridge` answers in between.
//
//	bridge "Explain what this package does."; test $? = 42   # .agent-request-phase1.json is there
//	bridge --resume                                          # prints the answer
//
// It works in the current directory. It exits with 42 when it needs an agent,
// and with 1 when there is no answer or it is an error.
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
	state      = ".bridge-example.json" // what the program remembers
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

// ask writes a request, under another name first: so nobody sees half of it.
func ask(prompt string) error {
	id := rand.Text()
	b, err := json.Marshal(map[string]any{
		"request_id": id, "version": "1.0", "phase": 1, "phase_name": "example", "agent_name": "example", "prompt": prompt,
		"timeout_seconds": 300, "created_at": time.Now().Format(time.RFC3339), "context": map[string]any{}, "model": nil,
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

// resume takes the answer.
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
		return errors.New("the response says nothing")
	case r.Text == nil:
		err = errors.New(*r.Message)
	default:
		_, err = fmt.Println(*r.Text)
	}
	return errors.Join(err, os.Remove(response))
}
