package responder_test

import (
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// Only what an agent said at the end of a run that completed is its reply.
func TestReplyIsOfARunThatCompleted(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	begin := func(id string) *servicetest.Log {
		return s.Begin("codex", id, runs.Start{Source: "run"}).Out([]byte(`{"type":"item.completed","item":` +
			`{"id":"i","type":"agent_message","text":"half of it"}}` + "\n" + `{"type":"turn.completed","usage":{}}` + "\n"))
	}
	begin("good").Exit(0)
	begin("bad").Exit(3)
	begin("open")
	for _, id := range []string{"good", "bad"} {
		s.Await(id, func(v runs.Header) bool { return v.State.Final() })
	}
	s.Await("open", func(runs.Header) bool { return true })
	if r, err := s.Service.Reply(t.Context(), api.ReplyRequest{Run: "good"}); err != nil || r.Text != "half of it" ||
		r.Status != runs.ReplySuccess || r.Bytes != len(r.Text) || r.Next != 0 {
		t.Errorf("got %+v, %v", r, err)
	}
	for id, want := range map[string]api.Code{"bad": api.NotFound, "open": api.NotEnded, "none": api.NotFound} {
		_, err := s.Service.Reply(t.Context(), api.ReplyRequest{Run: id})
		if e := api.Known(err); err == nil || e.Code != want || (e.Field == api.FieldReply) != (id == "bad") {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := s.Service.Reply(t.Context(), api.ReplyRequest{Run: "good", Offset: 11}); code(t, err) != api.Validation {
		t.Errorf("beyond the end: %v", err)
	}
	// It is no question, whoever asks with its id.
	asked := api.AskRequest{Run: "open", Prompt: "Which?", Timeout: 1000}
	if _, err := s.Service.Ask(t.Context(), asked); code(t, err) != api.Conflict {
		t.Errorf("asked with the id of an agent's run: %v", err)
	}
}

// A question from outside ends when its time is over, not before.
func TestQuestionExpiresWhenItsTimeIsOver(t *testing.T) {
	t.Parallel()
	s := detailed(t, nil)
	for id, limit := range map[string]time.Duration{"long": time.Hour, "short": time.Second} {
		q := api.AskRequest{Run: id, Prompt: "Which?", Timeout: limit.Milliseconds()}
		if _, err := s.Service.Ask(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		s.Await(id, func(v runs.Header) bool { return v.State == runs.StateInputRequired })
	}
	if _, err := s.Service.Expire(t.Context(), api.RunRequest{Run: "long"}); code(t, err) != api.Conflict {
		t.Errorf("expired early: %v", err)
	}
	for _, id := range []string{"short", "none"} {
		if _, err := s.Service.Expire(t.Context(), api.RunRequest{Run: id}); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	s.Await("short", func(v runs.Header) bool { return v.State == runs.StateTimeout })
	for _, q := range []api.AskRequest{
		{Run: "x", Prompt: "Which?"}, {Run: "x", Prompt: "Which?", Timeout: 1_000_000_001}, {Run: "x", Timeout: 1000},
		{Run: "no id!", Prompt: "Which?", Timeout: 1000}, {Run: "x", Prompt: strings.Repeat("x", 10_001), Timeout: 1000},
		{Run: "x", Prompt: "Which?", Timeout: 1000, Labels: runs.LabelsOf(map[string]string{"linesman.x": "y"})},
	} {
		if _, err := s.Service.Ask(t.Context(), q); code(t, err) != api.Validation {
			t.Errorf("%.80v: %v", q, err)
		}
	}
}
