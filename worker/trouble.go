package worker

import (
	"sync"
	"time"
)

// trouble is something of ours that stands in the way of all runs alike, as a
// disk that is full, or no more files to open. It is waited for, and said once
// a minute, not once a run.
type trouble struct {
	mu    sync.Mutex
	pause time.Duration // after the next one; 0: there was none of late
	until time.Time
	said  time.Time
}

const (
	leastTrouble = time.Second
	mostTrouble  = time.Minute
)

// had notes one more: each is waited for twice as long as the one before.
func (t *trouble) had() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) { // it is the same
		return
	}
	t.pause = min(max(2*t.pause, leastTrouble), mostTrouble)
	t.until = now.Add(t.pause)
}

// over notes that something worked.
func (t *trouble) over() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause, t.until = 0, time.Time{}
}

// rest is how long it is still to be waited for.
func (t *trouble) rest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, time.Until(t.until))
}

// new reports whether it was not said within the last minute, and counts as
// saying it.
func (t *trouble) new() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !t.said.IsZero() && now.Sub(t.said) < time.Minute {
		return false
	}
	t.said = now
	return true
}
