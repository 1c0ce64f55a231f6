package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// Limits of what is read for either end of an output. If a stream of the output is
// written too rarely for them, less of it is returned.
const (
	maxEntries     = 8192
	maxOutputBytes = 16 << 20
)

// Output reads the output of a run's agent from RAW: each stream completely if it has
// at most limit bytes, otherwise limit/2 bytes from its beginning and its end. HasErr,
// from the run's record, tells whether there is stderr output.
func (b *Bus) Output(
	ctx context.Context,
	agent, run string,
	limit int,
	hasErr bool,
) (stdout, stderr runs.Excerpt, err error) {
	stream, err := b.js.Stream(ctx, b.Raw())
	if err != nil {
		return stdout, stderr, fmt.Errorf("stream %s: %w", b.Raw(), err)
	}
	subject := b.RawSubject(agent, run)
	out, errs := &ends{limit: limit}, &ends{limit: limit}
	bytes := 0
	read := func(from uint64, entries int) error {
		return b.scan(ctx, stream.CachedInfo(), subject, from, func(m jetstream.Msg) bool {
			entries--
			if bytes += len(m.Data()); out.begun() || errs.begun() {
				entries = min(entries, 64) // to look for the other stream
			}
			switch e, ok := DecodeEntry(m.Headers(), m.Data()); {
			case !ok:
			case e.Kind == runs.Out:
				out.add(e)
			case e.Kind == runs.ErrOut:
				errs.add(e)
			}
			return entries > 0 && (!out.begun() || hasErr && !errs.begun())
		})
	}
	if err := read(1, maxEntries); err != nil {
		return stdout, stderr, err
	}
	for k := uint64(64); ; k *= 4 {
		from, whole, err := lastOf(ctx, stream, k, func(seq uint64) (uint64, error) { return b.rawFrom(ctx, subject, seq) })
		if err != nil {
			return stdout, stderr, err
		}
		out.again()
		errs.again()
		if err := read(from, math.MaxInt); err != nil {
			return stdout, stderr, err
		}
		if whole || k >= maxEntries || bytes >= maxOutputBytes || out.ended() && (!hasErr || errs.ended()) {
			return out.excerpt(), errs.excerpt(), nil
		}
	}
}

// ends collects the first and the last bytes of a stream, by offset. It receives the
// stream's beginning, then its end, possibly several times.
type ends struct {
	limit int
	first []byte // from offset 0; at most limit+1 bytes
	next  int64  // offset after the first bytes
	last  []byte // at most about twice limit
	end   int64  // offset after the last bytes
	late  bool   // true while the end is received
	size  int64
}

func (x *ends) add(e runs.Entry) {
	end := e.Offset + int64(len(e.Body))
	x.size = max(x.size, end)
	if !x.late {
		if end > x.next && len(x.first) <= x.limit {
			x.first = append(x.first, e.Body[max(x.next-e.Offset, 0):]...) // missing bytes are omitted
			x.next = end
			if over := len(x.first) - x.limit - 1; over > 0 {
				x.first = x.first[:x.limit+1]
				x.next -= int64(over)
			}
		}
		return
	}
	if end <= x.end {
		return
	}
	x.last = append(x.last, e.Body[max(x.end-e.Offset, 0):]...)
	x.end = end
	if len(x.last) > 2*x.limit+runs.MaxChunk {
		x.last = append(x.last[:0], x.last[len(x.last)-x.limit:]...)
	}
}

// begun reports whether the beginning is complete; false while the end is received.
func (x *ends) begun() bool { return !x.late && len(x.first) > x.limit }

// again prepares for receiving the end.
func (x *ends) again() { x.late, x.last, x.end = true, x.last[:0], x.next }

// ended reports whether enough of the end was received.
func (x *ends) ended() bool { return len(x.last) >= x.limit/2 }

func (x *ends) excerpt() runs.Excerpt {
	all := int64(len(x.first)) + int64(len(x.last))
	if x.end-int64(len(x.last)) == x.next && all <= int64(x.limit) { // no gap
		return runs.Excerpt{Head: append(x.first, x.last...), Size: all}
	}
	half := x.limit / 2
	end := append(x.first[min(half, len(x.first)):], x.last...)
	return runs.Excerpt{Head: x.first[:min(half, len(x.first))], Tail: end[max(len(end)-half, 0):], Size: max(x.size, all)}
}

// LastEvents returns the bodies of the newest n events of a run, including the
// completion, oldest first.
func (b *Bus) LastEvents(ctx context.Context, agent, run string, n int) ([]json.RawMessage, error) {
	stream, err := b.jsPub.Stream(ctx, b.Names.Events())
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", b.Names.Events(), err)
	}
	subject := b.EventSubject(agent, run, "*")
	from, _, err := lastOf(
		ctx,
		stream,
		uint64(n),
		func(seq uint64) (uint64, error) { return b.ReadEvents(subject, seq).Count(ctx) },
	)
	if err != nil {
		return nil, err
	}
	var all []json.RawMessage
	err = b.ReadEvents(subject, from).
		UpTo(ctx, stream.CachedInfo(), stream.CachedInfo().State.LastSeq, func(m *jetstream.RawStreamMsg) (bool, error) {
			all = append(all, m.Data)
			if len(all) > n {
				all = all[1:]
			}
			return true, nil
		})
	return all, err
}

// rawFrom counts the entries of a run from a sequence on.
func (b *Bus) rawFrom(ctx context.Context, subject string, seq uint64) (uint64, error) {
	c, err := b.js.CreateConsumer(ctx, b.Raw(), jetstream.ConsumerConfig{
		FilterSubject: subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq,
		AckPolicy: jetstream.AckNonePolicy, InactiveThreshold: 5 * time.Second, MemoryStorage: true,
	})
	if err != nil {
		return 0, fmt.Errorf("count in %s: %w", b.Raw(), err)
	}
	defer func() { _ = b.js.DeleteConsumer(ctx, b.Raw(), c.CachedInfo().Name) }()
	return c.CachedInfo().NumPending, nil
}

// lastOf returns a sequence from which about k messages, at least k, remain up to the
// stream's end; whole reports that these are all. It updates the stream's info
// afterwards. Pending counts the messages from a sequence on, including those stored
// meanwhile.
func lastOf(
	ctx context.Context,
	stream jetstream.Stream,
	k uint64,
	pending func(seq uint64) (uint64, error),
) (from uint64, whole bool, err error) {
	low, high := uint64(1), stream.CachedInfo().State.LastSeq // too many messages after low, too few after high
	n, err := pending(low)
	if err != nil || n <= 2*k {
		return low, true, err
	}
	for low+1 < high && n > 2*k {
		middle := low + (high-low)/2
		switch count, err := pending(middle); {
		case err != nil:
			return 0, false, err
		case count < k:
			high = middle
		default:
			low, n = middle, count
		}
	}
	// The end must include all that was counted.
	if _, err := stream.Info(ctx); err != nil {
		return 0, false, fmt.Errorf("stream %s: %w", stream.CachedInfo().Config.Name, err)
	}
	return low, false, nil
}

// scan calls each with the entries of a run from a sequence on, up to the end of RAW in
// raw, until each returns false.
func (b *Bus) scan(
	ctx context.Context,
	raw *jetstream.StreamInfo,
	subject string,
	from uint64,
	each func(jetstream.Msg) bool,
) error {
	t := &reader.Tail{JS: b.js, Stream: raw.Config.Name, Subject: subject, From: from, Batch: 64}
	return t.UpTo(ctx, raw, func(m jetstream.Msg) (bool, error) { return each(m), nil })
}
