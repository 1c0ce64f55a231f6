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

// How much is read for either end of an output. Of a stream that is written to
// so rarely that it takes more, less is shown.
const (
	maxEntries     = 8192
	maxOutputBytes = 16 << 20
)

// Output reads what a run's agent wrote, from RAW: of each stream all of it
// where it takes at most most bytes, else as many as half of that from its
// beginning and from its end. Without stderr, as the run's record tells, that
// is not looked for.
func (b *Bus) Output(ctx context.Context, agent, run string, most int, hasErr bool) (stdout, stderr runs.Excerpt, err error) {
	stream, err := b.js.Stream(ctx, b.Raw())
	if err != nil {
		return stdout, stderr, fmt.Errorf("stream %s: %w", b.Raw(), err)
	}
	subject := b.RawSubject(agent, run)
	out, errs := &ends{most: most}, &ends{most: most}
	bytes := 0
	read := func(from uint64, entries int) error {
		return b.scan(ctx, stream.CachedInfo(), subject, from, func(m jetstream.Msg) bool {
			entries--
			if bytes += len(m.Data()); out.begun() || errs.begun() {
				entries = min(entries, 64) // for the other one
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

// ends keeps the first and the last bytes of a stream, by offset. It is shown
// the stream's beginning, then, perhaps several times, its end.
type ends struct {
	most  int
	first []byte // from offset 0 on; at most one byte more than most
	next  int64  // where the first bytes end
	last  []byte // at most about twice most
	end   int64  // where the last bytes end
	late  bool   // it is the end that is shown
	size  int64
}

func (x *ends) add(e runs.Entry) {
	end := e.Offset + int64(len(e.Body))
	x.size = max(x.size, end)
	if !x.late {
		if end > x.next && len(x.first) <= x.most {
			x.first = append(x.first, e.Body[max(x.next-e.Offset, 0):]...) // what is missing is left out
			x.next = end
			if over := len(x.first) - x.most - 1; over > 0 {
				x.first = x.first[:x.most+1]
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
	if len(x.last) > 2*x.most+runs.MaxChunk {
		x.last = append(x.last[:0], x.last[len(x.last)-x.most:]...)
	}
}

// begun reports whether the beginning is known; once it is the end that is
// shown all of it is wanted.
func (x *ends) begun() bool { return !x.late && len(x.first) > x.most }

// again says that the end is shown now.
func (x *ends) again() { x.late, x.last, x.end = true, x.last[:0], x.next }

// ended reports whether enough of the end is known.
func (x *ends) ended() bool { return len(x.last) >= x.most/2 }

func (x *ends) excerpt() runs.Excerpt {
	all := int64(len(x.first)) + int64(len(x.last))
	if x.end-int64(len(x.last)) == x.next && all <= int64(x.most) { // they meet
		return runs.Excerpt{Head: append(x.first, x.last...), Size: all}
	}
	half := x.most / 2
	end := append(x.first[min(half, len(x.first)):], x.last...)
	return runs.Excerpt{Head: x.first[:min(half, len(x.first))], Tail: end[max(len(end)-half, 0):], Size: max(x.size, all)}
}

// LastEvents are the bodies of the newest n events of a run, the completion
// among them, oldest first.
func (b *Bus) LastEvents(ctx context.Context, agent, run string, n int) ([]json.RawMessage, error) {
	stream, err := b.jsPub.Stream(ctx, b.Names.Events())
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", b.Names.Events(), err)
	}
	subject := b.EventSubject(agent, run, "*")
	from, _, err := lastOf(ctx, stream, uint64(n), func(seq uint64) (uint64, error) { return b.ReadEvents(subject, seq).Count(ctx) })
	if err != nil {
		return nil, err
	}
	var all []json.RawMessage
	err = b.ReadEvents(subject, from).UpTo(ctx, stream.CachedInfo(), stream.CachedInfo().State.LastSeq, func(m *jetstream.RawStreamMsg) (bool, error) {
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

// lastOf returns where to begin so that about k messages come up to the end of
// the stream that its information tells afterwards, at least k, and whether
// those are all there are. Pending tells how many come from a sequence on, with
// those that were stored meanwhile.
func lastOf(ctx context.Context, stream jetstream.Stream, k uint64, pending func(seq uint64) (uint64, error)) (from uint64, whole bool, err error) {
	low, high := uint64(1), stream.CachedInfo().State.LastSeq // low has too many behind it, high too few
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
	// The end must be behind all that was counted.
	if _, err := stream.Info(ctx); err != nil {
		return 0, false, fmt.Errorf("stream %s: %w", stream.CachedInfo().Config.Name, err)
	}
	return low, false, nil
}

// scan calls each with the entries of a run from a sequence on, up to the
// end that RAW had, until each returns false.
func (b *Bus) scan(ctx context.Context, raw *jetstream.StreamInfo, subject string, from uint64, each func(jetstream.Msg) bool) error {
	t := &reader.Tail{JS: b.js, Stream: raw.Config.Name, Subject: subject, From: from, Batch: 64}
	return t.UpTo(ctx, raw, func(m jetstream.Msg) (bool, error) { return each(m), nil })
}
