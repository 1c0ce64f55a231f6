package watch

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// The record of a run follows its completion after more than the time that other ends wait for it: they are reported
// before, and its own end when its record has it, also by the next watcher.
func TestEndWhoseRecordIsLateIsReported(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart=", restart), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l, b := newLinesman(), &inbox{}
				cfg := Config{Runs: l, Rules: all(), Sink: b, State: filepath.Join(t.TempDir(), "state")}
				stop := watching(t, cfg)
				time.Sleep(time.Second)
				done := func(r *api.Run) { r.State = runs.StateCompleted }
				record := func(run *api.Run) {
					l.mu.Lock()
					defer l.mu.Unlock()
					l.runs[run.ID] = run
				}
				for _, id := range []string{"late", "gone", "continued"} {
					l.set(nowRun(id, done))
					record(nowRun(id, nil))
				}
				l.set(nowRun("next", done))
				pass(t, b, 5*time.Minute, "next completed")
				if restart {
					if err := stop(); err != nil {
						t.Error(err)
					}
					stop = watching(t, cfg)
					pass(t, b, time.Minute)
				}
				record(nowRun("late", done))
				record(nowRun("continued", func(r *api.Run) { r.ContinuedBy = "other" }))
				l.mu.Lock()
				delete(l.runs, "gone")
				l.mu.Unlock()
				pass(t, b, 10*time.Second, "late completed")
				record(nowRun("gone", done)) // nothing more is asked about it
				pass(t, b, time.Minute)
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
