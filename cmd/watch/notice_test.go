package watch

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// ago is a time before noon.
func ago(d time.Duration) runs.Time { return runs.Time(noon.Add(-d).UnixMilli()) }

// working is a run of the queue that began an hour ago, and was silent for so long.
func working(silent time.Duration, doing *runs.Doing) *api.Run {
	return &api.Run{
		Summary: runs.Summary{
			ID: "r", Attributes: runs.Attributes{Agent: "codex"}, State: runs.StateWorking, Source: "queue", Worker: "w", Seq: 7,
			StartedAt: ago(time.Hour), ActiveAt: ago(silent), Doing: doing,
		},
	}
}

func all() rules { return rules{On: kinds, StalledAfter: 10 * time.Minute} }

func kindsOf(notices []notice) string {
	var got []string
	for _, n := range notices {
		got = append(got, string(n.Kind))
	}
	return strings.Join(got, " ")
}

func TestWhatHoldsForARun(t *testing.T) {
	t.Parallel()
	doing := func(p runs.Phase) *runs.Doing { return &runs.Doing{Phase: p, Since: ago(30 * time.Minute)} }
	with := func(run *api.Run, change func(*api.Run)) *api.Run { change(run); return run }
	lost := func(r *api.Run) { r.WorkerLost = true }
	limited := func(next time.Duration) *runs.Doing { return &runs.Doing{Phase: runs.RateLimited, NextAt: ago(-next)} }
	source := func(s string) func(*api.Run) { return func(r *api.Run) { r.Source = s } }
	ended := func(s runs.State, reason string) *api.Run {
		return with(working(0, nil), func(r *api.Run) { r.State, r.Reason, r.EndedAt = s, reason, ago(0) })
	}
	for name, one := range map[string]struct {
		run  *api.Run
		want string
	}{
		"active":                      {working(time.Minute, doing(runs.Thinking)), ""},
		"just not":                    {working(10*time.Minute-1e6, doing(runs.Thinking)), ""},
		"thinks too long":             {working(10*time.Minute, doing(runs.Thinking)), "stalled"},
		"starts too long":             {working(11*time.Minute, doing("starting")), "stalled"},
		"a long tool call":            {working(50*time.Minute, doing(runs.RunningTool)), ""},
		"a sub-agent":                 {working(50*time.Minute, doing(runs.AwaitingAgent)), ""},
		"asks a person":               {working(50*time.Minute, doing(runs.AwaitingInput)), "needs-input"},
		"waits for the provider":      {working(50*time.Minute, limited(time.Minute)), ""},
		"waited for the provider":     {working(50*time.Minute, limited(-time.Minute)), "stalled"},
		"nothing is known":            {working(50*time.Minute, nil), "stalled"},
		"a session between two turns": {with(working(50*time.Minute, nil), source("session")), ""},
		"a session in a turn":         {with(working(50*time.Minute, doing(runs.Thinking)), source("session")), "stalled"},
		"a task in the cloud":         {with(working(50*time.Minute, nil), source("cloud")), ""},
		"worker lost":                 {with(working(time.Minute, doing(runs.Thinking)), lost), "lost"},
		"worker lost in a call":       {with(working(11*time.Minute, doing(runs.RunningTool)), lost), "lost stalled"},
		"worker lost in a session":    {with(with(working(11*time.Minute, nil), source("session")), lost), "lost stalled"},
		"queued": {&api.Run{Summary: runs.Summary{ID: "r", State: runs.StateQueued,
			QueuedAt: ago(time.Hour)}}, ""},
		"waits outside": {&api.Run{Summary: runs.Summary{ID: "r", State: runs.StateInputRequired}},
			"needs-input"},
		"idle": {with(working(50*time.Minute, doing(runs.YourTurn)), func(r *api.Run) {
			r.State, r.Turn = runs.StateInputRequired, 2
		}), "turn"},
		"asks": {with(working(50*time.Minute, doing(runs.AwaitingInput)), func(r *api.Run) {
			r.State, r.Turn, r.Questions = runs.StateInputRequired, 2, []string{"q1"}
		}), "needs-input"},
		"in a later turn": {with(working(50*time.Minute, doing(runs.Thinking)), func(r *api.Run) { r.Turn = 3 }), "stalled"},
		"completed":       {ended(runs.StateCompleted, ""), "completed"},
		"failed":          {ended(runs.StateFailed, "exit status"), "failed"},
		"timed out":       {ended(runs.StateTimeout, "idle"), "failed"},
		"cancelled":       {ended(runs.StateCancelled, ""), "cancelled"},
		"ended as lost":   {ended(runs.StateFailed, "lost"), "failed lost"},
	} {
		rules := all()
		if got := kindsOf(rules.Run(one.run, activity{}.Observe(one.run, noon), noon)); got != one.want {
			t.Errorf("%s: %q, want %q", name, got, one.want)
		}
		rules.On = nil
		if got := rules.Run(one.run, noon.Add(-time.Hour), noon); got != nil {
			t.Errorf("%s: %v although nothing is wanted", name, got)
		}
	}
}

