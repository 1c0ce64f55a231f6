package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// Entries calls each with the entries of the raw log of a run, in order, from a sequence
// of RAW on. An entry that cannot be decoded has the kind [runs.Unreadable]. Entries ends
// after the entry that ends the run, or with the error of each, and without follow at the
// current end of the log. With follow it continues until ctx ends, which is not an error,
// and waits while the server is unreachable. The error is [reader.ErrReplaced] if RAW is
// recreated meanwhile: the entries so far are not of the log that there is now.
func (b *Bus) Entries(ctx context.Context, agent, run string, from uint64, follow bool,
	each func(seq uint64, e runs.Entry) error) error {
	subject := b.RawSubject(agent, run)
	r := reader.NewTail(b.js, b.Raw(), subject, b.public, b.liveSubject(b.EventSubject(agent, run, "*")), max(from, 1))
	r.Log, r.Turns = b.log, b.turns
	pass := func(m *jetstream.RawStreamMsg) error {
		e := decoded(m)
		if err := each(m.Sequence, e); err != nil {
			return err
		}
		if e.Kind == runs.Exited {
			return reader.ErrStop
		}
		return nil
	}
	if follow {
		return r.Follow(ctx, pass)
	}
	stream, err := b.Stream(ctx, b.Raw())
	if err != nil {
		return err
	}
	newest, err := last(ctx, stream, subject)
	if err != nil || newest == nil {
		return err
	}
	return r.UpTo(ctx, stream.CachedInfo(), newest.Sequence, pass)
}

// EntriesEnd returns the sequence of the newest entry of a run in RAW, 0 if there is none,
// and the last sequence of the stream.
func (b *Bus) EntriesEnd(ctx context.Context, agent, run string) (newest, end uint64, err error) {
	stream, err := b.Stream(ctx, b.Raw())
	if err != nil {
		return 0, 0, err
	}
	end = stream.CachedInfo().State.LastSeq
	m, err := last(ctx, stream, b.RawSubject(agent, run))
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("run %s: read the end of its log: %w", run, err)
	case m == nil:
		return 0, end, nil
	}
	return m.Sequence, max(end, m.Sequence), nil
}
