package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
)

// RunEntry returns the entry of a run in RUNS: its record, or the marker of a removed
// one. A missing entry is not an error.
func (b *Bus) RunEntry(ctx context.Context, run string) (bucket.Entry, error) {
	records := bucket.New(b.js, b.Runs())
	if err := records.Open(ctx); err != nil {
		return bucket.Entry{}, err
	}
	e, err := records.Get(ctx, run)
	if err != nil {
		return bucket.Entry{}, fmt.Errorf("run %s: read its record: %w", run, err)
	}
	return e, nil
}

// Record returns the stored record of a run, and whether there is one. It needs a login
// to the inside account.
func (b *Bus) Record(ctx context.Context, run string) (*runs.Record, bool, error) {
	e, err := b.RunEntry(ctx, run)
	if err != nil || !e.Exists() {
		return nil, false, err
	}
	record, err := decodeRecord(e)
	return record, err == nil, err
}

func decodeRecord(e bucket.Entry) (*runs.Record, error) {
	var v struct {
		Record *runs.Record `json:"record"` // the normalizer's state is beside it
	}
	if err := json.Unmarshal(e.Value, &v); err != nil || v.Record == nil {
		return nil, fmt.Errorf("%w: cannot decode the record of run %s", ErrUnfit, e.Key)
	}
	return v.Record, nil
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
	row, err := runs.ParseRow(e.Header.Get(HeaderRow))
	if err != nil {
		return runs.Mark{}, fmt.Errorf("%w: cannot decode the row of run %s", ErrUnfit, run)
	}
	return row.Mark(), nil
}

// Known reports whether there is a raw log, a record or events of a run.
func (b *Bus) Known(ctx context.Context, run string) (bool, error) {
	for _, at := range []struct {
		js      jetstream.JetStream
		stream  string
		subject string
	}{
		{b.js, b.Raw(), b.RawSubject("*", run)},
		{b.js, bucket.Stream(b.Runs()), bucket.Subject(b.Runs(), run)},
		{b.jsPub, b.Names.Events(), b.EventSubject("*", run, "*")},
	} {
		m, err := b.lastOf(ctx, at.js, at.stream, at.subject)
		if err != nil {
			return false, fmt.Errorf("run %s: %w", run, err)
		}
		if m != nil {
			return true, nil
		}
	}
	return false, nil
}

// stream looks up a stream.
func (b *Bus) stream(ctx context.Context, js jetstream.JetStream, name string) (jetstream.Stream, error) {
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
func (b *Bus) lastOf(ctx context.Context, js jetstream.JetStream, stream, subject string) (*jetstream.RawStreamMsg,
	error) {
	s, err := b.stream(ctx, js, stream)
	if err != nil {
		return nil, err
	}
	return last(ctx, s, subject)
}

// Peek returns, from the raw log, the row of a run that has no record yet: whether it
// is queued or has started. The error is [runs.ErrNoRun] if RAW has no entry of it.
func (b *Bus) Peek(ctx context.Context, run string) (runs.Row, error) {
	m, err := b.lastOf(ctx, b.js, b.Raw(), b.RawSubject("*", run))
	if err != nil {
		return runs.Row{}, fmt.Errorf("run %s: %w", run, err)
	}
	if m == nil {
		return runs.Row{}, runs.ErrNoRun
	}
	agent, _, ok := b.ParseRaw(m.Subject)
	e, readable := DecodeEntry(m.Header, m.Data)
	if !ok {
		return runs.Row{}, runs.ErrNoRun
	}
	if e, err := b.RunEntry(ctx, run); e.Deleted || err != nil {
		return runs.Row{}, errors.Join(err, runs.ErrNoRun)
	}
	row := runs.Row{ID: run, Agent: agent, State: runs.StateWorking, StartedAt: max(e.Time, 1), Seq: m.Sequence}
	var start runs.Start
	if readable && e.Kind == runs.Queued && json.Unmarshal(e.Body, &start) == nil {
		row.State, row.QueuedAt, row.StartedAt = runs.StateQueued, e.Time, 0
		row.Source, row.Queue, row.Work, row.Dir = start.Source, start.Queue, start.Work, start.Dir
		if len(start.Thread) <= runs.MaxThread {
			row.Thread = start.Thread
		}
		if runs.CheckGovernance(start.Governance) == nil {
			row.Governance = start.Governance
		}
	}
	return row, nil
}
