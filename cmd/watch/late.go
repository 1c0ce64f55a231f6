package watch

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// maxLate bounds the runs that have a completion, and have not ended by their records. Each look asks for
// those that are not listed as working.
const maxLate = 64

// end returns what is to be reported about a run that has a completion, with the run; "": another run ends it. False:
// its record has no end yet.
func (w *watcher) end(ctx context.Context, id string) (of string, all []notice, known bool, err error) {
	run, err := w.cfg.Runs.Status(ctx, id)
	now := time.Now()
	switch {
	case api.Is(err, api.NotFound): // it was removed
		return id, nil, true, nil
	case err != nil:
		return "", nil, false, err
	case run.State.Final():
		w.endedToday(run, now)
		return run.ID, w.cfg.Rules.Run(run, now, now), true, nil
	}
	return "", nil, run.State == runs.StateInputRequired || run.ContinuedBy != "", nil
}

// lookAtLate reports the ends that have come late, as far as there is room. Open are the open runs.
func (w *watcher) lookAtLate(ctx context.Context, open []*api.Run) error {
	var errs []error
	for _, id := range w.out.late() {
		if slices.ContainsFunc(open, func(run *api.Run) bool {
			return run.ID == id && run.State == runs.StateWorking && run.ContinuedBy == ""
		}) {
			continue
		}
		if ctx.Err() != nil || w.out.deliver == nil && w.out.full() { // a later look adds it
			break
		}
		run, all, known, err := w.end(ctx, id)
		if err == nil && known {
			err = w.out.cameLate(ctx, id, run, all)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// late returns the runs that have a completion, and have not ended by their records.
func (o *outbox) late() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.state.Late)
}

// isLate says that a run has not ended by its record, although it has the completion seq, which counts as handled.
func (o *outbox) isLate(run string, seq uint64, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.handled(seq, now)
	if slices.Contains(o.state.Late, run) {
		return
	}
	if o.state.Late = append(o.state.Late, run); len(o.state.Late) > maxLate {
		o.log.Warn("too many runs have a completion, and have not ended: an end is not reported",
			zap.String("run", o.state.Late[0]))
		o.state.Late = slices.Delete(o.state.Late, 0, 1)
	}
	o.save()
}

// cameLate adds the notices about the end of a run, which came later than that of id.
func (o *outbox) cameLate(ctx context.Context, id, run string, all []notice) error {
	if o.deliver != nil {
		if err := o.room(ctx); err != nil {
			return err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.state.Late = slices.DeleteFunc(o.state.Late, func(late string) bool { return late == id })
	o.over(run, all)
	return nil
}

// handled is called with mu held, when a completion was handled.
func (o *outbox) handled(seq uint64, now time.Time) {
	o.state.After, o.state.At, o.unsaved = seq, now.UnixMilli(), true
	o.state.Raw, o.state.Time = o.reading.raw, o.reading.time
}

// over is called with mu held, with the notices about the end of a run.
func (o *outbox) over(run string, all []notice) {
	added := o.add(all, math.MaxInt, math.MaxInt)
	o.unsaved = true
	if slices.ContainsFunc(o.state.Reported, ofRun(run)) && !slices.Contains(o.state.Over, run) {
		o.state.Over = append(o.state.Over, run)
	}
	if len(added) > 0 {
		o.save()
	}
}
