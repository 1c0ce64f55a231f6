package memory

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestReturnsMemoryOfAnIdleProcess(t *testing.T) {
	const mib = 1 << 20
	var r returner
	busy := usage{held: 500 * mib, collections: 7}
	if r.due(usage{held: 500 * mib, collections: 6}, busy) {
		t.Error("a process that collects is interrupted")
	}
	if !r.due(busy, busy) {
		t.Error("an idle process keeps its memory")
	}
	less := usage{held: 60 * mib, collections: 9}
	r.returned(busy, less)
	if r.due(less, less) {
		t.Error("a small heap is collected")
	}
}

// A heap that is in use is not collected every few seconds, but garbage that was still
// in use at the last collection is returned.
func TestCollectsALargeHeapInUseRarely(t *testing.T) {
	const mib = 1 << 20
	var r returner
	inUse := usage{held: 500 * mib, collections: 7}
	count := func(times int) (n int) {
		for range times {
			if r.due(inUse, inUse) {
				n++
				r.returned(inUse, inUse)
			}
		}
		return n
	}
	if n := count(10 * rarely); n < 9 || n > 10 {
		t.Errorf("%d collections in %v without an effect", n, 10*2*time.Minute)
	}
	busy := usage{held: 900 * mib, collections: 8}
	r.due(inUse, busy)
	if !r.due(busy, busy) {
		t.Error("memory of a second burst is kept")
	}
	r.returned(busy, inUse)
	if !r.due(inUse, inUse) {
		t.Error("no second look after a collection that returned memory")
	}
}

func TestLimitOfTheSettingAndOfTheEnvironment(t *testing.T) {
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	t.Setenv("GOMEMLIMIT", "1GiB") // the runtime has read it before
	before := debug.SetMemoryLimit(-1)
	if err := Limit(300 << 20); err != nil || debug.SetMemoryLimit(-1) != before {
		t.Errorf("%v: the limit is %d, GOMEMLIMIT was %d", err, debug.SetMemoryLimit(-1), before)
	}
	if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
		t.Fatal(err)
	}
	if err := Limit(300 << 20); err != nil || debug.SetMemoryLimit(-1) != 300<<20 {
		t.Errorf("%v: the limit is %d, want that of the setting", err, debug.SetMemoryLimit(-1))
	}
	if err := Limit(0); err != nil {
		t.Errorf("without a setting: %v", err)
	}
	unmounted := func() (uint64, error) { return 0, errors.New("no cgroup2 mount found") }
	if err := limit(0, unmounted); err != nil || debug.SetMemoryLimit(-1) != math.MaxInt64 {
		t.Errorf("without a setting, where the limit of the container cannot be read: %v", err)
	}
}

func TestGrowthOfALargeHeapIsBounded(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, growth: 100, growth + 1: 50, 2 * growth: 50, 1 << 30: 25} {
		if got := percent(live); got != want {
			t.Errorf("%d live bytes: %d%%, want %d%%", live, got, want)
		}
	}
}

// burst is what the process of TestMemoryOfABurstIsReturned has in use until it is set
// to nil.
var burst [][]byte

// Keep returns what is no longer in use, in a process of its own, as other tests have
// heaps, too.
func TestMemoryOfABurstIsReturned(t *testing.T) {
	if os.Getenv("MEMORY_TEST_BURST") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMemoryOfABurstIsReturned$", "-test.v")
		cmd.Env = append(os.Environ(), "MEMORY_TEST_BURST=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	synctest.Test(t, func(t *testing.T) {
		for range 300 {
			burst = append(burst, make([]byte, 1<<20))
		}
		before := measure()
		if before.held < 300<<20 {
			t.Fatalf("%d bytes are held", before.held)
		}
		burst = nil
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { Keep(ctx); close(ended) }()
		time.Sleep(10 * idleTime) // of the bubble
		synctest.Wait()
		if after := measure(); after.held > small {
			t.Errorf("%d bytes are held, %d before", after.held, before.held)
		}
		cancel()
		<-ended
	})
}
