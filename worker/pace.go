package worker

import (
	"strconv"
	"time"

	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
)

// pace are the limits of a run that goes on after a turn: how long a turn may take, without the time in which people
// are asked, and how long there may be none. The worker keeps them, as only it knows the turns; what a worker before
// it has seen of a turn is not counted. Before the rest is over, the process can sleep.
type pace struct {
	turn, rest, sleep time.Duration // 0: no limit

	n       int           // the turn
	worked  time.Duration // in it
	stopped time.Time     // when its cancel was first seen; zero: it was not cancelled
	rested  time.Duration // since the last turn, when that was first seen
	idle    time.Time     // when that was; zero: a turn runs
	sleeps  bool          // the process can sleep
	seen    time.Time
}

// stopTime is how long an agent may take to end a turn that is cancelled.
const stopTime = 30 * time.Second

// limit returns the command for a limit that is reached. Last is when the log was last written, Unix milliseconds.
func (p *pace) limit(s live.Status, now time.Time, last int64) (runs.Command, bool) {
	passed := now.Sub(p.seen)
	if p.seen.IsZero() {
		passed = 0
	}
	p.seen = now
	if s.Turn != p.n {
		p.n, p.worked, p.stopped = s.Turn, 0, time.Time{}
	}
	p.sleeps = s.Alive && s.Ready && s.Lasts && p.sleep > 0
	switch {
	case !s.Idle:
		p.idle = time.Time{}
	case p.idle.IsZero():
		p.idle, p.rested = now, max(now.Sub(time.UnixMilli(last)), 0)
	case p.rest > 0 && p.rested+now.Sub(p.idle) >= p.rest:
		return runs.Command{
			ID: "limit-rest-" + strconv.Itoa(s.Turn), Do: runs.DoEnd, By: runs.ByLimit, Rule: "live.end_after",
		}, true
	case p.sleeps && p.rested+now.Sub(p.idle) >= p.sleep:
		return runs.Command{Do: runs.DoSleep}, true
	}
	switch {
	case !s.Running:
		p.stopped = time.Time{}
	case s.Stopped && p.stopped.IsZero():
		p.stopped = now
	case !s.Asking:
		p.worked += passed
	}
	if p.turn > 0 && p.worked >= p.turn && s.Running && !s.Stopped {
		return runs.Command{
			ID: "limit-turn-" + strconv.Itoa(s.Turn), Do: runs.DoLimit, By: runs.ByLimit, Rule: "hard", Turn: s.Turn,
		}, true
	}
	return runs.Command{}, false
}

// due is how long no rest is over.
func (p *pace) due(now time.Time) time.Duration {
	const soon = 10 * time.Millisecond // it was over at the first look
	next := time.Hour
	rested := p.rested + now.Sub(p.idle)
	if p.rest > 0 && !p.idle.IsZero() {
		next = min(next, max(p.rest-rested, soon))
	}
	if p.sleeps && !p.idle.IsZero() {
		next = min(next, max(p.sleep-rested, soon))
	}
	return next
}

// stuck reports whether the agent does not end a turn that was cancelled.
func (p *pace) stuck(now time.Time) bool {
	return !p.stopped.IsZero() && now.Sub(p.stopped) >= stopTime
}
