package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestRetryDelayDoublesAndIsLoggedOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x retryDelay
		logged := 0
		var waits []time.Duration
		began := time.Now()
		for time.Since(began) < 3*time.Minute {
			if x.failed() {
				logged++
			}
			if x.failed() { // of another run, at the same time
				t.Error("the same failure is logged twice")
			}
			waits = append(waits, x.remaining())
			time.Sleep(x.remaining())
		}
		want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}
		if len(waits) != len(want) {
			t.Fatalf("waits: %v", waits)
		}
		for i := range want {
			if waits[i] != want[i]*time.Second {
				t.Errorf("wait %d is %v, want %v", i+1, waits[i], want[i]*time.Second)
			}
		}
		if logged != 3 {
			t.Errorf("logged %d times in three minutes, want 3", logged)
		}
		x.succeeded()
		if x.remaining() != 0 {
			t.Errorf("remaining %v after a success", x.remaining())
		}
		_ = x.failed()
		if x.remaining() != time.Second {
			t.Errorf("the next delay is %v, want 1s", x.remaining())
		}
	})
}
