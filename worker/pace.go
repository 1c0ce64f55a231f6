package worker

import (
	"strconv"
	"time"

	"github.com/linesman/linesman/live"
	"github.com/linesman/linesman/runs"
)

// pace are the limits of a run that goes on after a turn: how long a turn may take, without the time in which people
// are asked, how long there may be none, and how long a process may take until it can take a prompt. The worker keeps
// them, as only it knows the turns; what a worker before it has seen of a turn is not counted, nor is time in which the
// raw log was away, for which an agent may wait. Before the rest is over, the process can sleep.
type pace struct {
	turn, rest, sleep, start time.Duration // 0: no limit

	n       int           // the turn
	worked  time.Duration // in it
	stopped time.Time     // when its cancel was first seen; zero: it was not cancelled
	rested  time.Duration // since the last turn, when that was first seen
	idle    time.Time     // when that was; zero: a turn runs
	sleeps  bool          // the process can sleep
	process int           // its number
	starts  time.Duration // that it was alive for without being ready; 0: it is
	seen    time.Time
}

// How long an agent may take to end a turn that is cancelled, and to begin or continue a session.
const (
	stopTime  = 30 * time.Second
	startTime = 2 * time.Minute
)

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
	if starts := s.Alive && !s.Ready && !s.Running && !s.Sleeps; starts && s.Process == p.process {
		p.starts += passed
	} else {
		p.process, p.starts = s.Process, 0
	}
	if s.Turn == 0 && p.late() { // a later turn than the first can be that of another process, see stuck
		return runs.Command{
			ID: "limit-start-" + strconv.Itoa(s.Process), Do: runs.DoLimit, By: runs.ByLimit, Rule: "start",
		}, true
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

// skip leaves out time that has passed since the last call of limit.
func (p *pace) skip(d time.Duration) {
	for _, at := range []*time.Time{&p.seen, &p.stopped, &p.idle} {
		if !at.IsZero() {
			*at = at.Add(d)
		}
	}
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

// late reports whether the process takes too long until it is ready.
func (p *pace) late() bool { return p.start > 0 && p.starts >= p.start }

// stuck reports whether the agent does not end a turn that was cancelled, or is not ready for one.
func (p *pace) stuck(now time.Time) bool {
	return !p.stopped.IsZero() && now.Sub(p.stopped) >= stopTime || p.n > 0 && p.late()
}
