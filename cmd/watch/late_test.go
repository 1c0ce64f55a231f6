package watch

import (
	"context"
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

// statuses counts the requests for the status of each run. Those for a run in fails get an error.
type statuses struct {
	*linesman
	asked map[string]int
	fails string
}

func (s *statuses) Status(ctx context.Context, id string) (*api.Run, error) {
	run, err := s.linesman.Status(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked[id]++; id == s.fails {
		return nil, &api.Error{Code: api.Internal}
	}
	return run, err
}

// A run is listed as working, and has a completion: its record is not asked for. One whose record cannot be read does
// not hold up the others.
func TestLateEndsAreAskedForIfNeeded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, b := &statuses{linesman: newLinesman(), asked: map[string]int{}}, &inbox{}
		cfg := Config{Runs: l, Rules: all(), Sink: b}
		stop := watching(t, cfg)
		time.Sleep(time.Second)
		done := func(r *api.Run) { r.State = runs.StateCompleted }
		for _, id := range []string{"broken", "late"} {
			l.set(nowRun(id, done))
			l.mu.Lock()
			l.runs[id] = nowRun(id, nil)
			l.mu.Unlock()
		}
		pass(t, b, 5*time.Minute)
		l.mu.Lock()
		before := l.asked["late"]
		l.mu.Unlock()
		pass(t, b, time.Minute)
		l.mu.Lock()
		if l.asked["late"] != before {
			t.Errorf("asked %d times in a minute", l.asked["late"]-before)
		}
		l.runs["late"], l.fails = nowRun("late", done), "broken"
		delete(l.runs, "broken")
		l.mu.Unlock()
		pass(t, b, 10*time.Second, "late completed")
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
