package memory

import (
	"runtime"
	"runtime/debug"
	"sync/atomic"
)

const (
	// growth is how much a large heap may grow between two collections, in bytes.
	growth = 80 << 20
	// lowest is the minimum growth in percent of the heap: below, collections cost more
	// than a few percent of the CPU time.
	lowest = 25
)

// percent returns GOGC for a heap with so many live bytes: 100 for a small one.
func percent(live uint64) int {
	switch {
	case live <= growth:
		return 100
	case live <= 2*growth:
		return 50
	}
	return lowest
}

// tuner adapts GOGC to the size of the heap.
type tuner struct {
	highest int // GOGC of the process without a tuner
	current int
	ended   atomic.Bool
}

// arm adapts GOGC after the next collection, and after each one that follows, until
// the tuner has ended. The runtime calls it on a goroutine of its own.
func (t *tuner) arm() {
	next, ended := t.highest, t.ended.Load()
	if !ended {
		next = min(percent(measure().live), t.highest)
	}
	if next != t.current {
		t.current = next
		debug.SetGCPercent(next)
	}
	if !ended {
		runtime.AddCleanup(&struct{ garbage *byte }{}, (*tuner).arm, t)
	}
}
