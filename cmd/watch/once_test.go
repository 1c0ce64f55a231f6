package watch

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/internal/delivery"
	"github.com/linesman/linesman/runs"
)

// The notices of a run are delivered in order also by a watcher that looks once: one that is refused holds up those
// after it, but not those of other runs, one that cancels the run, or those after one that is given up.
func TestOnceKeepsTheOrderOfARun(t *testing.T) {
	t.Parallel()
	for _, final := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := newLinesman()
			b := &inbox{refuse: func(n notice, times int) error {
				if n.Kind == kindLost && times == 1 {
					return &delivery.Refusal{Why: "no", Final: final}
				}
				return nil
			}}
			rules := rules{On: []kind{kindLost, kindStalled, kindBudget}, StalledAfter: 10 * time.Minute,
				Budgets: budgets(t, "tokens=1k/run"), CancelOn: []kind{kindBudget}}
			cfg := Config{Runs: l, Rules: rules, Sink: b, State: filepath.Join(t.TempDir(), "state")}
			l.set(nowRun("a", func(r *api.Run) { r.WorkerLost, r.Tokens = true, &runs.Spend{Output: 1000} }))
			l.set(nowRun("b", nil))
			time.Sleep(11 * time.Minute)
			first, second := []string{"a budget", "b stalled"}, []string{"a lost", "a stalled"}
			if final {
				first, second = []string{"a budget", "a stalled", "b stalled"}, nil
			}
			if err := Run(t.Context(), cfg, true); err == nil || err.Error() != "no" {
				t.Errorf("got %v", err)
			}
			pass(t, b, 0, first...)
			if err := Run(t.Context(), cfg, true); err != nil {
				t.Error(err)
			}
			pass(t, b, 0, second...)
		})
	}
}
