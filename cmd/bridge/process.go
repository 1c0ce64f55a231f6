package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// process processes one request. After an error it is retried; nil means that
// the request is done or ctx has ended.
func (w *dirWatcher) process(ctx context.Context, name string, r requestFile) error {
	e, known := w.journal.get(r.ID)
	if !known {
		if w.responseID(name) == r.ID { // another program has answered it
			return w.removeRequest(name, r.ID)
		}
		now := time.Now()
		e = entry{ID: r.ID, Name: name, Run: runs.NewID(now.UnixMilli(), rand.Uint64()), At: now.UnixMilli()}
		timeout := r.Timeout
		if w.cfg.MaxTimeout > 0 {
			timeout = min(timeout, w.cfg.MaxTimeout)
		}
		e.Timeout = max(timeout.Milliseconds(), 1)
		if err := w.journal.put(e); err != nil {
			return err
		}
		w.log.Info("request", zap.String("file", name), zap.String("request", r.ID), zap.String("run", e.Run))
		w.step("claimed")
	}
	if e.Answered != 0 {
		if err := w.publish(e); err != nil {
			return err
		}
		return w.removeRequest(name, r.ID)
	}
	if by, found := w.foundResponse(name, r.ID); found { // which no bridge has recorded
		return w.yield(ctx, e, by)
	}
	if err := w.quarantineStale(name, r.ID); err != nil {
		return err
	}
	o, err := w.outcome(ctx, r, e, known)
	switch why := context.Cause(ctx); {
	case errors.Is(why, errReplaced), errors.Is(why, errWithdrawn):
		return w.abandon(context.WithoutCancel(ctx), e, why)
	case errors.Is(why, errOvertaken):
		by, _ := w.foundResponse(name, r.ID)
		return w.yield(ctx, e, by)
	}
	if err != nil { // ctx ended: the next bridge resumes
		return nil
	}
	return w.answer(e, o)
}

// graceTime bounds calls that end a run, and the search for the outcome of a
// run that should have ended while no bridge was running.
const graceTime = 5 * time.Second

// outcome executes the request and returns its outcome. earlier means that an
// earlier bridge claimed the request, so its run may have ended already. The
// error is that of ctx.
func (w *dirWatcher) outcome(ctx context.Context, r requestFile, e entry, earlier bool) (outcome, error) {
	until := e.deadline()
	if soonest := time.Now().Add(graceTime); earlier && until.Before(soonest) {
		until = soonest
	}
	working, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	logged, submitted := false, earlier
	for {
		o, err := w.try(working, r, e, &submitted)
		switch refused, ok := errors.AsType[*refusedError](err); {
		case err == nil:
			return w.timed(o, e), nil
		case ok:
			return failed(refused.Why), nil
		case ctx.Err() != nil:
			return outcome{}, ctx.Err()
		case working.Err() == nil && !logged:
			logged = true
			w.log.Warn("request failed, retrying until its timeout",
				zap.String("request", e.ID), zap.String("run", e.Run), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return outcome{}, ctx.Err()
		case <-working.Done():
			if ctx.Err() != nil { // which has ended it: there may be time left
				return outcome{}, ctx.Err()
			}
			o, err := w.expire(ctx, e)
			if err == nil && o.Status == statusTimeout && len(r.Problems) > 0 { // its run could not be looked for
				o.Status, o.Message = statusError, invalid(r).Why
			}
			return o, err
		case <-time.After(w.cfg.Retry):
		}
	}
}

// expire ends a run whose timeout has passed. If the run has an answer all the
// same, that is the outcome. So is an error of an external agent that was
// accepted. The error is that of ctx.
func (w *dirWatcher) expire(ctx context.Context, e entry) (outcome, error) {
	ending, cancel := context.WithTimeout(ctx, graceTime)
	defer cancel()
	for ended := false; ; {
		var o outcome
		err := w.cfg.runner.Expire(ending, e.Run)
		if err == nil {
			ended = true
			o, err = w.cfg.runner.Wait(ending, e.Run)
		}
		if err == nil && (o.Status == statusSuccess || o.Taken) {
			return w.timed(o, e), nil
		}
		if isMomentary(err) {
			select {
			case <-time.After(w.cfg.Retry):
				continue
			case <-ending.Done():
			}
		}
		if err != nil && ctx.Err() != nil { // the next bridge asks for its answer
			return outcome{}, ctx.Err()
		}
		if err != nil {
			w.log.Warn("cannot end a run that timed out, or read its outcome",
				zap.String("run", e.Run), zap.Bool("ended", ended), zap.Error(err))
		}
		return w.timed(outcome{Status: statusTimeout, Unended: !ended}, e), nil
	}
}

// endLeft ends the runs that could not be ended when they timed out: in the background, until none is left.
func (w *dirWatcher) endLeft(ctx context.Context) {
	if len(w.journal.unended()) == 0 || !w.ending.TryLock() {
		return
	}
	w.wait.Go(func() {
		defer w.ending.Unlock()
		for ctx.Err() == nil {
			left := w.journal.unended()
			for _, e := range left {
				w.endLate(ctx, e)
			}
			if len(left) == 0 {
				return
			}
			select {
			case <-ctx.Done():
			case <-time.After(w.cfg.Poll):
			}
		}
	})
}

func (w *dirWatcher) endLate(ctx context.Context, e entry) {
	ending, cancel := context.WithTimeout(ctx, graceTime)
	defer cancel()
	err := w.cfg.runner.Expire(ending, e.Run)
	refused, known := errors.AsType[*api.Error](err)
	switch {
	case err == nil:
		w.log.Info("a run that timed out is ended", zap.String("run", e.Run))
	case !known || refused.Retryable || is(err, api.Internal, api.Conflict, api.NotEnded):
		return // to be tried again
	default:
		w.log.Warn("a run that timed out cannot be ended", zap.String("run", e.Run), zap.Error(err))
	}
	if err := w.journal.ended(e.ID); err != nil {
		w.log.Warn("cannot store that a run is ended", zap.String("run", e.Run), zap.Error(err))
	}
}

// try waits for the end of the run. It submits the run first if there is time left, unless that may be done: then only
// where there is none, because settings and the file may have changed.
func (w *dirWatcher) try(ctx context.Context, r requestFile, e entry, submitted *bool) (outcome, error) {
	if *submitted {
		o, err := w.ended(ctx, e)
		if !is(err, api.NotFound) {
			return o, err
		}
	}
	if len(r.Problems) > 0 {
		return outcome{}, invalid(r)
	}
	if time.Now().Before(e.deadline()) {
		labels := map[string]string{"request_id": r.ID}
		for key, value := range map[string]string{"phase": r.Phase, "phase_name": r.PhaseName, "agent_name": r.Agent} {
			if value != "" {
				labels[key] = value
			}
		}
		// Not cut short: a cancel must not come before what it cancels.
		submitting, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTime)
		err := w.cfg.runner.Submit(submitting, job{Run: e.Run, Prompt: r.Prompt, Model: r.Model,
			Timeout: time.Duration(e.Timeout) * time.Millisecond, Due: e.deadline(), Labels: runs.LabelsOf(labels)})
		cancel()
		if err != nil {
			return outcome{}, err
		}
		*submitted = true
		w.step("submitted")
	}
	return w.ended(ctx, e)
}

