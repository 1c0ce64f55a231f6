package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// lateClock is a run whose publisher has a clock that is three hours late.
func lateClock(id string, phase runs.Phase) *api.Run {
	return nowRun(id, func(r *api.Run) {
		r.StartedAt -= runs.Time((3 * time.Hour).Milliseconds())
		r.ActiveAt, r.Doing.Phase = r.StartedAt, phase
	})
}

// forget removes a run.
func (l *linesman) forget(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.runs, run)
}

// cancelling cancels runs that have stalled for ten minutes, or lasted for two hours.
func cancelling(t *testing.T) rules {
	t.Helper()
	r := all()
	r.Budgets, r.CancelOn = budgets(t, "time=2h/run"), []kind{kindBudget, kindStalled}
	return r
}

const (
	stalls = "stalls linesman watch: stalled/"
	spends = "lasts linesman watch: budget/time=2h0m0s/run"

	stallsEarly = "run stalls (codex) has had no output for 3h00m" + early
	alsoEarly   = "run stalls (codex) has used 3h00m, its budget is 2h00m" + early
	spendsEarly = "run lasts (codex) has used 3h00m, its budget is 2h00m" + early
	early       = "; it is not cancelled yet: the watcher has not seen that for so long"
)

// cancelledOnly compares which runs were cancelled since the last call; want begins the reasons.
func cancelledOnly(t *testing.T, l *linesman, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.EqualFunc(l.cancelled, want, strings.HasPrefix) {
		t.Errorf("cancelled %q, want %q", l.cancelled, want)
	}
	l.cancelled = nil
}

// The times of a run are those of its publisher: what they say is reported at once, and it is cancelled for the time
// that the watcher has seen, also over a restart.
func TestClockOfAPublisherCancelsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		cfg := Config{Runs: l, Rules: cancelling(t), Sink: b, State: filepath.Join(t.TempDir(), "state")}
		l.set(lateClock("stalls", runs.Thinking))
		l.set(lateClock("lasts", runs.RunningTool))
		stop := watching(t, cfg)
		pass(t, b, 9*time.Minute, spendsEarly, stallsEarly, alsoEarly)
		cancelledOnly(t, l)
		pass(t, b, 2*time.Minute, "stalls stalled")
		cancelledOnly(t, l, stalls)
		l.forget("stalls")
		pass(t, b, time.Hour)
		if err := stop(); err != nil {
			t.Error(err)
		}
		stop = watching(t, cfg)
		pass(t, b, 48*time.Minute)
		cancelledOnly(t, l)
		pass(t, b, 2*time.Minute, "lasts budget")
		cancelledOnly(t, l, spends)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// A watcher that looks once has seen a run as long as its state file says. Without one it tells, and cancels nothing.
func TestOnceCancelsByItsStateFile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := newLinesman(), &inbox{}
		cfg := Config{Runs: l, Rules: cancelling(t), Sink: b, State: filepath.Join(t.TempDir(), "state")}
		look := func(cfg Config) {
			t.Helper()
			if err := Run(t.Context(), cfg, true); err != nil {
				t.Fatal(err)
			}
		}
		l.set(lateClock("stalls", runs.Thinking))
		l.set(lateClock("lasts", runs.RunningTool))
		look(cfg)
		pass(t, b, 0, spendsEarly, stallsEarly, alsoEarly)
		time.Sleep(11 * time.Minute)
		look(cfg)
		pass(t, b, 0, "stalls stalled")
		cancelledOnly(t, l, stalls)
		l.forget("stalls")
		time.Sleep(2 * time.Hour)
		look(cfg)
		cancelledOnly(t, l, spends)
		pass(t, b, 0, "lasts budget")
		cfg.State = ""
		look(cfg)
		cancelledOnly(t, l)
		pass(t, b, 0, "run lasts (codex) has used 5h11m, its budget is 2h00m; it is not cancelled: that needs --state")
	})
}

// While the same runs are open, the state file is written now and then, not at each look. It is written at once when a
// run begins or ends, and when the watcher ends.
func TestWhatIsSeenIsSavedSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, state := newLinesman(), filepath.Join(t.TempDir(), "state")
		stop := watching(t, Config{Runs: l, Rules: cancelling(t), Sink: &inbox{}, State: state})
		writes := func(d time.Duration, run string) (n int) {
			for range d / maxPoll {
				l.set(nowRun(run, nil))
				time.Sleep(maxPoll)
				synctest.Wait()
				if os.Remove(state) == nil {
					n++
				}
			}
			return n
		}
		writes(maxPoll, "a")
		if n := writes(10*time.Minute, "a"); n < 2 || n > 4 {
			t.Errorf("while the same run is open: %d writes", n)
		}
		if n := writes(maxPoll, "b"); n != 1 {
			t.Errorf("another run: %d writes", n)
		}
		writes(maxPoll, "b")
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := fmt.Sprintf(`"seq":%d`, time.Now().Add(-maxPoll).UnixMilli())
		if body, err := os.ReadFile(state); err != nil || !strings.Contains(string(body), want) {
			t.Errorf("at the end: %s, %v; want %s", body, err, want)
		}
	})
}
