package worker

import (
	"sync"
	"time"
)

// retryDelay is an exponential backoff that all runs share, for local errors
// that affect all of them, such as a full disk or too many open files. It also
// limits how often such errors are logged.
type retryDelay struct {
	mu     sync.Mutex
	pause  time.Duration // of the last failure; 0: none since the last success
	until  time.Time
	logged time.Time
}

const (
	minRetryDelay = time.Second
	maxRetryDelay = time.Minute
)

// failed doubles the delay, unless it is still running.
func (t *retryDelay) failed() {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Before(t.until) { // the same failure
		return
	}
	t.pause = min(max(2*t.pause, minRetryDelay), maxRetryDelay)
	t.until = now.Add(t.pause)
}

// succeeded resets the delay.
func (t *retryDelay) succeeded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pause, t.until = 0, time.Time{}
}

// remaining returns the time until the next attempt.
func (t *retryDelay) remaining() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, time.Until(t.until))
}

// shouldLog returns true at most once a minute.
func (t *retryDelay) shouldLog() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if !t.logged.IsZero() && now.Sub(t.logged) < time.Minute {
		return false
	}
	t.logged = now
	return true
}
