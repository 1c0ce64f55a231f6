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
		if got := told(s); got != i {
			t.Errorf("%s: %d, want %d", s, got, i)
		}
	}
	for _, s := range []runs.State{runs.StateFailed, runs.StateTimeout, runs.StateCancelled} {
		if got := told(s); got != toldEnd {
			t.Errorf("%s: %d, want %d", s, got, toldEnd)
		}
	}
}

// Whatever comes in which order, a run that has something to be told is looked
// at after the last news of it.
func TestWhateverTheOrderOfNewsNothingIsOverlooked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := newAgenda()
		told, stands := map[string]int{}, map[string]int{} // as the streams have it
		run := rapid.SampledFrom([]string{"a", "b", "c"})
		look := func(t *rapid.T) {
			r, ok := a.next()
			if !ok {
				return
			}
			if at, there := told[r]; there && stands[r] > at { // what advance does; news of it comes later
				told[r] = stands[r]
			}
			a.done(r)
		}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				r := run.Draw(t, "run")
				if _, there := told[r]; !there {
					told[r] = toldNothing
				}
				a.registered(r, told[r])
			},
			"move": func(t *rapid.T) {
				r := run.Draw(t, "run")
				stands[r] = min(stands[r]+1, toldEnd)
				a.stands(r, stands[r])
			},
			"look": look,
			"": func(t *rapid.T) {
				due := map[string]bool{}
				for _, r := range a.due {
					due[r] = true
				}
				for r, at := range told {
					if stands[r] > at && !due[r] {
						t.Fatalf("run %s stands at %d, was told %d, and nobody looks", r, stands[r], at)
					}
				}
			},
		})
	})
}