// What differs in each attempt, such as the time, is not part of an id; what happens again is.
func TestIDs(t *testing.T) {
	t.Parallel()
	rules := all()
	rules.Budgets = []budget{{Unit: unitTime, Limit: int64(time.Minute)}}
	id := func(run *api.Run, now time.Time) (ids []string) {
		for _, n := range rules.Run(run, noon.Add(-20*time.Minute), now) {
			ids = append(ids, n.ID)
		}
		return ids
	}
	first := id(working(20*time.Minute, nil), noon)
	if again := id(working(20*time.Minute, nil), noon.Add(time.Minute)); !slices.Equal(first, again) {
		t.Errorf("%q, then %q", first, again)
	}
	if want := []string{"r/stalled/1795434000000", "r/budget/time=1m0s/run"}; !slices.Equal(first, want) {
		t.Errorf("%q, want %q", first, want)
	}
	if next := id(working(15*time.Minute, nil), noon); next[0] == first[0] {
		t.Errorf("another silence has the same id %s", next[0])
	}
}

// The times of a run are those of its worker's clock; what counts is when this process saw
// a change.
func TestActivityIsTimedByOurOwnClock(t *testing.T) {
	t.Parallel()
	a, run := activity{}, working(-time.Hour, nil) // its clock is an hour ahead
	if got := a.Observe(run, noon); !got.Equal(noon) {
		t.Errorf("active at %v, want now", got)
	}
	if got := a.Observe(run, noon.Add(20*time.Minute)); !got.Equal(noon) {
		t.Errorf("active at %v, want when it was seen first", got)
	}
	run.Seq, run.ActiveAt = 8, ago(5*time.Hour) // and now behind
	later := noon.Add(30 * time.Minute)
	if got := a.Observe(run, later); !got.Equal(later) {
		t.Errorf("active at %v, want %v", got, later)
	}
}

// A title is what somebody wrote into a prompt.
func TestTextIsOneSafeLine(t *testing.T) {
	t.Parallel()
	run := working(time.Hour, nil)
	run.Title, run.Worker, run.WorkerLost = "a\nb\x1b[2J\u202ec $(id) `id`", "w\x1b", true
	rules := all()
	rules.CancelOn = []kind{kindStalled}
	got := rules.Run(run, noon.Add(-time.Hour), noon)
	for _, n := range got {
		if strings.ContainsFunc(n.Text, func(r rune) bool { return r < ' ' || r == '\u202e' }) {
			t.Errorf("text %q", n.Text)
		}
		if n.Cancel != (n.Kind == kindStalled) {
			t.Errorf("%s: cancel %v", n.Kind, n.Cancel)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d notices", len(got))
	}
}

func TestParseKinds(t *testing.T) {
	t.Parallel()
	got, err := parseKinds([]string{"lost", " stalled", "lost"}, kinds...)
	if err != nil || !slices.Equal(got, []kind{kindLost, kindStalled}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := parseKinds([]string{"stuck"}, kinds...); err == nil || !strings.Contains(err.Error(), `got "stuck"`) {
		t.Errorf("stuck: %v", err)
	}
}
