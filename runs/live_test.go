package runs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestARecordListsFewQuestions(t *testing.T) {
	r := runs.NewRecord("T-local-test", "codex")
	r.Entry(runs.Entry{Kind: runs.Proc, Time: 1, Body: []byte(`{"n":1,"do":"start"}`)})
	ask := func(i int, options ...runs.Option) {
		r.Line(runs.Facts{Live: &runs.Told{Asked: &runs.Asked{ID: fmt.Sprint("q", i), Kind: "form", Options: options}}}, 2)
	}
	settle := func(ids ...string) { r.Line(runs.Facts{Live: &runs.Told{Settled: ids}}, 3) }
	check := func(state runs.State, listed int) {
		t.Helper()
		if l := r.Live; r.State != state || len(l.Questions) != listed {
			t.Errorf("%s, %d questions, want %s, %d", r.State, len(l.Questions), state, listed)
		}
	}
	check(runs.StateWorking, 0)
	ask(1, runs.Option{ID: strings.Repeat("x", 1000)})
	ask(2, runs.Option{ID: strings.Repeat("y", 1000)})
	if q := r.Live.Questions; len(q[0].Options) != 1 || q[1].Options != nil {
		t.Errorf("options %v", q)
	}
	for i := range runs.MaxQuestions {
		ask(3 + i)
	}
	check(runs.StateWorking, 10)
	settle("q1", "q99")
	check(runs.StateWorking, 9)
	put := func(id string, due int64) { r.Line(runs.Facts{Live: &runs.Told{People: id, Due: due}}, 3) }
	put("q5", 9)
	put("q3", 0)
	put("q99", 0)
	check(runs.StateInputRequired, 9)
	if ids := r.Header().Questions; !slices.Equal(ids, []string{"q3", "q5"}) || r.Live.WaitsFor != "question" {
		t.Errorf("people are asked %v, the run waits for a %s", ids, r.Live.WaitsFor)
	}
	settle("q3", "q5")
	check(runs.StateWorking, 7)
	put("q2", 0)
	check(runs.StateInputRequired, 7)
	r.Entry(runs.Entry{Kind: runs.Proc, Time: 4, Body: []byte(`{"n":1,"do":"end"}`)})
	check(runs.StateWorking, 0)
	if r.Live.Awake || r.Live.Process != 1 || r.Live.WaitsFor != "" {
		t.Errorf("%+v", r.Live)
	}
	ask(11)
	if h := r.Header(); h.State != runs.StateWorking || h.Unowned() {
		t.Errorf("row %+v", h)
	}
	if r.Unowned() {
		t.Error("unowned")
	}
	r.End(runs.Exit{Reason: runs.ReasonEOF}, 5)
	check(runs.StateFailed, 0)
}

// A cancel of a live run after its turn has no effect.
func TestALateCancelOfALiveRun(t *testing.T) {
	for _, test := range []struct {
		turn runs.Turn
		exit runs.Reason
		want runs.State
	}{
		{runs.TurnCompleted, runs.ReasonEOF, runs.StateCompleted},
		{runs.TurnFailed, runs.ReasonEOF, runs.StateFailed},
		{runs.TurnCompleted, runs.ReasonCancelled, runs.StateCancelled},
		{runs.TurnStarted, runs.ReasonEOF, runs.StateCancelled},
	} {
		r := runs.NewRecord("T-local-test", "codex")
		r.Entry(runs.Entry{Kind: runs.Proc, Time: 1, Body: []byte(`{"n":1,"do":"start"}`)})
		r.Line(runs.Facts{Turn: test.turn, MustEnd: test.turn == runs.TurnStarted}, 2)
		r.Entry(runs.Entry{Kind: runs.Cancelled, Time: 3})
		r.End(runs.Exit{Reason: test.exit, At: 4}, 4)
		if r.State != test.want {
			t.Errorf("turn %v, exit %s: %s", test.turn, test.exit, r.State)
		}
	}
}

// A run that takes messages waits for one between two turns, with a process and without; what it does says so since the
// turn has ended, until there is a message.
func TestARunWaitsForAMessageAlsoAsleep(t *testing.T) {
	r := runs.NewRecord("T-local-test", "codex")
	r.Entry(runs.Entry{Kind: runs.Started, Time: 1, Body: []byte(`{"source":"queue","keep":true}`)})
	process := func(at int64, body string) { r.Entry(runs.Entry{Kind: runs.Proc, Time: at, Body: []byte(body)}) }
	check := func(what string, waits bool, need runs.Need) {
		t.Helper()
		h := r.Header()
		if h.AwaitsMessage() != waits || h.Need(9) != need || waits && (h.Doing == nil || h.Doing.Since != 3) {
			t.Errorf("%s: waits %t, needs %v, does %+v", what, h.AwaitsMessage(), h.Need(9), h.Doing)
		}
	}
	process(1, `{"n":1,"do":"start"}`)
	r.Line(runs.Facts{Turn: runs.TurnStarted, MustEnd: true, Live: &runs.Told{Turn: 1}}, 2)
	check("in a turn", false, runs.NoNeed)
	r.Line(runs.Facts{Turn: runs.TurnCompleted}, 3)
	check("after it", true, runs.NeedsPrompt)
	process(4, `{"n":1,"do":"end","stays":true}`)
	check("asleep", true, runs.NeedsPrompt)
	r.Line(runs.Facts{Live: &runs.Told{Queue: &runs.Queue{Messages: []runs.Message{{ID: "m"}}}}}, 5)
	check("with a message", false, runs.NoNeed)
	process(6, `{"n":2,"do":"start"}`)
	r.Line(runs.Facts{Turn: runs.TurnStarted, MustEnd: true, Live: &runs.Told{Turn: 2, Queue: &runs.Queue{},
		People: "q1", Asked: &runs.Asked{ID: "q1", Kind: "permission"}}}, 7)
	check("when it asks", false, runs.NeedsAnswer)
	if h := r.Header(); h.Turn != 2 {
		t.Errorf("turn %d", h.Turn)
	}
}
