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

	"github.com/linesman/linesman/runs"
)

// attend does one request. An error is for trying again; nil means that it is
// done, or that ctx ended.
func (f *folder) attend(ctx context.Context, name string, r Request) error {
	e, known := f.journal.get(r.ID)
	if !known {
		if f.responseID(name) == r.ID { // somebody else has answered it
			return f.retire(name, r.ID)
		}
		now := time.Now()
		e = entry{ID: r.ID, Name: name, Run: runs.LocalID(now.UnixMilli(), rand.Uint64()), At: now.UnixMilli()}
		e.Timeout = max(f.allowed(r.Timeout).Milliseconds(), 1)
		if err := f.journal.put(e); err != nil {
			return err
		}
		f.log.Info("request", zap.String("file", name), zap.String("request", r.ID), zap.String("run", e.Run))
		f.step("claimed")
	}
	if e.Answered != 0 {
		if err := f.publish(e); err != nil {
			return err
		}
		return f.retire(name, r.ID)
	}
	if f.responseID(name) == r.ID { // an earlier bridge was not done with it
		return f.yield(ctx, e)
	}
	if err := f.clear(name, r.ID); err != nil {
		return err
	}
	o, err := f.outcome(ctx, r, e, known)
	switch why := context.Cause(ctx); {
	case errors.Is(why, errReplaced), errors.Is(why, errWithdrawn):
		return f.release(context.WithoutCancel(ctx), e, why)
	case errors.Is(why, errOvertaken):
		return f.yield(context.WithoutCancel(ctx), e)
	}
	if err != nil { // ctx ended: the next bridge goes on
		return nil
	}
	return f.answer(e, o)
}

func (f *folder) allowed(asked time.Duration) time.Duration {
	if most := f.cfg.MaxTimeout; most > 0 {
		return min(asked, most)
	}
	return asked
}

// late is how long a run that should have ended while nobody looked may take
// to be found.
const late = 5 * time.Second

// outcome has the agent work. Of a request that an earlier bridge took, the
// run may have ended meanwhile. The error is ctx's.
func (f *folder) outcome(ctx context.Context, r Request, e entry, earlier bool) (Outcome, error) {
	if len(r.Problems) > 0 {
		return failed("invalid request: " + strings.Join(r.Problems, "; ")), nil
	}
	until := e.deadline()
	if soonest := time.Now().Add(late); earlier && until.Before(soonest) {
		until = soonest
	}
	working, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	told := false
	for {
		o, err := f.try(working, r, e)
		var refused *RefusedError
		switch {
		case err == nil:
			return f.timed(o, e), nil
		case errors.As(err, &refused):
			return failed(refused.Why), nil
		case ctx.Err() != nil:
			return Outcome{}, ctx.Err()
		case working.Err() == nil && !told:
			told = true
			f.log.Warn("a request waits", zap.String("request", e.ID), zap.String("run", e.Run), zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return Outcome{}, ctx.Err()
		case <-working.Done():
			return f.expire(ctx, e), nil
		case <-time.After(f.cfg.Retry):
		}
	}
}

// expire ends a run whose time is over. One that has an answer all the same,
// because it came at the last moment, has it: what somebody was told is taken,
// an error too, is what the response says.
func (f *folder) expire(ctx context.Context, e entry) Outcome {
	ending, cancel := context.WithTimeout(ctx, late)
	defer cancel()
	if err := f.cfg.Runner.Expire(ending, e.Run); err != nil {
		f.log.Warn("a run whose time is over could not be ended", zap.String("run", e.Run), zap.Error(err))
	} else if o, err := f.cfg.Runner.Wait(ending, e.Run); err == nil && (o.Status == StatusSuccess || o.Taken) {
		return f.timed(o, e)
	}
	return f.timed(Outcome{Status: StatusTimeout}, e)
}

// try submits the run, if there is time for it, and waits for its end.
func (f *folder) try(ctx context.Context, r Request, e entry) (Outcome, error) {
	if left := time.Until(e.deadline()); left > 0 {
		labels := map[string]string{"request_id": r.ID}
		for key, value := range map[string]string{"phase": r.Phase, "phase_name": r.PhaseName, "agent_name": r.Agent} {
			if value != "" {
				labels[key] = value
			}
		}
		err := f.cfg.Runner.Submit(ctx, Job{Run: e.Run, Prompt: r.Prompt, Model: r.Model, Timeout: left, Labels: labels})
		if err != nil {
			return Outcome{}, err
		}
		f.step("submitted")
	}
	o, err := f.cfg.Runner.Wait(ctx, e.Run)
	if err == nil {
		f.step("ended")
	}
	return o, err
}

// timed completes an outcome by what its request knows.
func (f *folder) timed(o Outcome, e entry) Outcome {
	if o.Took <= 0 {
		o.Took = time.Since(time.UnixMilli(e.At))
	}
	if o.Status == StatusTimeout && o.Message == "" {
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

// release gives a request up that nobody waits for any more: its run is
// cancelled, and nothing is written.
func (f *folder) release(ctx context.Context, e entry, why error) error {
	ending, cancel := context.WithTimeout(ctx, 2*late)
	defer cancel()
	if err := f.cfg.Runner.Cancel(ending, e.Run, why.Error()); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("cancel run %s: %w", e.Run, err)
	}
	if err := f.place.remove(waiting(e)); err != nil {
		return err
	}
	f.log.Info("request given up", zap.String("request", e.ID), zap.String("run", e.Run), zap.String("why", why.Error()))
	return f.journal.forget(e.ID)
}

// yield leaves a request to somebody else, whose response is there.
func (f *folder) yield(ctx context.Context, e entry) error {
	ending, cancel := context.WithTimeout(ctx, 2*late)
	defer cancel()
	if err := f.cfg.Runner.Overtaken(ending, e.Run, f.found(e.Name)); err != nil {
		return fmt.Errorf("tell run %s that its request is answered: %w", e.Run, err)
	}
	f.step("overtaken")
	e.Answered = time.Now().UnixMilli()
	if err := f.journal.put(e); err != nil {
		return err
	}
	f.step("answered")
	f.log.Info("answered by somebody else", zap.String("request", e.ID), zap.String("run", e.Run))
	return f.retire(e.Name, e.ID)
}
