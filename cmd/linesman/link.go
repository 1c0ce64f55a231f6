package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// nextLink returns the id of the run that continues a task, and the id of the
// task, of which run may be any run. The error says why it cannot be continued.
func (a *app) nextLink(ctx context.Context, b *bus.Bus, run, agent string) (link, task string, err error) {
	record, err := a.settled(ctx, b, run, "")
	if err != nil {
		return "", "", fmt.Errorf("--resume %s: %w", run, err)
	}
	task = cmp.Or(record.Continues, run)
	n := 2
	for ; ; n++ {
		if link, err = runs.LinkID(task, n); err != nil {
			return "", "", fmt.Errorf("--resume %s: %w", run, err)
		}
		next, err := a.settled(ctx, b, link, task)
		if errors.Is(err, runs.ErrNoRun) {
			break
		}
		if errors.Is(err, errRemoved) {
			continue // its number was used
		}
		if err != nil {
			return "", "", fmt.Errorf("--resume %s: %w", run, err)
		}
		if next.Continues == task { // else it is a run of its own with such an id
			record = next
		}
	}
	switch {
	case record.Agent != agent:
		return "", "", fmt.Errorf("--resume %s: it is a run of %s: name that with --agent", run, record.Agent)
	case !record.Waits():
		return "", "", fmt.Errorf("--resume %s: the task is not awaiting resumption: run %s is %s", run, record.ID,
			record.Outcome())
	case n == runs.MaxLinks: // the last one is for the cancel
		return "", "", fmt.Errorf("--resume %s: %w: `linesman cancel %s` cancels the task", run, runs.ErrManyRuns, task)
	}
	return link, task, nil
}

// errRemoved reports a run whose record was removed.
var errRemoved = errors.New("its record was removed")

// settled returns the record of a run. It waits a few seconds for the end of a
// run of the task, or of any run if task is "". The error is [runs.ErrNoRun] if
// the run is unknown, and errRemoved if its record was removed.
func (a *app) settled(ctx context.Context, b *bus.Bus, run, task string) (*runs.Record, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		var record *runs.Record
		var ok, known bool
		err := a.insist(ctx, func(ctx context.Context) (err error) {
			if record, ok, err = b.Record(ctx, run); err != nil || ok {
				return err
			}
			if known, err = b.Known(ctx, run); err != nil || !known {
				return err
			}
			// It is late, or was removed.
			if _, err = b.Peek(ctx, run); errors.Is(err, runs.ErrNoRun) && !bus.IsAway(err) {
				return errRemoved
			}
			return err
		})
		switch {
		case err != nil:
			return nil, err
		case !ok && !known:
			return nil, runs.ErrNoRun
		case ok && (record.EndedAt != 0 || n >= 60 || task != "" && record.Continues != task):
			return record, nil
		case n >= 100:
			return nil, errors.New("there is no record of it: is a normalizer at work?")
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-tick.C:
		}
	}
}
