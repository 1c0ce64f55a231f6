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
	if ids := r.Header().Questions; !slices.Equal(ids, []string{"q3", "q5"}) || r.Live.WaitsFor != runs.WaitsQuestion {
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
