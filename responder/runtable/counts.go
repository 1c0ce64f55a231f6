package runtable

import (
	"time"

	"github.com/linesman/linesman/runs"
)

// Counts says how many runs the table has, and what it did to them.
type Counts struct {
	States  map[runs.State]int
	Lost    int       // of the working ones: see [View]
	Asked   int       // open questions that people are asked
	Oldest  time.Time // when the oldest queued task was submitted; zero: none is queued
	Orphans uint64    // runs that this process ended since it began, as their workers were gone
}

// Counts counts the runs. It is false until the table was read.
func (r *Table) Counts() (c Counts, known bool) {
	select {
	case <-r.index.filled:
	default:
		return c, false
	}
	working, oldest := r.index.count(&c)
	if oldest != 0 {
		c.Oldest = time.UnixMilli(int64(oldest))
	}
	now := time.Now()
	for _, row := range working {
		if row.State == runs.StateWorking && r.lost(row, now) {
			c.Lost++
		}
	}
	c.Orphans = r.orphans.Load()
	return c, true
}

// count counts the runs by state. It returns the working ones, and when the oldest queued task was
// submitted; 0: none is queued.
func (t *index) count(c *Counts) (working []runs.Header, oldest runs.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.States = map[runs.State]int{runs.StateQueued: t.waiting()}
	for _, e := range t.working {
		h := e.header()
		c.States[h.State]++
		if e.recorded == nil { // else another row has them, too
			c.Asked += len(h.Asks())
		}
		working = append(working, h)
	}
	for state, n := range t.finals {
		c.States[state] = n
	}
	for _, queue := range t.queues {
		for _, e := range queue {
			if oldest == 0 || e.queuedAt < oldest {
				oldest = e.queuedAt
			}
		}
	}
	return working, oldest
}
