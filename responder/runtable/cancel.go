package runtable

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// cancelled is the outcome of a cancel.
type cancelled struct {
	Before runs.State // the state before the cancel
	State  runs.State // cancelled, or working while its agent is being terminated
}

// EndedError reports a run that has already ended.
type EndedError struct{ State runs.State }

func (e *EndedError) Error() string { return "the run has ended: it is " + string(e.State) }

// Cancel cancels a run. Of a cancel and a start exactly one wins: a queued run
// that is cancelled is never started, and the agent of a started run is
// terminated by its worker, or by the next worker that takes the run over. A
// task that is awaiting resumption can then no longer be continued. The error
// is an [EndedError] for a run that has ended, and [runs.ErrNoRun] for an
// unknown run.
func (r *Table) Cancel(ctx context.Context, run, reason string) (cancelled, error) {
	v, err := r.Look(ctx, run)
	if err != nil {
		return cancelled{}, err
	}
	c := cancelled{Before: v.State, State: v.State}
	if v.State.Final() {
		return c, &EndedError{v.State}
	}
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(r.cfg.Patience, 20*time.Second))
	defer cancel()
	switch {
	case v.Waits():
		return r.cancelWaiting(ctx, v, reason)
	case v.ContinuedBy != "":
		return r.Cancel(ctx, v.ContinuedBy, reason)
	case v.State == runs.StateWorking, v.State == runs.StateInputRequired && !v.Unowned():
		err := r.cfg.Streams.AskCancel(ctx, run, reason)
		if err == nil {
			return r.cancelling(ctx, c, run)
		}
		if !errors.Is(err, runs.ErrNoOwner) {
			r.log.Warn("the owner did not cancel the run; the cancel entry is written instead", zap.String("run", run),
				zap.Error(err))
		}
	}
	m, err := r.cfg.Streams.AppendIf(ctx, v.Agent, run, v.Mark(), func(m runs.Mark) *runs.Entry {
		if m.Started && v.State == runs.StateQueued { // it has an owner now: ask the owner
			return nil
		}
		return cancelEntry(m, reason)
	})
	switch {
	case err != nil:
		return c, err
	case m.Exited:
		return r.cancelEnded(ctx, c, run, reason)
	case !m.Started:
		if err := r.cfg.Streams.Unqueue(ctx, v.Queue, run); err != nil { // a worker drops it as cancelled
			r.log.Warn("a cancelled task could not be removed from the queue", zap.String("run", run), zap.Error(err))
		}
		c.State = runs.StateCancelled
		return c, nil
	case !m.Cancelled:
		c.Before = runs.StateWorking
		err := r.cfg.Streams.AskCancel(ctx, run, reason)
		if err == nil {
			return r.cancelling(ctx, c, run)
		}
		if errors.Is(err, runs.ErrNoOwner) { // it was removed meanwhile
			_, err = r.cfg.Streams.AppendIf(ctx, v.Agent, run, m, func(m runs.Mark) *runs.Entry {
				return cancelEntry(m, reason)
			})
		}
		if err != nil {
			return c, err
		}
	}
	r.askAgain(ctx, run, reason)
	return r.cancelling(ctx, c, run)
}

// askAgain asks the owner of a run whose log has the cancel entry already. A worker that takes a run
// over subscribes first and then reads the log: it has read the entry, or it receives this request. A
// run without a worker is cancelled by the next one that takes it over.
func (r *Table) askAgain(ctx context.Context, run, reason string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := r.cfg.Streams.AskCancel(ctx, run, reason)
	if err != nil && !errors.Is(err, runs.ErrNoOwner) {
		r.log.Warn("the owner did not answer about the cancel entry", zap.String("run", run), zap.Error(err))
	}
}

// cancelEnded cancels the task of a run that has just ended, if the task awaits
// resumption now.
func (r *Table) cancelEnded(ctx context.Context, c cancelled, run, reason string) (cancelled, error) {
	v, err := r.Until(ctx, run, nil, func(v runs.Header) bool { return v.State.Final() || v.Waits() })
	switch {
	case err != nil:
		return c, err
	case v.Waits():
		return r.cancelWaiting(ctx, v, reason)
	}
	return c, &EndedError{v.State}
}

// cancelling waits a short time for the end of a cancelled run.
func (r *Table) cancelling(ctx context.Context, c cancelled, run string) (cancelled, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	v, err := r.Wait(ctx, run, nil)
	if err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return c, err
	}
	c.State = v.State
	if v.State.Final() && v.State != runs.StateCancelled {
		return c, &EndedError{v.State}
	}
	return c, nil
}

// cancelEntry is the entry that cancels the run of a log, nil if the log has
// one or has ended.
func cancelEntry(m runs.Mark, reason string) *runs.Entry {
	if m.Exited || m.Cancelled {
		return nil
	}
	if len(reason) > runs.MaxReason {
		reason = reason[:runs.MaxReason]
	}
	body := runs.Encode(runs.Remark{Reason: strings.ToValidUTF8(reason, "")})
	return newEntry(runs.Cancelled, body)
}
