package normalizer_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Output that follows the end of an agent with its turn is of processes that it left, and makes no
// events; else they do its work. A cancel of what was left is not one of the agent.
func TestOutputOfWhatAnAgentLeftMakesNoEvents(t *testing.T) {
	const (
		begins, ends = `{"type":"turn.started"}` + "\n", `{"type":"turn.completed","usage":{}}` + "\n"
		message      = `{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"SECRET"}}` + "\n"
	)
	note := runs.Encode(runs.Remark{Reason: runs.NoteLeft})
	exited := func(at int64) []byte {
		return runs.EncodeExit(runs.Exit{Reason: runs.ReasonExited, Code: new(int), At: at})
	}
	for _, c := range []struct {
		why       string
		own, left string
		cancel    bool
		exit      []byte
		events    int // of what was left
		state     runs.State
	}{
		{"of others", begins + ends, "up\n" + message + "half", false, exited(4), 0, runs.StateCompleted},
		{"after half a line of the agent", begins + ends + `{"type"`, "up\n", false, exited(4), 0, runs.StateCompleted},
		{"of the agent's own child", begins, message + ends, false, exited(4), 2, runs.StateCompleted},
		{"cancelled after the end of the agent", begins + ends, "up\n", true, exited(4), 0, runs.StateCompleted},
		{"cancelled before it", begins + ends, "up\n", true, exited(9), 0, runs.StateCancelled},
		{"the work of a child was cancelled", begins, message, true, exited(4), 1, runs.StateCancelled},
		{"it did not exit", begins + ends, "", false, runs.EncodeExit(runs.Exit{Reason: runs.ReasonFinished, Signal: 15}), 0,
			runs.StateCompleted},
	} {
		log := []runs.Entry{
			{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run"})},
			{Kind: runs.Out, Time: 2, Body: []byte(c.own)},
		}
		before, _ := backendtest.Fold(codex.Backend{}, log)
		if strings.HasSuffix(c.own, `{"type"`) { // the note ends the line
			before, _ = backendtest.Fold(codex.Backend{}, append(log[:2:2], runs.Entry{Kind: runs.Note, Time: 5, Body: note}))
		}
		log = append(log, runs.Entry{Kind: runs.Note, Time: 5, Body: note},
			runs.Entry{Kind: runs.Out, Time: 5, Offset: int64(len(c.own)), Body: []byte(c.left)})
		if c.cancel {
			log = append(log, runs.Entry{Kind: runs.Cancelled, Time: 6, Body: []byte("{}")})
		}
		after, _ := backendtest.Fold(codex.Backend{}, log)
		_, fold := backendtest.Fold(codex.Backend{}, append(log, runs.Entry{Kind: runs.Exited, Time: 10, Body: c.exit}))
		if n := len(after) - len(before); n != c.events || fold.Record.State != c.state ||
			fold.Record.Bytes != int64(len(c.own)+len(c.left)) {
			t.Errorf("%s: %d events, %s, %d bytes", c.why, n, fold.Record.Outcome(), fold.Record.Bytes)
		}
	}
}
