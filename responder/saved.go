package responder

import (
	"context"
	"errors"
	"math"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// newest reads all that is stored, and queues the newest items. It begins with the newest saved fold
// behind which there are enough events; items are at least as many.
func (d *details) newest(ctx context.Context) error {
	newest := ring{items: d.last, bytes: maxRing}
	read := func() error {
		return d.read(ctx, false, func(i api.DetailItem) error { newest.add(i); return nil }, d.fold.Done)
	}
	r, ok, err := d.service.cfg.Streams.Record(ctx, d.view.ID)
	if err == nil && ok {
		err = d.start(ctx, math.MaxUint64, func(f runs.SavedFold) bool { return events(r)-events(f.Record) >= int64(d.last) })
	}
	from := d.from
	if err == nil {
		err = read()
	}
	if err == nil && from > 1 && !newest.full { // its counts are wrong
		newest = ring{items: d.last, bytes: maxRing}
		if err = d.start(ctx, 0, nil); err == nil {
			err = read()
		}
	}
	if err != nil {
		return err
	}
	d.last, d.queue = 0, newest.all
	return d.count(d.fold.Pending() + newest.size)
}

// events returns the number of events of a run.
func events(r *runs.Record) (n int64) {
	for _, of := range r.Events {
		n += of
	}
	return n
}

// start starts a reading with the newest saved fold that suits and whose last entry is before a sequence of
// RAW, or with the first entry. Saved folds are a cache: one that cannot be read is none.
func (d *details) start(ctx context.Context, before uint64, suits func(runs.SavedFold) bool) error {
	s, found := d.service, false
	var failed error
	if before > 0 {
		err := s.cfg.Streams.SavedFolds(ctx, d.view.Agent, d.view.ID, before, func(f runs.SavedFold) (bool, error) {
			if suits(f) {
				if fold, err := s.cfg.Details(d.view.Agent, d.view.ID, &f); err == nil {
					found, failed = true, d.resume(ctx, fold, f.Seq)
				}
			}
			return found, failed
		})
		if failed == nil && err != nil {
			s.log.Debug("a log is read from its beginning", zap.String("run", d.view.ID), zap.Error(err))
			failed = ctx.Err()
		}
	}
	if found || failed != nil {
		return failed
	}
	d.queue, d.from = nil, 1
	d.fold, failed = s.cfg.Details(d.view.Agent, d.view.ID, nil)
	return failed
}

// resume continues a reading behind the last entry of a restored fold.
func (d *details) resume(ctx context.Context, fold DetailFold, behind uint64) error {
	each := func(from uint64, f func(seq uint64, e runs.Entry) (more bool)) error {
		err := d.service.cfg.Streams.Entries(ctx, d.view.Agent, d.view.ID, from, false, func(seq uint64, e runs.Entry) error {
			if f(seq, e) {
				return nil
			}
			return errEnough
		})
		if errors.Is(err, errEnough) {
			err = nil
		}
		return err
	}
	for _, span := range fold.Again() {
		err := each(span.From, func(seq uint64, e runs.Entry) bool {
			if e.Kind == runs.ErrOut && seq <= span.To {
				fold.Apply(seq, e, func(api.DetailItem) {})
			}
			return seq < span.To
		})
		if err != nil {
			return err
		}
	}
	d.fold, d.queue, d.from = fold, nil, behind+1
	return each(1, func(_ uint64, e runs.Entry) bool {
		d.torn = e.Kind != runs.Queued && e.Kind != runs.Started
		return false
	})
}
