package worker

import (
	"time"

	"github.com/linesman/linesman/runs"
)

// watchdog detects when an agent passes a limit. Its only inputs are the time
// and the sizes of the spools.
type watchdog struct {
	limits Limits
	began  time.Time
	grew   time.Time // when output was last written
	held   time.Duration
	sizes  [2]int64 // of stdout and stderr, at the last check
	total  int64    // bytes written, including bytes that were truncated since
	seen   time.Time
	rate   float64 // bytes per second, between the last two checks
}

func newWatchdog(limits Limits, now time.Time) *watchdog {
	return &watchdog{limits: limits, began: now, grew: now, seen: now}
}

// check compares the sizes of stdout and stderr with the limits. It returns
// the limit that was passed, or "". Time that is held counts for no limit of time.
func (w *watchdog) check(now time.Time, sizes [2]int64, held bool) runs.Reason {
	if held {
		w.hold(now.Sub(w.seen))
	}
	var grown int64
	for i, size := range sizes {
		was := w.sizes[i]
		if size < was { // truncated: all bytes are new
			was = 0
		}
		grown += size - was
	}
	if sizes != w.sizes {
		w.grew = now
	}
	if passed := now.Sub(w.seen); passed > 0 {
		w.rate = float64(grown) / passed.Seconds()
	}
	w.total, w.sizes, w.seen = w.total+grown, sizes, now
	switch {
	case w.limits.Spool > 0 && w.total > w.limits.Spool:
		return runs.ReasonSpool
	case w.limits.Hard > 0 && now.Sub(w.began) >= w.limits.Hard:
		return runs.ReasonHard
	case w.limits.Idle > 0 && now.Sub(w.grew) >= w.limits.Idle:
		return runs.ReasonIdle
	}
	return ""
}

// hold takes out a time in which the limits stood still.
func (w *watchdog) hold(passed time.Duration) {
	w.held += passed
	w.began, w.grew = w.began.Add(passed), w.grew.Add(passed)
}

// silence is the time since output was last written.
func (w *watchdog) silence(now time.Time) time.Duration { return now.Sub(w.grew) }

// next is the time until the next check: at most a second, less if a limit
// could be passed before.
func (w *watchdog) next(now time.Time) time.Duration {
	const shortest, longest = 10 * time.Millisecond, time.Second
	next := longest
	if w.limits.Hard > 0 {
		next = min(next, w.limits.Hard-now.Sub(w.began))
	}
	if w.limits.Idle > 0 {
		next = min(next, w.limits.Idle-w.silence(now))
	}
	if w.limits.Spool > 0 && w.rate > 0 { // half of the time until the limit at the current rate
		left := float64(w.limits.Spool-w.total) / w.rate / 2
		if left < longest.Seconds() {
			next = min(next, time.Duration(left*float64(time.Second)))
		}
	}
	return max(next, shortest)
}
