package runs_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

var ok = runs.Exit{Reason: runs.ReasonEOF}

func TestProgress(t *testing.T) {
	opened, closed := func(n int) runs.Facts { return runs.Facts{Opened: call(n)} },
		func(n int) runs.Facts { return runs.Facts{Closed: call(n).ID} }
	todo := func(done, total int) runs.Facts { return runs.Facts{Todo: &runs.Todo{Done: done, Total: total}} }
	turn, completed, failed := runs.Facts{Turn: runs.TurnStarted}, runs.Facts{Turn: runs.TurnCompleted},
		runs.Facts{Turn: runs.TurnFailed}
	message := runs.Facts{Step: true}
	for _, c := range []struct {
		why   string
		facts []runs.Facts
		want  string // percent done/total
	}{
		{"nothing", nil, "none"},
		{"lines without steps", []runs.Facts{{}, {Unknown: true}, {Malformed: true}}, "none"},
		{"a turn", []runs.Facts{turn}, "50 0/1"},
		{"a call begins", []runs.Facts{turn, opened(1)}, "50 0/2"},
		{"a call ends", []runs.Facts{turn, opened(1), closed(1)}, "75 1/2"},
		{"the next call begins: no decrease", []runs.Facts{turn, opened(1), closed(1), opened(2)}, "75 1/3"},
		{"a message", []runs.Facts{turn, opened(1), closed(1), message}, "83 2/3"},
		{"a call that only ends", []runs.Facts{turn, closed(1)}, "75 1/2"},
		{"many steps", append([]runs.Facts{turn}, repeat(message, 99)...), "95 99/100"},
		{"the turn is completed", []runs.Facts{turn, message, completed}, "99 2/2"},
		{"the turn failed", []runs.Facts{turn, message, failed}, "95 2/2"},
		{"a second turn", []runs.Facts{turn, message, completed, turn}, "99 2/3"},
		{"a call left running", []runs.Facts{turn, opened(1), completed}, "75 1/2"},
		{"attached in the middle of a turn", []runs.Facts{message, completed}, "99 2/2"},
		{"a list", []runs.Facts{turn, todo(1, 4)}, "50 1/4"},
		{"a list that is done", []runs.Facts{turn, todo(4, 4)}, "99 4/4"},
		{"the newest list counts", []runs.Facts{todo(3, 4), todo(1, 8)}, "75 1/8"},
		{"a list without items", []runs.Facts{turn, todo(0, 0)}, "50 0/1"},
		{"calls beside a list", []runs.Facts{todo(1, 4), opened(1), closed(1), message}, "25 1/4"},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		for _, f := range c.facts {
			r.Line(f, 1)
		}
		got := "none"
		if p := r.Progress; p != nil {
			got = fmt.Sprintf("%d %d/%d", p.Percent, p.Done, p.Total)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.why, got, c.want)
		}
	}
}

func repeat(f runs.Facts, n int) []runs.Facts {
	all := make([]runs.Facts, n)
	for i := range all {
		all[i] = f
	}
	return all
}

// The percentage never decreases, and is 100 if and only if the run has completed.
func TestProgressNeverFalls(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := runs.NewRecord("T-local-x", "codex")
		last := 0
		check := func() {
			if r.Progress == nil {
				return
			}
			if p := r.Progress.Percent; p < last || (p == 100) != (r.State == runs.StateCompleted) {
				t.Fatalf("%d percent after %d, %s", p, last, r.State)
			}
			last = r.Progress.Percent
		}
		for range rapid.IntRange(0, 60).Draw(t, "lines") {
			f := runs.Facts{Turn: runs.Turn(rapid.IntRange(0, 3).Draw(t, "turn")), Step: rapid.Bool().Draw(t, "step")}
			switch n := rapid.IntRange(0, 9).Draw(t, "call"); rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				f.Opened = call(n)
			case 1:
				f.Closed = call(n).ID
			case 2:
				total := rapid.IntRange(0, 9).Draw(t, "total")
				f.Todo = &runs.Todo{Done: rapid.IntRange(0, total).Draw(t, "done"), Total: total}
			}
			r.Line(f, 1)
			check()
		}
		r.End(rapid.SampledFrom([]runs.Exit{ok, {Reason: runs.ReasonIdle}, {Reason: runs.ReasonLost},
			{Reason: runs.ReasonCancelled}}).Draw(t, "exit"), 2)
		check()
		if r.State == runs.StateCompleted && r.Progress == nil {
			t.Fatal("completed, without progress")
		}
	})
}

func TestActivity(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	for _, c := range []struct {
		f    runs.Facts
		want string
	}{
		{runs.Facts{}, ""},
		{runs.Facts{Activity: "Running make\n\n  test\x1b\x00 all "}, "Running make test all"},
		{runs.Facts{Closed: "x"}, "Running make test all"},
		{runs.Facts{Activity: "Running curl -H 'Authorization: Bearer abcdef'"},
			"Running curl -H 'Authorization: Bearer [redacted]'"},
		{runs.Facts{Activity: strings.Repeat("é", 200)}, strings.Repeat("é", 200)},
		{runs.Facts{Activity: strings.Repeat("é", 201)}, strings.Repeat("é", 199) + "…"},
		{runs.Facts{Activity: strings.Repeat("ab ", 100)}, strings.Repeat("ab ", 66) + "a…"},
		{runs.Facts{Activity: "\xff\xfe"}, ""},
		{runs.Facts{Activity: "x", Turn: runs.TurnStarted}, "x"},
		{runs.Facts{Turn: runs.TurnCompleted}, ""},
		{runs.Facts{Activity: "y"}, "y"},
	} {
		if r.Line(c.f, 1); r.Activity != c.want {
			t.Errorf("%.40q: %q, want %q", c.f.Activity, r.Activity, c.want)
		}
	}
	if r.End(runs.Exit{Reason: runs.ReasonLost}, 2); r.Activity != "" {
		t.Errorf("after the end: %q", r.Activity)
	}
}
