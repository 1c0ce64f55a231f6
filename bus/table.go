package bus

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
)

// WatchRuns calls each with the row of every run's record, in the order in which they
// were stored, then with every change, until ctx ends: then it returns nil. It reads no
// records. After a loss of the connection it may repeat rows; if the run table was
// recreated, it reports that first. It waits for a run table that does not exist yet,
// and calls each with the reason.
func (b *Bus) WatchRuns(ctx context.Context, each func(runs.Change)) error {
	b.await(ctx, b.js, bucket.Stream(b.Runs()), func(why string) { each(runs.Change{Waits: why}) })
	all := bucket.Watch{Keys: ">", HeadersOnly: true, Log: b.log}
	return bucket.New(b.js, b.Runs()).Watch(ctx, all, func(e bucket.Entry, last bool) {
		c := runs.Change{Revision: e.Revision, Last: last}
		var err error
		if e.Deleted {
			c.Row.ID, c.Removed = e.Key, true
		} else if c.Row, err = b.row(ctx, e); err != nil {
			b.log.Warn("a run record has no row", zap.Uint64("sequence", c.Revision))
			c = runs.Change{Revision: c.Revision, Last: c.Last}
		}
		each(c)
	}, func(replaced, empty bool) { each(runs.Change{Reset: replaced, Last: empty}) })
}

// row returns the row of a run record. Records of the first releases have none: then it
// is derived from the record.
func (b *Bus) row(ctx context.Context, e bucket.Entry) (runs.Row, error) {
	if text := e.Header.Get(HeaderRow); text != "" {
		return runs.ParseRow(text)
	}
	record, ok, err := b.Record(ctx, e.Key)
	if err != nil || !ok {
		return runs.Row{}, errors.Join(err, runs.ErrNoRun)
	}
	return record.Row(), nil
}

// FirstRun returns the first sequence in RUNS: records before it have expired.
func (b *Bus) FirstRun(ctx context.Context) (uint64, error) {
	stream, err := b.js.Stream(ctx, bucket.Stream(b.Runs()))
	if err != nil {
		return 0, fmt.Errorf("bucket %s: %w", b.Runs(), err)
	}
	return stream.CachedInfo().State.FirstSeq, nil
}

// RemoveRun removes the record of a run that has ended, if it still has the given
// revision; otherwise the error is [runs.ErrMoved]. The run's events remain.
func (b *Bus) RemoveRun(ctx context.Context, run string, revision uint64) error {
	_, err := bucket.New(b.js, b.Runs()).Delete(ctx, run, bucket.If(revision))
	if bucket.Moved(err) {
		err = runs.ErrMoved
	}
	if err != nil {
		return fmt.Errorf("run %s: remove its record: %w", run, err)
	}
	return nil
}
