package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// WatchRuns calls each with the row of every run's record, in the order in
// which they were stored, and then with what changes, until ctx ends: then it
// returns nil. It reads no record. After a loss of the connection it may tell
// again what was told; where the run table was made anew it says so first. One that
// does not exist yet is waited for, and each is called with the reason.
func (b *Bus) WatchRuns(ctx context.Context, each func(runs.Change)) error {
	prefix := bucket.Subject(b.Runs(), "")
	b.await(ctx, b.js, bucket.Stream(b.Runs()), func(why string) { each(runs.Change{Waits: why}) })
	w := reader.Watch{JS: b.js, Stream: bucket.Stream(b.Runs()), Subject: prefix + ">", HeadersOnly: true, Log: b.log}
	return w.Run(ctx, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
		c := runs.Change{Revision: meta.Sequence.Stream, Last: meta.NumPending == 0}
		var err error
		if m.Headers().Get(headerOperation) != "" {
			c.Row.ID, c.Removed = m.Subject()[len(prefix):], true
		} else if c.Row, err = b.row(ctx, m, m.Subject()[len(prefix):]); err != nil {
			b.log.Warn("a run record without a row", zap.Uint64("sequence", c.Revision))
			c = runs.Change{Revision: c.Revision, Last: c.Last}
		}
		each(c)
	}, func(anew, empty bool) { each(runs.Change{Anew: anew, Last: empty}) })
}

// row is the row of a run record. One of the first builds has none beside it:
// then it is made from the record.
func (b *Bus) row(ctx context.Context, m jetstream.Msg, run string) (runs.Row, error) {
	if text := m.Headers().Get(HeaderRow); text != "" {
		return runs.ParseRow(text)
	}
	record, ok, err := b.Record(ctx, run)
	if err != nil || !ok {
		return runs.Row{}, errors.Join(err, runs.ErrNoRun)
	}
	return record.Row(), nil
}

// headerOperation marks a key of a bucket that was removed.
const headerOperation = "KV-Operation"

// FirstRun is the first sequence that RUNS still holds: records before it
// have aged out.
func (b *Bus) FirstRun(ctx context.Context) (uint64, error) {
	stream, err := b.js.Stream(ctx, bucket.Stream(b.Runs()))
	if err != nil {
		return 0, fmt.Errorf("bucket %s: %w", b.Runs(), err)
	}
	return stream.CachedInfo().State.FirstSeq, nil
}

// RemoveRun removes the record of a run that has ended, if it is still that
// of the given revision; else the error is [runs.ErrMoved]. Its events stay.
func (b *Bus) RemoveRun(ctx context.Context, run string, revision uint64) error {
	m := nats.NewMsg(bucket.Subject(b.Runs(), run))
	m.Header.Set(headerOperation, "DEL")
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(revision, 10))
	_, err := b.js.PublishMsg(ctx, m)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == wrongLastSequence {
		err = runs.ErrMoved
	}
	if err != nil {
		return fmt.Errorf("run %s: remove its record: %w", run, err)
	}
	return nil
}
