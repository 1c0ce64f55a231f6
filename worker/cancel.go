package worker

import (
	"context"
	"strings"
	"time"

	"github.com/linesman/linesman/runs"
)

// cancelTime is how long Cancel waits: less than the request to the owner of the run takes at most.
const cancelTime = 4 * superviseInterval

// Cancel requests the end of the run: it stores a cancel entry with reason,
// cut to [runs.MaxReason] bytes, then terminates the agent. It returns when
// the entry is stored or the run has ended. While the raw log is unreachable, it
// returns when the shim was told to terminate the agent, and the entry is stored
// later, before the exit entry. The error is [errGoesOn] if nothing of that
// happens soon: a request that only this process knows is lost with it.
func (r *Run) Cancel(ctx context.Context, reason string) error {
	select {
	case r.cancels <- reason:
	default: // already requested
	}
	select {
	case <-r.cancelStored:
	case <-r.cancelTold:
	case <-r.done:
		return r.over()
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(cancelTime):
		return errGoesOn
	}
	return nil
}

// Unfollow ends the run of a followed session, and returns when it has ended. The agent keeps
// running. The error is [errGoesOn] if the run was left to the next owner.
func (r *Run) Unfollow(ctx context.Context) error {
	if r.dir.Spec.Session == nil {
		return errNotFollowed
	}
	select {
	case r.unfollow <- struct{}{}:
	default: // already requested
	}
	select {
	case <-r.done:
		return r.over()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// over returns [errGoesOn] unless the raw log has that the run ends. It is called when Drive has returned.
func (r *Run) over() error {
	if m := r.progress.Log; !m.Cancelled && !m.Exited {
		return errGoesOn
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
		if err != nil && !onlyMoved(err) {
			return err
		}
	}
	r.cancelled, r.cancelReason = reason, nil
	return nil
}

// heed stops the source if the raw log has a cancel entry.
func (r *Run) heed() {
	if r.progress.Log.Cancelled {
		closeOnce(r.cancelStored)
		r.stop()
	}
}

// closeOnce closes a channel that only this goroutine closes.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// stop stops the source, after the raw log has the entry that requires it.
func (r *Run) stop() {
	if !r.stopped {
		r.stopped = true
		r.source.stop()
	}
}
