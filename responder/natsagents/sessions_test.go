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
	begin := func(name string, n int) (begun int32) {
		var all atomic.Int32
		parallel(n, func(i int) {
			a := s.ask("agents.prompt.codex.ada."+name, fmt.Sprintf(
				`{"prompt":"Go.","linesman":{"keep":true,"idempotency_key":"%s-key-of-sixteen-%d"}}`, name, i))
			for {
				switch a.next() {
				case "linesman.run":
					all.Add(1)
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
}
