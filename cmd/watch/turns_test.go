package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/delivery"
	"github.com/linesman/linesman/runs"
)

// mute is a sink that answers nothing: each delivery takes long, and fails.
type mute struct {
	mu    sync.Mutex
	tries map[string]int // by run
}

func (m *mute) Deliver(ctx context.Context, n notice) error {
	m.mu.Lock()
	m.tries[n.Run]++
	m.mu.Unlock()
	_ = sleep(ctx, 30*time.Second)
	return &delivery.Refusal{Why: "no answer"}
}

// More notices are pending than can be tried in the longest pause: a run that is over its budget is cancelled before
// all others, and each notice has its turn.
func TestEachNoticeHasItsTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, m := newLinesman(), &mute{tries: map[string]int{}}
		rules := rules{On: []kind{kindLost, kindBudget}, StalledAfter: time.Hour,
			Budgets: budgets(t, "tokens=1k/run"), CancelOn: []kind{kindBudget}}
		for i := range 60 {
			l.set(nowRun(fmt.Sprint("r", i), func(r *api.Run) { r.WorkerLost = true }))
		}
		stop := watching(t, Config{Runs: l, Rules: rules, Sink: m})
		time.Sleep(10 * time.Second)
		l.set(nowRun("long", func(r *api.Run) { r.Tokens = &runs.Spend{Output: 1000} }))
		time.Sleep(time.Minute)
		l.mu.Lock()
		if !slices.Contains(l.cancelled, "long linesman watch: budget/tokens=1000/run") {
			t.Errorf("cancelled %q", l.cancelled)
		}
		l.mu.Unlock()
		time.Sleep(time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		for i := range 60 {
			if n := m.tries[fmt.Sprint("r", i)]; n < 5 || n > 20 {
				t.Errorf("run %d: %d attempts", i, n)
			}
		}
	})
}

// Linesman does not take a cancel for longer than notices are kept: the run is cancelled when it does.
func TestCancelIsNotGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		rules := rules{On: []kind{kindBudget}, StalledAfter: time.Hour,
			Budgets: budgets(t, "tokens=1k/run"), CancelOn: []kind{kindBudget}}
		stop := watching(t, Config{Runs: l, Rules: rules, Sink: b, GiveUp: time.Minute})
		l.keep(&api.Error{Code: api.Unavailable, Retryable: true})
		l.set(nowRun("long", func(r *api.Run) { r.Tokens = &runs.Spend{Output: 1000} }))
		pass(t, b, 10*time.Minute)
		l.keep(nil)
		pass(t, b, 10*time.Minute, "long budget")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A run reports tokens after midnight, and ends before the next look.
func TestDayBeginsWithAnEnd(t *testing.T) {
	t.Parallel()
	d := newDay(budgets(t, "tokens=1/day"), noon, nil)
	midnight := d.to
	run := use("r", 100, 1, 0, "")
	run.ActiveAt = runs.Time(midnight.Add(-time.Minute).UnixMilli())
	d.Look([]*api.Run{run}, midnight.Add(-time.Second))
	run = use("r", 500, 1, 0, "")
	run.ActiveAt = runs.Time(midnight.Add(time.Second).UnixMilli())
	d.Ended(run, midnight.Add(2*time.Second))
	if got := used(d.Look(nil, midnight.Add(4*time.Second))); got["tokens=1/day "] != 400 {
		t.Errorf("used %v, want 400 tokens", got)
	}
}

// The worker of a run comes back, the run has output, and the worker is lost again: that is another notice. Without
// output in between it is the same loss, and so is the end of a run whose loss was reported.
func TestEachLossHasItsNotice(t *testing.T) {
	t.Parallel()
	rules := all()
	ids := func(run *api.Run) (ids []string) {
		for _, n := range rules.Run(run, noon, noon) {
			if strings.Contains(n.ID, "/lost") {
				ids = append(ids, n.ID)
			}
		}
		return ids
	}
	run := working(time.Minute, nil)
	run.WorkerLost = true
	first := ids(run)
	run.WorkerLost, run.Seq = false, run.Seq+1 // a note, which is no output
	if back := ids(run); len(back) != 0 {
		t.Errorf("%q while the worker is there", back)
	}
	run.WorkerLost = true
	if again := ids(run); !slices.Equal(first, again) {
		t.Errorf("%q, and without output %q", first, again)
	}
	run.State, run.Reason = runs.StateFailed, string(runs.ReasonLost)
	if end := ids(run); len(first) != 1 || !slices.Equal(first, end) {
		t.Errorf("%q, at its end %q", first, end)
	}
	run = working(time.Second, nil)
	run.WorkerLost = true
	if again := ids(run); len(again) != 1 || again[0] == first[0] {
		t.Errorf("%q, the second time %q", first, again)
	}
}
