package natsagents_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Sessions are counted from their prompt on: queued, at once, and only those of the profiles that there are.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *settings) {
		for _, name := range []string{"chat", "other"} {
			c.Profiles = append(c.Profiles, responder.Profile{Owner: "ada", Name: name, Live: true,
				Attributes: runs.Attributes{Agent: "codex"}})
		}
	})
	s.found(2)
	gone := runs.LabelsOf(map[string]string{runs.LabelProfile: "codex.ada.gone", runs.LabelKeep: "true"})
	for i := range 3 {
		l := s.BeginLive("codex", fmt.Sprintf("T-local-gone%d", i), runs.Start{Source: "queue", Worker: "w1", Keep: true,
			Attributes: runs.Attributes{Labels: gone}})
		l.EndTurn("Done.", "end_turn")
		s.Await(fmt.Sprintf("T-local-gone%d", i), func(v runs.Header) bool { return v.Turn > 0 })
	}
	var first atomic.Value // a prompt that began one
	begin := func(name string, n int) (begun int32) {
		var all atomic.Int32
		parallel(n, func(i int) {
			body := fmt.Sprintf(`{"prompt":"Go.","linesman":{"keep":true,"idempotency_key":"%s-key-of-sixteen-%d"}}`, name, i)
			a := s.ask("agents.prompt.codex.ada."+name, body)
			for {
				switch a.next() {
				case "linesman.run":
					all.Add(1)
					if name == "chat" {
						first.Store(body)
					}
					return
				case "end":
					if a.code != "429" || !strings.Contains(fmt.Sprint(a.body["message"]), "sessions") {
						t.Errorf("refused: %s %v", a.code, a.body)
					}
					return
				}
			}
		})
		return all.Load()
	}
	if n := begin("chat", 60); n != 48 {
		t.Errorf("one profile has %d sessions", n)
	}
	if n := begin("other", 30); n != 16 {
		t.Errorf("another one has %d sessions", n)
	}
	if open := s.Service.Snapshot(0, nil); len(open.Queued) != 64 {
		t.Errorf("%d runs", len(open.Queued))
	}

	// A key is looked up before there is no room.
	again := s.ask("agents.prompt.codex.ada.chat", first.Load().(string)).until("linesman.run")
	if v, known := s.Service.Get(again.run); !known || v.State != runs.StateQueued {
		t.Errorf("repeated: %s", again.run)
	}
	if open := s.Service.Snapshot(0, nil); len(open.Queued) != 64 {
		t.Errorf("%d runs", len(open.Queued))
	}
}

// What has a key is answered before it is checked, see decision 0096.
func TestRepeatedPromptIsAnsweredBeforeItIsChecked(t *testing.T) {
	t.Parallel()
	profiles := []responder.Profile{{Owner: "ada", Name: "chat", Live: true, Attributes: runs.Attributes{Agent: "codex"}}}
	s := newStage(t, func(c *settings) { c.Profiles = profiles })
	s.found(1)
	const keep = `{"prompt":"Go.","attachments":[{"filename":"a","content":"YQ=="}],` +
		`"linesman":{"keep":true,"live":true,"idempotency_key":"a-key-of-sixteen"}}`
	a := s.ask(chat, keep).until("linesman.run")
	s.stop()
	profiles[0].Live = false
	s.again()
	s.found(1)
	if b := s.ask(chat, keep).until("linesman.run"); b.run != a.run {
		t.Errorf("%s is repeated as %s", a.run, b.run)
	}
	other := strings.Replace(keep, "Go.", "Stop.", 1)
	if code, what := s.ask(chat, other).refused(); code != "400" || what != "validation" {
		t.Errorf("another prompt: %s %s", code, what)
	}
}