// invalid is the error of a request with problems.
func invalid(r requestFile) *refusedError {
	return &refusedError{"invalid request: " + strings.Join(r.Problems, "; ")}
}

// ended waits for the end of a run.
func (w *dirWatcher) ended(ctx context.Context, e entry) (outcome, error) {
	o, err := w.cfg.runner.Wait(ctx, e.Run)
	if err == nil {
		w.step("ended")
	}
	return o, err
}

// timed adds duration, timeout message and run id to an outcome.
func (w *dirWatcher) timed(o outcome, e entry) outcome {
	if o.Took <= 0 {
		o.Took = time.Since(time.UnixMilli(e.At))
	}
	if o.Status == statusTimeout && o.Message == "" {
		seconds := time.Duration(e.Timeout) * time.Millisecond
		o.Message = fmt.Sprintf("Agent execution timeout after %v seconds", seconds.Seconds())
	}
	o.Meta = maps.Clone(o.Meta)
	if o.Meta == nil {
		o.Meta = map[string]string{}
	}
	o.Meta["run_id"] = e.Run
	return o
}

// abandon cancels the run of a request that no program waits for, and writes
// no response.
func (w *dirWatcher) abandon(ctx context.Context, e entry, why error) error {
	ending, cancel := context.WithTimeout(ctx, 2*graceTime)
	defer cancel()
	if err := w.cfg.runner.Cancel(ending, e.Run, why.Error()); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("cancel run %s: %w", e.Run, err)
	}
	if err := w.dir.remove(unpublishedName(e)); err != nil {
		return err
	}
	w.log.Info("request abandoned",
		zap.String("request", e.ID), zap.String("run", e.Run), zap.String("why", why.Error()))
	return w.journal.forget(e.ID)
}

// yield accepts the response of another program as the answer. It ignores the end of ctx: while the response is there,
// each scan cancels the request.
func (w *dirWatcher) yield(ctx context.Context, e entry, by outcome) error {
	w.step("found")
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*graceTime)
	defer cancel()
	if err := w.cfg.runner.Overtaken(ending, e.Run, by); err != nil {
		return fmt.Errorf("notify run %s that its request is answered: %w", e.Run, err)
	}
	w.step("overtaken")
	e.Answered = time.Now().UnixMilli()
	if err := w.journal.put(e); err != nil {
		return err
	}
	w.step("answered")
	w.log.Info("answered by another program", zap.String("request", e.ID), zap.String("run", e.Run))
	return w.removeRequest(e.Name, e.ID)
}
