package daemon

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

func TestProcessorsInUse(t *testing.T) {
	for _, c := range []struct {
		name   string
		one    bool
		calm   int
		share  float64
		waited bool
		want   bool
	}{
		{"calm for long enough", false, calmWindows - 1, 0.1, false, true},
		{"calm, not long enough", false, calmWindows - 2, 0.1, false, false},
		{"calm until now", false, calmWindows - 1, 0.5, false, false},
		{"calm, but something waited", false, calmWindows - 1, 0.1, true, false},
		{"one is enough", true, 0, busyShare, false, true},
		{"busy", true, 0, 0.9, false, false},
		{"a small share of a busy machine", true, calmWindows, 0.3, true, false},
	} {
		u := processors{c.one, c.calm}
		if changed := u.next(c.share, c.waited); u.one != c.want || changed != (c.one != c.want) {
			t.Errorf("%s: one is %v, changed %v", c.name, u.one, changed)
		}
	}
}

// A process that works gets its processors back, and also at the end.
func TestKeepProcessors(t *testing.T) {
	all := runtime.GOMAXPROCS(0)
	if all == 1 {
		t.Skip("not tested: there is one processor")
	}
	t.Setenv("GOMAXPROCS", "")
	for _, busy := range []bool{false, true} {
		ctx, stop := context.WithCancel(t.Context())
		var keeping sync.WaitGroup
		keeping.Go(func() { keepProcessors(ctx, 5*time.Millisecond) })
		fixture.Eventually(t, time.Minute, "a calm process has several processors", func() bool {
			return runtime.GOMAXPROCS(0) == 1
		})
		if busy {
			var working sync.WaitGroup
			var idle atomic.Bool
			for range 4 {
				working.Go(func() {
					for !idle.Load() {
					}
				})
			}
			fixture.Eventually(t, time.Minute, "a busy process has one processor", func() bool {
				return runtime.GOMAXPROCS(0) == all
			})
			idle.Store(true)
			working.Wait()
		}
		stop()
		keeping.Wait()
		if n := runtime.GOMAXPROCS(0); n != all {
			t.Errorf("%d of %d processors are left", n, all)
		}
	}
}
