package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// EventsAfter calls each with the events of a run after a sequence of EVENTS, including
// the completion, in order; token is that of the kind. It ends like [Bus.Read]: with
// follow it continues with new events until ctx ends.
func (b *Bus) EventsAfter(
	ctx context.Context,
	agent, run string,
	after uint64,
	follow bool,
	each func(seq uint64, token string, body []byte) error,
) error {
	return b.Read(ctx, Filter{Agent: agent, Run: run, FromSeq: after + 1, Follow: follow}, func(s Stored) error {
		return each(s.Seq, s.Token, s.Body)
	})
}

// EventsEnd returns the sequence of a run's completion in EVENTS, 0 if there is none,
// and the last sequence of the stream.
func (b *Bus) EventsEnd(ctx context.Context, agent, run string) (completion, end uint64, err error) {
	stream, err := b.Stream(ctx, b.Names.Events())
	if err != nil {
		return 0, 0, err
	}
	end = stream.CachedInfo().State.LastSeq
	m, err := last(ctx, stream, b.EventSubject(agent, run, normalizer.CompletionToken))
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("run %s: read its completion: %w", run, err)
	case m == nil:
		return 0, end, nil
	}
	return m.Sequence, max(end, m.Sequence), nil
}

// OutputAt reads at most limit bytes of a stream of the agent's output, [runs.Out] or
// [runs.ErrOut], from RAW. They are contiguous and begin at offset at: the requested
// one, or, if RAW does not have that byte, the next one that it has. No bytes: there
// are none after the offset.
func (b *Bus) OutputAt(
	ctx context.Context,
	agent, run string,
	kind runs.Kind,
	offset int64,
	limit int,
) (at int64, data []byte, err error) {
	stream, err := b.Stream(ctx, b.Raw())
	if err != nil {
		return 0, nil, err
	}
	subject := b.RawSubject(agent, run)
	newest, err := last(ctx, stream, subject)
	if err != nil || newest == nil {
		return offset, nil, err
	}
	from, err := b.seek(ctx, stream, subject, kind, offset, newest.Sequence)
	if err != nil {
		return 0, nil, err
	}
	at = offset
	r := reader.NewConsumer(b.js, b.Raw(), subject, 64, from)
	err = r.UpTo(ctx, stream.CachedInfo(), newest.Sequence, func(m *jetstream.RawStreamMsg) error {
		e, ok := DecodeEntry(m.Header, m.Data)
		if !ok || e.Kind != kind {
			return nil
		}
		next := at + int64(len(data))
		if e.Offset > next {
			if len(data) > 0 {
				return reader.ErrStop
			}
			at, next = e.Offset, e.Offset
		}
		if skip := next - e.Offset; skip < int64(len(e.Body)) { // otherwise it was read already
			data = append(data, e.Body[skip:min(int64(len(e.Body)), skip+int64(limit-len(data)))]...)
		}
		if len(data) >= limit {
			return reader.ErrStop
		}
		return nil
	})
	return at, data, err
}

// seek returns a sequence from which to read the byte at an offset: all entries of the
// kind before it end at or before that byte. If entries are out of order, as a foreign
// publisher may write them, the result may be, too.
func (b *Bus) seek(
	ctx context.Context,
	stream jetstream.Stream,
	subject string,
	kind runs.Kind,
	offset int64,
	last uint64,
) (uint64, error) {
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

// entryEnd looks for an entry of the kind between from and high, among the next few
// entries of the run, and returns the offset where it ends; seq 0: none found.
func (b *Bus) entryEnd(
	ctx context.Context,
	stream jetstream.Stream,
	subject string,
	kind runs.Kind,
	from, high uint64,
) (seq uint64, end int64, err error) {
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
