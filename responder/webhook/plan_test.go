package webhook

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/runs"
)

func TestTheAgendaForgetsRunsWhoseTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAgenda()
		for i := range 100 {
			a.registered(fmt.Sprint("old-", i), toldNothing)
			a.fail(fmt.Sprint("old-", i))
		}
		time.Sleep(openTTL - time.Hour) // on the fake clock
		a.registered("young", toldWorking)
		a.retry()
		if len(a.open) != 101 {
			t.Errorf("%d runs before their time is over", len(a.open))
		}
		time.Sleep(2 * time.Hour)
		a.retry()
		if _, there := a.open["young"]; !there || len(a.open) != 1 || len(a.failed) != 0 {
			t.Errorf("%d runs, %d of them failed", len(a.open), len(a.failed))
		}
	})
}

func TestEachStateTellsMoreThanTheOneBefore(t *testing.T) {
	order := []runs.State{runs.StateQueued, runs.StateWorking, runs.StateInputRequired, runs.StateCompleted}
	for i, s := range order {
		if got := progress(s); got != i {
			t.Errorf("%s: %d, want %d", s, got, i)
		}
	}
	for _, s := range []runs.State{runs.StateFailed, runs.StateTimeout, runs.StateCancelled} {
		if got := progress(s); got != toldEnd {
			t.Errorf("%s: %d, want %d", s, got, toldEnd)
		}
	}
}

// In whatever order changes arrive, a run that needs a notification is examined
// after its last change.
func TestWhateverTheOrderOfNewsNothingIsOverlooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAgenda()
		progress, advanced := map[string]int{}, map[string]int{} // as stored in the streams
		run := rapid.SampledFrom([]string{"a", "b", "c"})
		look := func(t *rapid.T) {
			r, ok := a.next()
			if !ok {
				return
			}
			if at, there := progress[r]; there && advanced[r] > at { // as advance does; the change arrives later
				progress[r] = advanced[r]
			}
			a.done(r)
		}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				r := run.Draw(t, "run")
				if _, there := progress[r]; !there {
					progress[r] = toldNothing
				}
				a.registered(r, progress[r])
			},
			"move": func(t *rapid.T) {
				r := run.Draw(t, "run")
				advanced[r] = min(advanced[r]+1, toldEnd)
				a.advanced(r, advanced[r])
			},
			"look": look,
			"": func(t *rapid.T) {
				for r, at := range progress {
					if advanced[r] > at && !a.due[r] {
						t.Fatalf("run %s stands at %d, was told %d, and nobody looks", r, advanced[r], at)
					}
				}
			},
		})
	})
}
