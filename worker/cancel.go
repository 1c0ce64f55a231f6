package worker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/linesman/linesman/runs"
)

// Cancel requests the end of the run: it stores a cancel entry with reason,
// cut to [runs.MaxReason] bytes, then terminates the agent. It returns when
// the entry is stored or the run has ended, and after two seconds at the
// latest. If the raw log is unreachable, the agent is terminated within that
// time all the same, and the entry is stored later, before the exit entry.
func (r *Run) Cancel(ctx context.Context, reason string) error {
	select {
	case r.cancels <- reason:
	default: // already requested
	}
	const timeout = 2 * superviseInterval
	t := time.NewTimer(timeout)
	defer t.Stop()
	select {
	case <-r.cancelStored:
	case <-r.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
	}
	return nil
}

// cancelRequested reports whether Cancel was called and its entry is not
// stored yet.
func (r *Run) cancelRequested() bool {
	if r.cancelReason == nil {
		select {
		case reason := <-r.cancels:
			r.cancelReason = &reason
		default:
		}
	}
	return r.cancelReason != nil
}

// cancel stores the requested cancel entry, unless there is one.
func (r *Run) cancel(ctx context.Context) error {
	if !r.cancelRequested() {
		return nil
	}
	reason := *r.cancelReason
	if len(reason) > runs.MaxReason {
		reason = strings.ToValidUTF8(reason[:runs.MaxReason], "")
	}
	for !r.progress.Log.Cancelled {
		err := r.append(ctx, time.Now(), runs.Cancelled, 0, runs.Encode(runs.Remark{Reason: reason}))
		if err != nil && !errors.Is(err, runs.ErrMoved) {
			return err
		}
	}
	r.cancelReason = nil
	return nil
}

// stop stops the source, after the raw log has the entry that requires it.
func (r *Run) stop() {
	if !r.stopped {
		r.stopped = true
		close(r.cancelStored)
		r.source.stop()
	}
}

// superviseInterval is how often an agent is supervised while a call to the
// raw log is blocked. Calls that take less time need no supervision.
const superviseInterval = time.Second

// supervised calls f, which may block while the raw log is unreachable.
// Meanwhile it enforces the limits of the agent and executes requested
// cancels.
func (r *Run) supervised(f func() error) error {
	agent, ok := r.source.(*spawned)
	if !ok {
		return f()
	}
	done := make(chan error, 1)
	go func() { done <- f() }() // f uses only the raw log, and the loop below does not
	tick := time.NewTicker(superviseInterval)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case now := <-tick.C:
			if r.cancelRequested() {
				agent.stop()
			}
			agent.supervise(now)
		}
	}
}
