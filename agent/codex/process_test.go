package codex_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// A file can have the output of several processes. One that was killed does not end its turn, and what
// the next one says is not that of a sub-agent.
func TestAProcessAfterAnotherBeginsAnew(t *testing.T) {
	const (
		thread, turn = `{"type":"thread.started","thread_id":"t"}`, `{"type":"turn.started"}`
		done         = `{"type":"turn.completed"}`
	)
	say := func(text string) string {
		return `{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"` + text + `"}}`
	}
	exited, eof := runs.Exit{Reason: runs.ReasonExited, Code: new(0)}, runs.Exit{Reason: runs.ReasonEOF}
	for _, c := range []struct {
		why     string
		lines   []string
		exit    runs.Exit
		final   string
		turns   int64
		outcome string
	}{
		{"the first was killed", []string{thread, turn, say("one"), thread, turn, say("two")}, exited, "two", 2, "completed"},
		{"of both it was imported", []string{thread, turn, say("one"), thread, turn, say("two")}, eof, "", 2,
			"failed (no terminal event)"},
		{"and the second has ended", []string{thread, turn, say("one"), thread, turn, say("two"), done}, eof, "two", 2,
			"completed"},
		{"the second was killed", []string{thread, turn, say("one"), done, thread, turn, say("two")}, eof, "", 2,
			"failed (no terminal event)"},
		{"a sub-agent in the second", []string{thread, turn, say("one"), thread, turn, turn, say("sub"), say("two"), done}, eof,
			"two", 2, "completed"},
	} {
		log := append(backendtest.Output([]byte(strings.Join(c.lines, "\n")+"\n")),
			runs.Entry{Kind: runs.Exited, Time: 3_000, Body: runs.EncodeExit(c.exit)})
		_, fold := backendtest.Fold(codex.Backend{}, log)
		r, final := fold.Record, ""
		if r.FinalText != nil && r.State == runs.StateCompleted {
			final = *r.FinalText
		}
		if final != c.final || r.Steps.Turns != c.turns || r.Outcome() != c.outcome {
			t.Errorf("%s: %q, %d turns, %s; want %q, %d, %s", c.why, final, r.Steps.Turns, r.Outcome(), c.final, c.turns,
				c.outcome)
		}
	}
}
