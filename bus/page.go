package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// EventsAfter calls each with the events of a run that lie behind a sequence
// of EVENTS, the completion among them, in order; token is the kind's. It ends
// as [Bus.Read] does: with follow it goes on with what comes until ctx ends.
func (b *Bus) EventsAfter(ctx context.Context, agent, run string, after uint64, follow bool, each func(seq uint64, token string, body []byte) error) error {
	return b.Read(ctx, Filter{Agent: agent, Run: run, FromSeq: after + 1, Follow: follow}, func(s Stored) error {
		return each(s.Seq, s.Token, s.Body)
	})
}

// EventsEnd returns the sequence of a run's completion in EVENTS, 0 if there is
// none, and the last sequence that the stream has given to anything.
func (b *Bus) EventsEnd(ctx context.Context, agent, run string) (completion, last uint64, err error) {
	stream, err := b.jsPub.Stream(ctx, b.Names.Events())
	if err != nil {
		return 0, 0, fmt.Errorf("stream %s: %w", b.Names.Events(), err)
	}
	last = stream.CachedInfo().State.LastSeq
	m, err := stream.GetLastMsgForSubject(ctx, b.EventSubject(agent, run, normalizer.CompletionToken))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return 0, last, nil
	case err != nil:
		return 0, 0, fmt.Errorf("run %s: read its completion: %w", run, err)
	}
	return m.Sequence, max(last, m.Sequence), nil
}

// OutputAt reads at most most bytes of what a run's agent wrote to a stream,
// [runs.Out] or [runs.ErrOut], from RAW. They are the bytes from offset at on,
// without a hole. At is the offset that was asked for, or, where RAW does not
// hold that byte, the next one that it holds. No bytes: there are none behind
// the offset.
func (b *Bus) OutputAt(ctx context.Context, agent, run string, kind runs.Kind, offset int64, most int) (at int64, data []byte, err error) {
	stream, err := b.js.Stream(ctx, b.Raw())
	if err != nil {
		return 0, nil, fmt.Errorf("stream %s: %w", b.Raw(), err)
	}
	subject, last := b.RawSubject(agent, run), stream.CachedInfo().State.LastSeq
	from, err := b.seek(ctx, stream, subject, kind, offset, last)
	if err != nil {
		return 0, nil, err
	}
	at = offset
	err = b.scan(ctx, stream.CachedInfo(), subject, from, func(m jetstream.Msg) bool {
		e, ok := DecodeEntry(m.Headers(), m.Data())
		if !ok || e.Kind != kind {
			return true
		}
		next := at + int64(len(data))
		if e.Offset > next {
			if len(data) > 0 {
				return false
			}
			at, next = e.Offset, e.Offset
		}
		if skip := next - e.Offset; skip < int64(len(e.Body)) { // else all of it is known
			data = append(data, e.Body[skip:min(int64(len(e.Body)), skip+int64(most-len(data)))]...)
		}
		return len(data) < most
	})
	return at, data, err
}

// seek returns a sequence to read on from for the byte at an offset: every
// entry of the kind before it ends at or before that byte. Where entries come
// out of order, which a foreign publisher's may, so does what is found.
func (b *Bus) seek(ctx context.Context, stream jetstream.Stream, subject string, kind runs.Kind, offset int64, last uint64) (uint64, error) {
	low, high := uint64(1), last+1
	for offset > 0 && low < high {
		middle := low + (high-low)/2
		seq, end, err := b.entryEnd(ctx, stream, subject, kind, middle, high)
		switch {
		case err != nil:
			return 0, err
		case seq > 0 && end <= offset:
			low = seq + 1
		default:
			high = middle
		}
	}
	return low, nil
}

// entryEnd finds an entry of the kind from a sequence on and before high, among
// the next few of the run, and returns where its bytes end; seq 0 is none.
func (b *Bus) entryEnd(ctx context.Context, stream jetstream.Stream, subject string, kind runs.Kind, from, high uint64) (seq uint64, end int64, err error) {
	for range 16 {
		m, err := stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(subject))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, 0, nil
		case err != nil:
			return 0, 0, fmt.Errorf("read %s: %w", b.Raw(), err)
		case m.Sequence >= high:
			return 0, 0, nil
		}
		if e, ok := DecodeEntry(m.Header, m.Data); ok && e.Kind == kind {
			return m.Sequence, e.Offset + int64(len(e.Body)), nil
		}
		from = m.Sequence + 1
	}
	return 0, 0, nil
}
