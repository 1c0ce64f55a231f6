// Package processors lets a process that has little to do use one processor. Lines that arrive one by one cost more for
// waking up threads on other processors than for what is done with them.
package processors

import (
	"context"
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// A process gets one processor after calmWindows in a row in which it took less than calmShare of one, and all again
// after one in which it took more than busyShare, or a goroutine waited for longWait: on a machine that others use, too,
// a busy process may get a small share.
const (
	window      = 250 * time.Millisecond
	calmWindows = 40 // 10 s
	calmShare   = 0.4
	busyShare   = 0.7
	longWait    = 20 * time.Millisecond
)

// Keep sets how many processors this process uses until ctx ends. It does nothing if the environment has GOMAXPROCS.
func Keep(ctx context.Context) { keep(ctx, window) }

func keep(ctx context.Context, window time.Duration) {
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(window)
	defer tick.Stop()
	defer runtime.SetDefaultGOMAXPROCS()
	var u use
	before, m := used(), newMeter()
	for at := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, spent := time.Now(), used()
		switch changed := u.next(float64(spent-before)/float64(now.Sub(at)), m.waited()); {
		case changed && u.one:
			runtime.GOMAXPROCS(1)
		case changed:
			runtime.SetDefaultGOMAXPROCS()
		}
		before, at = spent, now
	}
}

// used is the CPU time of this process.
func used() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// meter tells how long goroutines wait for a processor.
type meter struct {
	sample []metrics.Sample
	long   uint64 // waits of at least longWait so far
}

func newMeter() *meter {
	m := &meter{sample: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	m.waited()
	return m
}

// waited reports whether a goroutine has waited for longWait since the last call.
func (m *meter) waited() bool {
	metrics.Read(m.sample)
	if m.sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return false
	}
	before, h := m.long, m.sample[0].Value.Float64Histogram()
	m.long = 0
	for i, n := range h.Counts {
		if h.Buckets[i] >= longWait.Seconds() {
			m.long += n
		}
	}
	return m.long > before
}

// use is how many processors a process is to use: one or all.
type use struct {
	one  bool
	calm int // windows in a row with little to do
}

// next adds a window in which the process took a share of a processor, and in which a goroutine waited for one or not.
// It reports whether one has changed.
func (u *use) next(share float64, waited bool) (changed bool) {
	before := u.one
	if u.calm++; share >= calmShare || waited {
		u.calm = 0
	}
	switch {
	case share > busyShare, waited:
		u.one = false
	case u.calm >= calmWindows:
		u.one = true
	}
	return u.one != before
}
