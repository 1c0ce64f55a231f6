package delivery

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesDoubleAndHaveABound(t *testing.T) {
	rule := Rule{Pace: time.Second, Pause: 10 * time.Minute, GiveUp: 48 * time.Hour}
	synctest.Test(t, func(t *testing.T) {
		began, attempts := time.Now(), 0
		for time.Since(began) < 24*time.Hour {
			attempts++
			d := rule.Again(&Refusal{}, time.Since(began), attempts)
			if d < time.Second || d > rule.Pause*5/4 {
				t.Fatalf("attempt %d after %v: %v", attempts, time.Since(began), d)
			}
			time.Sleep(d) // on the fake clock
			if attempts == 5 && time.Since(began) > time.Minute {
				t.Errorf("five attempts took %v", time.Since(began))
			}
		}
		if attempts < 100 || attempts > 160 {
			t.Errorf("%d attempts in a day", attempts)
		}
	})
	if d := rule.Again(&Refusal{}, 5*time.Hour, 1); d > 2*time.Second {
		t.Errorf("the first failure after a long time away: %v", d)
	}
}

func TestPauseIsWhatTheReceiverAsksForWithinTheAge(t *testing.T) {
	rule := Rule{Pace: time.Second, Pause: 10 * time.Minute, GiveUp: time.Hour}
	for _, test := range []struct {
		refused Refusal
		age     time.Duration
		least   time.Duration
		most    time.Duration
	}{
		{Refusal{After: time.Minute}, 0, time.Minute, time.Minute},
		{Refusal{After: time.Minute}, time.Hour - time.Second, 2 * time.Second, 2 * time.Second},
		{Refusal{}, 2 * time.Hour, time.Second, time.Second}, // the store has kept it for too long: one last attempt
		{Refusal{Final: true, After: time.Minute}, 0, 0, 0},
	} {
		if d := rule.Again(&test.refused, test.age, 1); d < test.least || d > test.most {
			t.Errorf("%+v, as old as %v: %v", test.refused, test.age, d)
		}
	}
}

func TestItemsAreHandledAtMostSoManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var busy, most, ended atomic.Int32
		left := 10
		next := func(context.Context) (int, bool) { left--; return left, left >= 0 }
		err := Run(t.Context(), 3, next, func(context.Context, int) error {
			most.Store(max(most.Load(), busy.Add(1)))
			time.Sleep(time.Minute)
			busy.Add(-1)
			ended.Add(1)
			return nil
		})
		if err != nil || most.Load() != 3 || ended.Load() != 10 {
			t.Errorf("%d at a time, %d ended, %v", most.Load(), ended.Load(), err)
		}
	})
}

func TestAttemptsMayEndAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		began, given := time.Now(), []int{1}
		next := func(ctx context.Context) (int, bool) {
			if len(given) > 0 {
				given = slices.Delete(given, 0, 1)
				return 1, true
			}
			<-ctx.Done()
			return 0, false
		}
		time.AfterFunc(time.Second, cancel)
		err := Run(ctx, 3, next, func(ctx context.Context, _ int) error {
			<-ctx.Done()
			return nil
		})
		if took := time.Since(began); err != nil || took != time.Second+grace {
			t.Errorf("it has ended after %v, %v", took, err)
		}
	})
}

func TestErrorOfAnAttemptEndsAll(t *testing.T) {
	broken := errors.New("broken")
	next := func(ctx context.Context) (int, bool) { return 0, ctx.Err() == nil }
	if err := Run(t.Context(), 1, next, func(context.Context, int) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("it ends with %v", err)
	}
}
