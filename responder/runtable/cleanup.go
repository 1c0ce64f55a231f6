package runtable

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// CleanupSpec says what a cleanup takes for stuck, and for old.
type CleanupSpec struct {
	// Stuck ends a run whose worker is gone and that has given no sign for so
	// long: no output, no word of its worker. How long ago it began does not
	// matter.
	Stuck time.Duration
	// Old removes the record of a run that ended so long ago.
	Old time.Duration
	// DryRun only looks.
	DryRun bool
}

// CleanupReport says what a cleanup found and did.
type CleanupReport struct {
	Stuck  []string // runs found stuck
	Ended  []string // of them, those that were ended: reason lost
	Old    int      // runs found old
	Oldest time.Duration
	Gone   int // of them, those whose record was removed
}

// Cleanup ends runs that are stuck and removes old ones. The error is the
// first thing that went wrong; the report says what was done all the same.
func (r *Table) Cleanup(ctx context.Context, spec CleanupSpec) (CleanupReport, error) {
	report, err := r.endStuck(ctx, spec.Stuck, spec.DryRun)
	now := time.Now()
	type old struct {
		id       string
		revision uint64
	}
	var all []old
	r.index.recent(func(row runs.Row, revision uint64) bool {
		if age := now.Sub(time.UnixMilli(row.EndedAt)); age >= spec.Old && revision != 0 {
			report.Oldest = max(report.Oldest, age)
			all = append(all, old{row.ID, revision})
		}
		return true
	})
	report.Old = len(all)
	slices.Reverse(all) // the oldest first: broken off, no task lacks the run that ended it
	if spec.DryRun {
		return report, err
	}
	for _, o := range all {
		if removeErr := r.cfg.Streams.RemoveRun(ctx, o.id, o.revision); removeErr != nil {
			if errors.Is(removeErr, runs.ErrMoved) { // somebody else removed it
				continue
			}
			err = errors.Join(err, removeErr)
			break // most likely all fail alike
		}
		r.index.change(runs.Change{Row: runs.Row{ID: o.id}, Revision: o.revision + 1, Removed: true}, now)
		report.Gone++
	}
	return report, err
}

// endStuck ends the runs that gave no sign for so long.
func (r *Table) endStuck(ctx context.Context, after time.Duration, dryRun bool) (report CleanupReport, err error) {
	now := time.Now()
	working, _ := r.index.open()
	for _, row := range working {
		if row.Link != "" {
			continue // its own agent has ended
		}
		// When something was captured says whoever captured it, by a clock that may
		// be wrong by hours. What came while we listened is as old as that.
		sign := r.index.heard(row.ID)
		if sign.IsZero() {
			sign = time.UnixMilli(max(row.ActiveAt, row.StartedAt))
		}
		if row.Worker != "" {
			if !r.lost(row, now) {
				continue
			}
			if at := r.workers.last(row.Worker); at.After(sign) {
				sign = at
			}
		}
		if row.Source == "cloud" || row.State == runs.StateInputRequired || now.Sub(sign) < after {
			continue // the cloud says itself when it ends, and nobody works on what waits for an answer
		}
		report.Stuck = append(report.Stuck, row.ID)
		if dryRun {
			continue
		}
		ended, endErr := r.lose(ctx, row)
		if err = errors.Join(err, endErr); ended {
			report.Ended = append(report.Ended, row.ID)
		}
	}
	return report, err
}

// lose ends a run of which nobody knows how it ends.
func (r *Table) lose(ctx context.Context, row runs.Row) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ended := false
	_, err := r.cfg.Streams.AppendIf(ctx, row.Agent, row.ID, row.Mark(), func(m runs.Mark) *runs.Entry {
		if ended = false; m.Exited || m.Seq > row.Seq { // there is a sign of it
			return nil
		}
		ended = true
		return &runs.Entry{Kind: runs.Exited, Time: time.Now().UnixMilli(), Body: runs.Encode(runs.Exit{Reason: runs.ReasonLost})}
	})
	return ended && err == nil, err
}

// keepHouse does, once a minute, what nobody asks for: it forgets what has
// aged out, ends what is stuck, and what says that it is queued and is not.
func (r *Table) keepHouse(ctx context.Context) error {
	if err := r.Ready(ctx); err != nil {
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
		r.endUnqueued(ctx, time.Minute)
		r.endOverdue(ctx, time.Minute)
		if r.cfg.StuckAfter == 0 {
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

// endUnqueued ends runs that have been queued for some time, but are in no
// queue: whoever submitted them was told that it failed, or somebody emptied it.
func (r *Table) endUnqueued(ctx context.Context, after time.Duration) {
	_, queued := r.index.open()
	for _, row := range queued {
		if row.Link != "" || time.Since(time.UnixMilli(row.QueuedAt)) < after {
			continue
		}
		waits, err := r.cfg.Streams.Queued(ctx, row.Queue, row.ID)
		if err != nil {
			return // the next will most likely fail, too
		}
		if waits {
			continue
		}
		if ended, err := r.lose(ctx, row); err != nil && ctx.Err() == nil {
			r.log.Warn("a run that is in no queue could not be ended", zap.String("run", row.ID), zap.Error(err))
		} else if ended {
			r.log.Warn("ended a run that is in no queue", zap.String("run", row.ID))
		}
	}
}
