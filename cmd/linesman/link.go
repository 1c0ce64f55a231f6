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

// nextLink is the id of a run that goes on with a task, which any run of it
// names. The error says why nobody can go on with it.
func (a *app) nextLink(ctx context.Context, b *bus.Bus, run, agent string) (link, task string, err error) {
	ctx, cancel := soon(ctx)
	defer cancel()
	record, err := settled(ctx, b, run)
	if err != nil {
		return "", "", fmt.Errorf("--resume %s: %w", run, err)
	}
	task = cmp.Or(record.Continues, run)
	for n := 2; ; n++ {
		if link, err = runs.LinkID(task, n); err != nil {
			return "", "", fmt.Errorf("--resume %s: %w", run, err)
		}
		next, err := settled(ctx, b, link)
		if errors.Is(err, runs.ErrNoRun) {
			break
		}
		if err != nil {
			return "", "", fmt.Errorf("--resume %s: %w", run, err)
		}
		record = next
	}
	switch {
	case record.Agent != agent:
		return "", "", fmt.Errorf("--resume %s: it is a run of %s: name that with --agent", run, record.Agent)
	case !record.Waits():
		return "", "", fmt.Errorf("--resume %s: nothing waits to be gone on with: run %s is %s", run, record.ID, record.Outcome())
	}
	return link, task, nil
}

// settled is the record of a run; that of one that may just be ending is waited
// for a moment.
func settled(ctx context.Context, b *bus.Bus, run string) (*runs.Record, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		record, ok, err := b.Record(ctx, run)
		known := ok
		if err == nil && !ok {
			known, err = b.Known(ctx, run)
		}
		switch {
		case err != nil:
			return nil, err
		case !known:
			return nil, runs.ErrNoRun
		case ok && (record.EndedAt != 0 || n >= 60):
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
