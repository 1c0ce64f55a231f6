package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTroubleIsWaitedForLongerEachTimeAndSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var x trouble
		said := 0
		var waits []time.Duration
		began := time.Now()
		for time.Since(began) < 3*time.Minute {
			x.had()
			x.had() // of another run, at the same time
			if x.new() {
				said++
			}
			waits = append(waits, x.rest())
			time.Sleep(x.rest())
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
		if said != 3 {
			t.Errorf("said %d times in three minutes, want 3", said)
		}
		x.over()
		if x.rest() != 0 {
			t.Errorf("rest %v after it was over", x.rest())
		}
		x.had()
		if x.rest() != time.Second {
			t.Errorf("the next one waits for %v, want 1s", x.rest())
		}
	})
}
