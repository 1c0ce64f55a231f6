package responder_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// operation returns an operation of a service, with its request.
func operation[Q, A any](t *testing.T, s *responder.Service, op api.Op[Q, A]) func(Q) (A, error) {
	t.Helper()
	for _, o := range s.Operations() {
		if o.Name == op.Name {
			return func(q Q) (A, error) {
				out, err := o.Do(t.Context(), &q)
				a, _ := out.(A)
				return a, err
			}
		}
	}
	t.Fatalf("there is no operation %s", op.Name)
	return nil
}

// The messages that wait fit into a message of every NATS server, whatever their texts take: those that do not are told
// by their sizes. In the process there are all of them.
func TestMessagesThatWaitFitIntoAMessage(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	s.BeginLive("codex", "talks", runs.Start{Source: "queue", Worker: "w1", Keep: true})
	s.Await("talks", servicetest.Working)
	texts := []string{strings.Repeat(`"`, runs.MaxMessage-1)} // as JSON it has twice the size
	for i := range 3 {
		texts = append(texts, fmt.Sprint(i, strings.Repeat("x", runs.MaxMessage-1)))
	}
	for _, text := range texts {
		if _, err := s.Service.Send(t.Context(), api.SendRequest{Run: "talks", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
	q := api.RunRequest{Run: "talks"}
	all, err := s.Service.Messages(t.Context(), q)
	if err != nil || len(all.Messages) != len(texts) {
		t.Fatalf("%d messages, %v", len(all.Messages), err)
	}
	for i, m := range all.Messages {
		if m.Text != texts[i] || m.Bytes != 0 {
			t.Errorf("message %d: %d bytes, %d are left out", i, len(m.Text), m.Bytes)
		}
	}
	some, err := operation(t, s.Service, api.OpMessages)(q)
	if size := len(runs.Encode(some)); err != nil || len(some.Messages) != len(texts) || size > 576<<10 {
		t.Fatalf("%d messages in %d bytes, %v", len(some.Messages), size, err)
	}
	for i, m := range some.Messages {
		shown := i == 0
		if m.Message != all.Messages[i].Message || shown != (m.Text == texts[i]) || !shown && m.Bytes != len(texts[i]) {
			t.Errorf("message %d: %d bytes, %d are left out", i, len(m.Text), m.Bytes)
		}
	}
}
