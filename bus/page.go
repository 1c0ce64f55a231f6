package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

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
		if skip := next - e.Offset; skip < int64(len(e.Body)) { // otherwise it was read already
			data = append(data, e.Body[skip:min(int64(len(e.Body)), skip+int64(limit-len(data)))]...)
		}
		return len(data) < limit
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
