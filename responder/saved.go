package responder

import (
	"context"
	"errors"
	"math"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// begin begins a reading with the first entry.
func (d *Details) begin() (err error) {
	d.queue, d.from = nil, 1
	d.fold, err = d.service.cfg.Details(d.view.Agent, d.view.ID, nil)
	return err
}

// newest reads all that is stored, and queues the newest items. It begins with the newest saved fold
// behind which there are enough.
func (d *Details) newest(ctx context.Context) error {
	var newest ring
	read := func() (bool, error) {
		newest = ring{items: d.last, bytes: maxRing}
		err := d.read(ctx, false, func(i api.DetailItem) error { newest.add(i); return nil }, d.fold.Done)
		return newest.full, err
	}
	found, err := d.saved(ctx, math.MaxUint64, read)
	if !found && err == nil {
		if err = d.begin(); err == nil {
			_, err = read()
		}
	}
	if err == nil {
		d.last, d.queue = 0, newest.all
	}
	return err
}

// saved continues saved folds of the run whose last entry is before a sequence of RAW, the newest first,
// until use reports that it will do. They are a cache: one that cannot be read is none.
func (d *Details) saved(ctx context.Context, before uint64, use func() (bool, error)) (found bool, err error) {
	streams := d.service.cfg.Streams
	lost := streams.SavedFolds(ctx, d.view.Agent, d.view.ID, before, func(f runs.SavedFold) (bool, error) {
		fold, refused := d.service.cfg.Details(d.view.Agent, d.view.ID, &f)
		if refused != nil {
			return false, nil
		}
		if err = d.resume(ctx, fold, f.Seq); err == nil {
			found, err = use()
		}
		return found, err
	})
	if err == nil && lost != nil {
		err = ctx.Err()
		d.service.log.Debug("a log is read from its beginning", zap.String("run", d.view.ID), zap.Error(lost))
	}
	return found, err
}

// resume continues a reading behind the last entry of a restored fold.
func (d *Details) resume(ctx context.Context, fold DetailFold, behind uint64) error {
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
