package runs_test

import (
	"testing"

	"github.com/linesman/linesman/runs"
)

// followed returns the record of a followed session, of which a person is the user or not.
func followed(person bool) *runs.Record {
	r := runs.NewRecord("T-local-test", "codex")
	r.Entry(runs.Entry{Kind: runs.Started, Time: second, Body: runs.Encode(runs.Start{Source: "session", Person: person})})
	return r
}

func told(r *runs.Record, at int64, p runs.Presence) {
	r.Entry(runs.Entry{Kind: runs.Note, Time: at, Body: runs.Encode(runs.Remark{Reason: runs.NotePresence, Presence: &p})})
}

var (
	begins = runs.Facts{Turn: runs.TurnStarted, MustEnd: true, Log: true, Doing: runs.Doing{Phase: runs.Thinking}}
	ends   = runs.Facts{Turn: runs.TurnCompleted, Log: true}
	calls  = runs.Facts{Opened: runs.Call{ID: "1", Kind: "tool_use", Name: "Bash"}, Log: true}
	closes = runs.Facts{Closed: "1", Log: true}
)

// The log of a session does not tell a running tool from a prompt for a permission. It is said so,
// unless the agent does not ask, or tells beside the log.
func TestOpenCallOfAPersonsSessionMayWaitForAPermission(t *testing.T) {
	with := func(facts ...runs.Facts) []runs.Facts { return append([]runs.Facts{begins}, facts...) }
	for name, c := range map[string]struct {
		person bool
		lines  []runs.Facts
		want   string
		need   runs.Need
	}{
		"a person's": {true, with(calls), "running Bash or waiting for permission for 1m", runs.MayNeedAnswer},
		"nobody's":   {false, with(calls), "running Bash for 1m", runs.NoNeed},
		"never asks": {true, with(runs.Facts{Asks: runs.AsksNever}, calls), "running Bash for 1m", runs.NoNeed},
		"asks again": {true, with(runs.Facts{Asks: runs.AsksNever}, runs.Facts{Asks: runs.AsksPerhaps}, calls),
			"running Bash or waiting for permission for 1m", runs.MayNeedAnswer},
		"it has ended":  {true, with(calls, closes), "thinking for 1m", runs.NoNeed},
		"a turn's end":  {true, with(calls, closes, ends), "your turn for 1m", runs.NeedsPrompt},
		"nobody's turn": {false, with(ends), "", runs.NoNeed},
	} {
		r := followed(c.person)
		for _, f := range c.lines {
			r.Line(f, 2*second)
		}
		if got := r.Doing.Text(minute + 2*second); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := r.Doing.Need(r.State, minute+2*second); got != c.need {
			t.Errorf("%s: need %d, want %d", name, got, c.need)
		}
		row, err := runs.ParseHeader(r.Header().Text(), nil)
		if err != nil || (row.Doing == nil) != (r.Doing.Phase == "") || row.Doing != nil && *row.Doing != r.Doing {
			t.Errorf("%s: the row has %+v, %v", name, row.Doing, err)
		}
	}
	r := followed(true)
	r.Line(begins, second)
	r.Line(calls, second)
	if got := r.Doing.Need(r.State, second+runs.MayNeedAfter-1); got != runs.NoNeed {
		t.Errorf("a call of less than the limit: need %d", got)
	}
}

// What the agent tells beside the log counts until its next line, and then it is known that it
// tells.
func TestPresence(t *testing.T) {
	r := followed(true)
	r.Line(begins, 2*second)
	r.Line(calls, 3*second)
	for i, c := range []struct {
		step func()
		want runs.Doing
		need runs.Need
	}{
		{func() { told(r, 9*second, runs.Presence{Does: runs.Waits, Since: 4 * second}) },
			runs.Doing{Phase: runs.AwaitingInput, Since: 4 * second}, runs.NeedsAnswer},
		{func() { told(r, 9*second, runs.Presence{Does: runs.Works, Since: 8 * second}) },
			runs.Doing{Phase: runs.RunningTool, Tool: "Bash", Since: 3 * second}, runs.NoNeed},
		{func() { told(r, 10*second, runs.Presence{Does: "of a later version"}) },
			runs.Doing{Phase: runs.RunningTool, Tool: "Bash", Since: 3 * second}, runs.NoNeed},
		{func() { r.Line(closes, 11*second) }, runs.Doing{Phase: runs.Thinking, Since: 11 * second}, runs.NoNeed},
		{func() { r.Line(ends, 12*second) }, runs.Doing{Phase: runs.YourTurn, Since: 12 * second}, runs.NeedsPrompt},
		{func() { told(r, 14*second, runs.Presence{Does: runs.Rests, Since: 13 * second}) },
			runs.Doing{Phase: runs.YourTurn, Since: 12 * second}, runs.NeedsPrompt},
		{func() { told(r, 15*second, runs.Presence{Does: runs.Works, Since: 15 * second}) },
			runs.Doing{Phase: runs.Thinking, Since: 15 * second}, runs.NoNeed},
		{func() { told(r, 16*second, runs.Presence{Does: runs.Rests, Since: 99 * second}) }, // a clock that is ahead
			runs.Doing{Phase: runs.YourTurn, Since: 16 * second}, runs.NeedsPrompt},
		{func() {
			r.End(runs.Exit{Reason: runs.ReasonEOF}, 17*second)
			told(r, 18*second, runs.Presence{Does: runs.Waits})
		}, runs.Doing{}, runs.NoNeed},
	} {
		c.step()
		if r.Doing != c.want {
			t.Errorf("step %d: %+v, want %+v", i+1, r.Doing, c.want)
		}
		if got := r.Doing.Need(r.State, hour); got != c.need {
			t.Errorf("step %d: need %d, want %d", i+1, got, c.need)
		}
	}
	late := followed(true) // a line that is read after the note, but was written before it
	told(late, 9*second, runs.Presence{Does: runs.Waits, Since: 5 * second})
	late.Line(begins, 3*second)
	late.Line(calls, 4*second)
	if want := (runs.Doing{Phase: runs.AwaitingInput, Since: 5 * second}); late.Doing != want {
		t.Errorf("after a late line: %+v, want %+v", late.Doing, want)
	}
	late.Line(closes, 6*second)
	if late.Doing.Phase != runs.Thinking {
		t.Errorf("after the answer: %+v", late.Doing)
	}
	for _, does := range []runs.Does{runs.Works, runs.Waits} { // a note that comes after a line that is newer
		old := followed(true)
		old.Line(begins, 3*second)
		old.Line(ends, 4*second)
		told(old, 9*second, runs.Presence{Does: does, Since: 2 * second})
		if old.Doing.Phase != runs.YourTurn {
			t.Errorf("after an old note that it %s: %+v", does, old.Doing)
		}
	}
	for _, body := range []string{"", "7", `{"reason":"presence"}`, `{"reason":"presence","presence":7}`} {
		r := followed(true)
		r.Entry(runs.Entry{Kind: runs.Note, Time: second, Body: []byte(body)})
		if r.Presence != nil || r.Doing != (runs.Doing{}) {
			t.Errorf("%q tells something", body)
		}
	}
}
