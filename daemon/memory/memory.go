// Package memory keeps the memory of a process that runs for weeks small: the heap
// grows by a bounded amount between two collections, and what a burst of work took is
// returned to the system once it is over.
//
// The runtime alone lets the heap double, whatever its size, collects it every two
// minutes when little is allocated, and keeps the pages of a large heap for the next
// burst.
package memory

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Limit sets the soft limit of the memory of this process, in bytes. Close to it the
// runtime collects more often, with up to half of the CPU time; a process that needs more
// continues above it. 0 means nine tenths of the memory limit of the container (Linux
// cgroups), and none without one, or if it cannot be read. An environment variable GOMEMLIMIT has precedence.
// AUTOMEMLIMIT, a share from 0 to 1 or "off", applies as in package memlimit.
func Limit(bytes int64) error { return limit(bytes, memlimit.FromCgroup) }

func limit(bytes int64, container memlimit.Provider) error {
	share := memlimit.WithRatio(0.9)
	from := memlimit.WithProvider(func() (uint64, error) {
		n, err := container()
		if err != nil { // usual in a sandbox, whose cgroup is not mounted
			return 0, memlimit.ErrNoLimit
		}
		return n, nil
	})
	if bytes > 0 {
		share, from = memlimit.WithRatio(1), memlimit.WithProvider(memlimit.Limit(uint64(bytes)))
	}
	if _, err := memlimit.Set(share, from); err != nil {
		return fmt.Errorf("memory limit: %w", err)
	}
	return nil
}

// Keep keeps the heap small until ctx ends. A process calls it once: GOGC is restored only by
// the next collection after that. A GOGC in the environment that is lower than what Keep
// would set remains.
func Keep(ctx context.Context) {
	highest := debug.SetGCPercent(100)
	debug.SetGCPercent(highest)
	if highest > 0 {
		t := tuner{highest: highest, current: highest}
		defer t.ended.Store(true)
		t.arm()
	}
	tick := time.NewTicker(idleTime)
	defer tick.Stop()
	var r returner
	for before := measure(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := measure(); !r.due(before, now) {
			before = now
			continue
		}
		runtime.GC() // twice: pools keep what they have through one collection
		debug.FreeOSMemory()
		after := measure()
		r.returned(before, after)
		before = after
	}
}

// usage is what the runtime knows of the memory of the process, in bytes.
type usage struct {
	live        uint64 // of the heap, as of the last collection
	held        uint64 // of the heap, in use or not, that the system has not got back
	collections uint64 // so far
}

func measure() usage {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(s)
	return usage{
		live: s[0].Value.Uint64(), collections: s[1].Value.Uint64(),
		held: s[2].Value.Uint64() + s[3].Value.Uint64() + s[4].Value.Uint64(),
	}
}

const (
	// idleTime is how long a process that is to return memory has collected none.
	idleTime = 5 * time.Second
	// small is the size of a heap, in bytes, that stays as it is.
	small = 64 << 20
	// rarely is the number of idle times between collections that return little: the
	// runtime itself collects as often.
	rarely = int(2 * time.Minute / idleTime)
)

// returner decides when an idle process returns memory to the system.
type returner struct {
	wait int // idle times until the next collection
}

// due reports whether now, idleTime after before, memory is to be returned.
func (r *returner) due(before, now usage) bool {
	if now.held <= small || now.collections != before.collections {
		r.wait = 0
		return false
	}
	r.wait--
	return r.wait < 0
}

// returned notes what a collection achieved: one that returned less than an eighth is
// not repeated soon.
func (r *returner) returned(before, after usage) {
	r.wait = 0
	if after.held > before.held/8*7 {
		r.wait = rarely
	}
}
