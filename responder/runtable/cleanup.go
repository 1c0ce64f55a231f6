package runtable

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

// Cleanup ends stuck runs and removes old ones. The error is the first failure;
// the report is complete even then.
func (r *Table) Cleanup(ctx context.Context, c api.Cleanup) (api.CleanedUp, error) {
	var report api.CleanedUp
	err := r.storable(ctx)
	if err == nil {
		report, err = r.endStuck(ctx, c.Stuck, c.DryRun)
	}
	now := time.Now()
	var all []*entry
	r.index.recent(func(e *entry) bool {
		if age := now.Sub(time.UnixMilli(int64(e.endedAt))); age >= c.Old && e.revision != 0 {
			report.Oldest = max(report.Oldest, age)
			all = append(all, new(*e)) // its revision may change
		}
		return true
	})
	report.Old = len(all)
	// Oldest first: an interrupted cleanup does not remove the run that ended a task
	// before the earlier runs of the task.
	slices.Reverse(all)
	if c.DryRun {
		return report, err
	}
	for _, e := range all {
		removeErr := r.cfg.Streams.RemoveRun(ctx, e.id(), e.revision)
		if errors.Is(removeErr, runs.ErrMoved) { // another process removed it
			continue
		}
		if removeErr != nil {
			err = errors.Join(err, removeErr)
			break // the other removals would most likely fail, too
		}
		r.index.change(runs.Change{Run: runs.Header{Summary: runs.Summary{ID: e.id()}}, Revision: e.revision + 1,
			Removed: true}, now)
		report.Removed++
	}
	return report, err
}

// storable returns why it is unknown which workers are alive, nil if their heartbeats can be stored.
func (r *Table) storable(ctx context.Context) error {
	err := r.cfg.Streams.Storable(ctx)
	if ctx.Err() == nil {
		r.workers.storable(err == nil)
	}
	return err
}

// endStuck ends the runs that were silent for longer than after.
func (r *Table) endStuck(ctx context.Context, after time.Duration, dryRun bool) (report api.CleanedUp, err error) {
	now := time.Now()
	working, _ := r.index.open()
	for _, row := range working {
		if row.ContinuedBy != "" {
			continue // its own agent has ended
		}
		// Entries carry the publisher's clock, which may be wrong by hours.
		// Changes that arrived while this process was watching are timed by its
		// own clock.
		sign := time.UnixMilli(int64(max(row.ActiveAt, row.StartedAt)))
		if e := r.index.get(row.ID); e != nil && e.lastChange != 0 {
			sign = r.index.began.Add(e.lastChange)
		}
		if row.Worker != "" {
			if !r.lost(row, now) {
				continue
			}
			if at := r.workers.last(row.Worker); at.After(sign) {
				sign = at
			}
		}
		if row.Source == "cloud" || row.Unowned() || now.Sub(sign) < after {
			continue // Codex Cloud reports the end itself, and a run that awaits an answer has no worker
		}
		report.Stuck = append(report.Stuck, row.ID)
		if dryRun {
			continue
		}
		ended, endErr := r.endLost(ctx, row)
		if err = errors.Join(err, endErr); ended {
			report.Ended = append(report.Ended, row.ID)
		}
	}
	return report, err
}

// endLost ends a run whose outcome is unknown, unless it wrote an entry meanwhile.
func (r *Table) endLost(ctx context.Context, row runs.Header) (bool, error) {
	return r.exit(ctx, row, runs.ReasonLost, func(m runs.Mark) bool { return m.Seq > row.Seq })
}

// exit ends a run with a reason, unless its log has ended or rejects it. It reports
// whether it did.
func (r *Table) exit(
	ctx context.Context, row runs.Header, reason runs.Reason, rejects func(runs.Mark) bool,
) (ended bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = r.cfg.Streams.AppendIf(ctx, row.Agent, row.ID, row.Mark(), func(m runs.Mark) *runs.Entry {
		if ended = !m.Exited && !rejects(m); !ended {
			return nil
		}
		return newEntry(runs.Exited, runs.Encode(runs.Exit{Reason: reason}))
	})
	if ended && err == nil && reason == runs.ReasonLost {
		r.orphans.Add(1)
	}
	return ended && err == nil, err
}

// maintain does the periodic work, once a minute: it drops expired rows, and
// ends stuck runs, overdue questions, and runs shown as queued that are in no
// queue.
func (r *Table) maintain(ctx context.Context) error {
	if err := r.Ready(ctx, math.MaxInt64); err != nil {
		return nil
	}
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if first, err := r.cfg.Streams.FirstRun(ctx); err == nil {
			r.index.expire(first)
		}
		r.seen.expire(time.Now())
		r.endUnqueued(ctx, time.Minute)
		r.endOverdue(ctx, time.Minute)
		if r.storable(ctx) != nil || r.cfg.StuckAfter == 0 {
			continue
		}
		report, err := r.endStuck(ctx, r.cfg.StuckAfter, false)
		if len(report.Ended) > 0 {
			r.log.Warn("ended runs whose workers are gone", zap.Strings("runs", report.Ended))
		}
		if err != nil && ctx.Err() == nil {
			r.log.Warn("stuck runs could not be ended", zap.Error(err))
		}
	}
}

// endUnqueued ends runs that were recorded as queued longer than after ago, but
// are in no queue: their submission failed, or the queue was purged.
func (r *Table) endUnqueued(ctx context.Context, after time.Duration) {
	_, queued := r.index.open()
	for _, row := range queued {
		if row.ContinuedBy != "" || time.Since(time.UnixMilli(int64(row.QueuedAt))) < after {
			continue
		}
		inQueue, err := r.cfg.Streams.Queued(ctx, row.Queue, row.ID)
		if err != nil {
			return // the next one would most likely fail, too
		}
		if inQueue {
			continue
		}
		if ended, err := r.endLost(ctx, row); err != nil && ctx.Err() == nil {
			r.log.Warn("a run that is in no queue could not be ended", zap.String("run", row.ID), zap.Error(err))
		} else if ended {
			r.log.Warn("ended a run that is in no queue", zap.String("run", row.ID))
		}
	}
}
