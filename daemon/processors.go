package daemon

import (
	"context"
	"os"
	"runtime"
	"runtime/metrics"
	"time"

	"golang.org/x/sys/unix"
)

// A process gets one processor after calmWindows in a row in which it took less than calmShare of one, and all again
// after one in which it took more than busyShare, or a goroutine waited for longWait: beside other processes a busy one
// may get a small share.
const (
	useWindow   = 250 * time.Millisecond
	calmWindows = 40 // 10 s
	calmShare   = 0.4
	busyShare   = 0.7
	longWait    = 20 * time.Millisecond
)

// keepProcessors lets this process use one processor while it has little to do, until ctx ends: lines that arrive one
// by one cost more for waking up threads on other processors than for what is done with them. It does nothing if the
// environment has GOMAXPROCS.
func keepProcessors(ctx context.Context, window time.Duration) {
	if os.Getenv("GOMAXPROCS") != "" || runtime.GOMAXPROCS(0) == 1 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(window)
	defer tick.Stop()
	defer runtime.SetDefaultGOMAXPROCS()
	var u processors
	before, m := cpuTime(), newWaitMeter()
	for at := time.Now(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, spent := time.Now(), cpuTime()
		switch changed := u.next(float64(spent-before)/float64(now.Sub(at)), m.waited()); {
		case changed && u.one:
			runtime.GOMAXPROCS(1)
		case changed:
			runtime.SetDefaultGOMAXPROCS()
		}
		before, at = spent, now
	}
}

// cpuTime is the CPU time of this process.
func cpuTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// waitMeter tells how long goroutines wait for a processor.
type waitMeter struct {
	sample []metrics.Sample
	long   uint64 // waits of at least longWait so far
}

func newWaitMeter() *waitMeter {
	m := &waitMeter{sample: []metrics.Sample{{Name: "/sched/latencies:seconds"}}}
	m.waited()
	return m
}

// waited reports whether a goroutine has waited for longWait since the last call.
func (m *waitMeter) waited() bool {
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

// processors is how many processors a process is to use: one or all.
type processors struct {
	one  bool
	calm int // windows in a row with little to do
}

// next adds a window in which the process took a share of a processor, and in which a goroutine waited for one or not.
// It reports whether one has changed.
func (u *processors) next(share float64, waited bool) (changed bool) {
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
