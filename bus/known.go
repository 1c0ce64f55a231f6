package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
)

// RunEntry returns the entry of a run in RUNS: its record, or the marker of a removed
// one. A missing entry is not an error.
func (b *Bus) RunEntry(ctx context.Context, run string) (bucket.Entry, error) {
	e, err := b.records.Get(ctx, run)
	if err != nil {
		return bucket.Entry{}, fmt.Errorf("run %s: read its record: %w", run, err)
	}
	return e, nil
}

// Record returns the stored record of a run, and whether there is one. It needs a login
// to the inside account. The error is [runs.ErrBadRecord] if it cannot be decoded.
func (b *Bus) Record(ctx context.Context, run string) (*runs.Record, bool, error) {
	e, err := b.RunEntry(ctx, run)
	if err != nil || !e.Exists() {
		return nil, false, err
	}
	var v struct {
		Record *runs.Record `json:"record"` // the normalizer's state is beside it
	}
	if err := json.Unmarshal(e.Value, &v); err != nil || v.Record == nil || v.Record.ID != run {
		return nil, false, fmt.Errorf("run %s: %w", run, runs.ErrBadRecord)
	}
	return v.Record, true, nil
}

// remembered returns the mark of an expired log, from the run's record: zero if there
// is none, ended if the record was removed.
func (b *Bus) remembered(ctx context.Context, run string) (runs.Mark, error) {
	e, err := b.RunEntry(ctx, run)
	switch {
	case err != nil, e.Revision == 0:
		return runs.Mark{}, err
	case e.Deleted:
		return runs.Mark{Seq: 1, Started: true, Exited: true}, nil
	}
	header, err := runs.ParseHeader(e.Header.Get(HeaderRun), nil)
	if err != nil {
		return runs.Mark{}, fmt.Errorf("%w: cannot decode the header of run %s", ErrUnfit, run)
	}
	return header.Mark(), nil
}

// Known reports whether there is a raw log, a record or events of a run.
func (b *Bus) Known(ctx context.Context, run string) (bool, error) {
	for _, at := range []struct{ stream, subject string }{
		{b.Raw(), b.RawSubject("*", run)},
		{bucket.Stream(b.Runs()), bucket.Subject(b.Runs(), run)},
		{b.Names.Events(), b.EventSubject("*", run, "*")},
	} {
		m, err := b.lastOf(ctx, at.stream, at.subject)
		if err != nil {
			return false, fmt.Errorf("run %s: %w", run, err)
		}
		if m != nil {
			return true, nil
		}
	}
	return false, nil
}

// Stream looks up a stream, in the account that has it.
func (b *Bus) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	js := b.js
	if name == b.Names.Events() {
		js = b.jsPub
	}
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return s, nil
}

// last returns the last message of a subject, nil if there is none.
func last(ctx context.Context, s jetstream.Stream, subject string) (*jetstream.RawStreamMsg, error) {
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	return m, err
}

// lastOf looks up a stream and returns the last message of a subject, nil if there is
// none.
func (b *Bus) lastOf(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	s, err := b.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	return last(ctx, s, subject)
}

// Peek returns, from the raw log, the header of a run that has no record yet: whether it
// is queued or has started. The error is [runs.ErrNoRun] if RAW has no entry of it.
func (b *Bus) Peek(ctx context.Context, run string) (runs.Header, error) {
	m, err := b.lastOf(ctx, b.Raw(), b.RawSubject("*", run))
	if err != nil {
		return runs.Header{}, fmt.Errorf("run %s: %w", run, err)
	}
	if m == nil {
		return runs.Header{}, runs.ErrNoRun
	}
	agent, _, ok := b.ParseRaw(m.Subject)
	e, readable := DecodeEntry(m.Header, m.Data)
	if !ok {
		return runs.Header{}, runs.ErrNoRun
	}
	if e, err := b.RunEntry(ctx, run); e.Deleted || err != nil {
		return runs.Header{}, errors.Join(err, runs.ErrNoRun)
	}
	if !readable {
		e = runs.Entry{}
	}
	return runs.FirstHeader(run, agent, e, m.Sequence), nil
}

// WatchRuns calls each with the header of every run's record, in the order in which they
// were stored, then with every change, until ctx ends: then it returns nil. It reads no
// records. After a loss of the connection it may repeat headers; if the run table was
// recreated, it reports that first. It waits for a run table that does not exist yet,
// and calls each with the reason.
func (b *Bus) WatchRuns(ctx context.Context, each func(runs.Change)) error {
	b.await(ctx, b.log, b.js, bucket.Stream(b.Runs()), func(why string) { each(runs.Change{Waits: why}) })
	words := runs.Words{}
	return bucket.New(b.js, b.Runs()).Watch(ctx, ">", true, b.log, func(e bucket.Entry, last bool) {
		c := runs.Change{Revision: e.Revision, Last: last}
		var err error
		if e.Deleted {
			c.Run.ID, c.Removed = e.Key, true
		} else if c.Run, err = b.header(ctx, e, words); err != nil {
			b.log.Warn("a run record has no header", zap.Uint64("sequence", c.Revision))
			c = runs.Change{Revision: c.Revision, Last: c.Last}
		}
		each(c)
	}, func(replaced, empty bool) { each(runs.Change{Replaced: replaced, Last: empty}) })
}

// header returns the header of a run record. If the record has none, it is derived from the record.
func (b *Bus) header(ctx context.Context, e bucket.Entry, words runs.Words) (runs.Header, error) {
	if text := e.Header.Get(HeaderRun); text != "" {
		return runs.ParseHeader(text, words)
	}
	record, ok, err := b.Record(ctx, e.Key)
	if err != nil || !ok {
		return runs.Header{}, errors.Join(err, runs.ErrNoRun)
	}
	return record.Header(), nil
}

// FirstRun returns the first sequence in RUNS: records before it have expired.
func (b *Bus) FirstRun(ctx context.Context) (uint64, error) {
	stream, err := b.Stream(ctx, bucket.Stream(b.Runs()))
	if err != nil {
		return 0, err
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
