package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// NextRun returns the ID of the run that continues a task, and the ID of the task,
// of which run may be any run. The error says why it cannot be continued.
func (s *Session) NextRun(ctx context.Context, run, agent string) (next, task string, err error) {
	record, err := s.settled(ctx, run, "")
	if err != nil {
		return "", "", err
	}
	task = cmp.Or(record.Continues, run)
	n := 2
	for ; ; n++ {
		if next, err = runs.LinkID(task, n); err != nil {
			return "", "", err
		}
		later, err := s.settled(ctx, next, task)
		if errors.Is(err, runs.ErrNoRun) {
			break
		}
		if errors.Is(err, errRemoved) {
			continue // its number was used
		}
		if err != nil {
			return "", "", err
		}
		if later.Continues == task { // else it is a run of its own with such an id
			record = later
		}
	}
	switch {
	case record.Agent != agent:
		return "", "", fmt.Errorf("it is a run of %s: name that with --agent", record.Agent)
	case !record.Waits():
		return "", "", fmt.Errorf("the task is not awaiting resumption: run %s is %s", record.ID, record.Outcome())
	case n == runs.MaxLinks: // the last one is for the cancel
		return "", "", fmt.Errorf("%w: `linesman cancel %s` cancels the task", runs.ErrManyRuns, task)
	}
	return next, task, nil
}

// errRemoved reports a run whose record was removed.
var errRemoved = errors.New("its record was removed")

// settled returns the record of a run. It waits a few seconds for the end of a
// run of the task, or of any run if task is "". The error is [runs.ErrNoRun] if
// the run is unknown, and errRemoved if its record was removed.
func (s *Session) settled(ctx context.Context, run, task string) (*runs.Record, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		var record *runs.Record
		err := s.config.Dialer.Retry(ctx, func(ctx context.Context) (err error) {
			record, err = s.record(ctx, run)
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case record != nil && (record.EndedAt != 0 || n >= 60 || task != "" && record.Continues != task):
			return record, nil
		case n >= 100:
			return nil, errors.New("there is no record of it: is a normalizer running?")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}

// record returns the record of a run, nil if the normalizer has not written it yet.
func (s *Session) record(ctx context.Context, run string) (*runs.Record, error) {
	record, ok, err := s.bus.Record(ctx, run)
	if err != nil || ok {
		return record, err
	}
	known, err := s.bus.Known(ctx, run)
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, runs.ErrNoRun
	}
	if _, err = s.bus.Peek(ctx, run); errors.Is(err, runs.ErrNoRun) && !bus.IsAway(err) {
		return nil, errRemoved
	}
	return nil, err
}

// NotResumedError reports why no run can continue a task.
type NotResumedError struct{ error }

func (e NotResumedError) Unwrap() error { return e.error }

// CreateNext is [Session.Create] of the run that continues the task of a run, as of
// [Session.NextRun]. The ID of spec is not read. The error is a [NotResumedError] if the task
// cannot be continued, or is being continued.
func (s *Session) CreateNext(ctx context.Context, run string, spec worker.Spec) (*worker.Dir, error) {
	next, task, err := s.NextRun(ctx, run, spec.Agent)
	if err != nil {
		return nil, NotResumedError{fmt.Errorf("--resume %s: %w", run, err)}
	}
	spec.Run, spec.Labels = next, spec.Labels.With(runs.LabelContinues, task)
	d, err := s.Create(ctx, spec)
	if errors.Is(err, worker.ErrKnown) {
		err = NotResumedError{fmt.Errorf("run %s: another run continues it already", run)}
	}
	return d, err
}
