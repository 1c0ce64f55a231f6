package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/linesman/linesman/runs"
)

// Cancel asks for the end of the run: a cancel entry with reason, cut to
// [runs.MaxReason] bytes, then the end of the agent. It returns when the entry
// is stored or the run is over, and after two seconds at most: while the raw
// log is out of reach the agent is ended within that time all the same; the
// entry follows, before the exit.
func (r *Run) Cancel(ctx context.Context, reason string) error {
	select {
	case r.cancels <- reason:
	default: // asked for already
	}
	const patience = 2 * tendEvery
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-r.noted:
	case <-r.over:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
	}
	return nil
}

// asked reports whether Cancel was called, and the raw log does not say so yet.
func (r *Run) asked() bool {
	if r.reason == nil {
		select {
		case reason := <-r.cancels:
			r.reason = &reason
		default:
		}
	}
	return r.reason != nil
}

// cancel stores a cancel entry, where one is asked for and there is none, and
// stops the source.
func (r *Run) cancel(ctx context.Context) error {
	if !r.asked() {
		return nil
	}
	reason := *r.reason
	if len(reason) > runs.MaxReason {
		reason = strings.ToValidUTF8(reason[:runs.MaxReason], "")
	}
	for !r.place.Log.Cancelled {
		err := r.append(ctx, time.Now(), runs.Cancelled, 0, runs.Encode(runs.Remark{Reason: reason}))
		if err != nil && !errors.Is(err, runs.ErrMoved) {
			return err
		}
	}
	r.reason = nil
	return nil
}

// stop tells the source to end, once the log says so.
func (r *Run) stop() {
	if !r.stopped {
		r.stopped = true
		close(r.noted)
		r.source.stop()
	}
}

// tendEvery is how often an agent is looked after while the raw log is waited
// for. A log that answers sooner is not out of reach.
const tendEvery = time.Second

// tending calls f, which may wait for the raw log for as long as that is out of
// reach. Meanwhile the agent is held to its limits and to what was asked of it.
func (r *Run) tending(f func() error) error {
	agent, ok := r.source.(*spawned)
	if !ok {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }() // it touches the raw log alone, and we nothing of that
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case now := <-tick.C:
			if r.asked() {
				agent.stop()
			}
			agent.tend(now)
		}
	}
}
