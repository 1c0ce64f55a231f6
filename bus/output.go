package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
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
func (b *Bus) Output(ctx context.Context, agent, run string, limit int, hasErr bool) (
	stdout, stderr runs.Excerpt, err error) {
	free, err := b.outputTurn(ctx)
	if err != nil {
		return stdout, stderr, err
	}
	defer free()
	subject := b.RawSubject(agent, run)
	stream, err := b.Stream(ctx, b.Raw())
	if err != nil {
		return stdout, stderr, err
	}
	newest, err := last(ctx, stream, subject)
	if err != nil || newest == nil {
		return stdout, stderr, err
	}
	o := &outputs{hasErr: hasErr, newest: newest.Sequence, out: ends{limit: limit}, errs: ends{limit: limit}}
	read := func(from uint64, entries int) error {
		r := b.rawReader(subject, from)
		return r.UpTo(ctx, stream.CachedInfo(), newest.Sequence, func(m *jetstream.RawStreamMsg) error {
			o.add(m)
			if entries--; o.out.begun() || o.errs.begun() {
				entries = min(entries, 64) // to look for the other stream
			}
			if entries <= 0 || o.begun() {
				return reader.ErrStop
			}
			return nil
		})
	}
	if err := read(1, maxEntries); err != nil {
		return stdout, stderr, err
	}
	done := o.whole()
	o.restart()
	for window := uint64(outputWindow); !done; window *= o.growth() {
		o.restart()
		from := max(o.first, newest.Sequence-min(window, newest.Sequence))
		if err := read(from, math.MaxInt); err != nil {
			return stdout, stderr, err
		}
		done = from == o.first || o.bytes >= maxOutputBytes || o.ended()
	}
	return o.out.excerpt(), o.errs.excerpt(), nil
}

// outputTurn waits until fewer than maxTurns requests for output or saved folds are being answered. Each
// message of theirs may have 64 KiB, and a server closes a connection on which more is
// requested than it buffers.
func (b *Bus) outputTurn(ctx context.Context) (free func(), err error) {
	select {
	case b.output <- struct{}{}:
		return func() { <-b.output }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rawReader returns a reader of the raw log of a run. All of them take turns, so that many
// requests for output cannot end the connection.
func (b *Bus) rawReader(subject string, from uint64) *reader.Reader {
	r := reader.NewTail(b.js, b.Raw(), subject, nil, "", from)
	r.Turns = b.turns
	return r
}

// outputs collects both streams of the output of a run.
type outputs struct {
	out, errs ends
	hasErr    bool   // there is stderr output
	newest    uint64 // sequence of the run's newest message
	first     uint64 // of the first one that was read
	atEnd     bool   // the newest one was read
	bytes     int    // of all that were read
}

func (o *outputs) add(m *jetstream.RawStreamMsg) {
	o.first = cmp.Or(o.first, m.Sequence)
	o.atEnd = m.Sequence == o.newest
	o.bytes += len(m.Data)
	switch e, ok := DecodeEntry(m.Header, m.Data); {
	case !ok:
	case e.Kind == runs.Out:
		o.out.add(e)
	case e.Kind == runs.ErrOut:
		o.errs.add(e)
	}
}

// growth returns by which factor the window for the ends must grow.
func (o *outputs) growth() uint64 {
	if !o.hasErr || o.errs.ended() {
		return o.out.growth()
	}
	return max(o.out.growth(), o.errs.growth())
}

// begun reports whether the beginnings are complete, ended whether enough of the ends was
// received, and whole whether the beginnings are all. restart prepares for the ends.
func (o *outputs) begun() bool { return o.out.begun() && (!o.hasErr || o.errs.begun()) }
func (o *outputs) ended() bool { return o.out.ended() && (!o.hasErr || o.errs.ended()) }
func (o *outputs) restart()    { o.out.restart(); o.errs.restart() }
func (o *outputs) whole() bool { return o.atEnd && !o.out.begun() && !o.errs.begun() }

// The last messages of a run are looked for among the last ones of the stream before the
// run's newest, then among several times as many, and so on.
const (
	firstWindow  = 128 // of events
	nextWindow   = 8
	outputWindow = 4 // of RAW, whose messages are larger
	minGrowth    = 4 // of a window of RAW
	maxGrowth    = 1024
)

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

// restart prepares for receiving the end.
func (x *ends) restart() { x.late, x.last, x.end = true, x.last[:0], x.next }

// ended reports whether enough of the end was received: of a stream within the limit, all.
func (x *ends) ended() bool {
	return len(x.last) >= x.limit/2 && (x.size > int64(x.limit) || x.joined())
}

// joined reports whether no bytes are missing between the beginning and the end.
func (x *ends) joined() bool { return x.end-int64(len(x.last)) == x.next }

// growth returns by which factor the window of messages in which the end was received must
// grow to contain enough of it, if the others are like those.
func (x *ends) growth() uint64 {
	if len(x.last) == 0 {
		return minGrowth
	}
	return uint64(min(max(5*(x.limit/2)/4/len(x.last)+1, minGrowth), maxGrowth))
}

func (x *ends) excerpt() runs.Excerpt {
	all := int64(len(x.first)) + int64(len(x.last))
	if x.joined() && all <= int64(x.limit) {
		return runs.Excerpt{Head: append(x.first, x.last...), Size: all}
	}
	half := x.limit / 2
	end := append(x.first[min(half, len(x.first)):], x.last...)
	return runs.Excerpt{Head: x.first[:min(half, len(x.first))], Tail: end[max(len(end)-half, 0):], Size: max(x.size, all)}
}

// LastEvents calls each with the newest n events of a run, oldest first: those of one
// kind, or, with token "", all of them, including the completion.
func (b *Bus) LastEvents(ctx context.Context, agent, run, token string, n int,
	each func(seq uint64, token string, body []byte) error) error {
	subject := b.EventSubject(agent, run, cmp.Or(token, "*"))
	stream, err := b.Stream(ctx, b.Names.Events())
	if err != nil {
		return err
	}
	newest, _, err := reader.AskLeader(ctx, b.public, b.Names.Events(), fmt.Appendf(nil, `{"last_by_subj":%q}`, subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", b.Names.Events(), err)
	}
	info := stream.CachedInfo()
	var all []*jetstream.RawStreamMsg
	for window := uint64(firstWindow); ; window *= nextWindow {
		from := max(info.State.FirstSeq, newest-min(window, newest), 1)
		all = all[:0]
		err := b.ReadEvents(subject, from).UpTo(ctx, info, newest, func(m *jetstream.RawStreamMsg) error {
			if all = append(all, m); len(all) > n {
				all = all[1:]
			}
			return nil
		})
		if err != nil {
			return err
		}
		if len(all) >= n || from <= max(info.State.FirstSeq, 1) {
			break
		}
	}
	for _, m := range all {
		_, _, token, _ := b.parseEvent(m.Subject)
		if err := each(m.Sequence, token, m.Data); err != nil {
			return err
		}
	}
	return nil
}

// EachEvent is [Bus.Read] for those who know no streams.
func (b *Bus) EachEvent(ctx context.Context, f runs.Selection, each func(runs.Event) error) error {
	err := b.Read(ctx, f, func(s Stored) error {
		e := runs.Event{
			Seq: s.Seq, Agent: s.Agent, Run: s.Run, Token: s.Token, Time: s.Pos.Time, Line: s.Pos.Line, Part: s.Pos.Part,
			Raw: s.Pos.Raw, Body: s.Body,
		}
		if !s.At.IsZero() {
			e.Stored = s.At.UnixMilli()
		}
		return each(e)
	})
	if errors.Is(err, reader.ErrReplaced) {
		return fmt.Errorf("%w: %w", runs.ErrReplaced, err)
	}
	return err
}

// EventsEnd returns where EVENTS ends, with the completion of a run unless run is empty.
func (b *Bus) EventsEnd(ctx context.Context, agent, run string) (end runs.EventsEnd, err error) {
	stream, err := b.Stream(ctx, b.Names.Events())
	if err != nil {
		return end, err
	}
	end.Last, end.Made = stream.CachedInfo().State.LastSeq, stream.CachedInfo().Created.UnixNano()
	if run == "" {
		return end, nil
	}
	m, err := last(ctx, stream, b.EventSubject(agent, run, normalizer.CompletionToken))
	switch {
	case err != nil:
		return end, fmt.Errorf("run %s: read its completion: %w", run, err)
	case m != nil:
		end.Completion, end.Last = m.Sequence, max(end.Last, m.Sequence)
	}
	return end, nil
}

// OutputAt reads at most limit bytes of a stream of the agent's output, [runs.Out] or
// [runs.ErrOut], from RAW. They are contiguous and begin at offset at: the requested
// one, or, if RAW does not have that byte, the next one that it has. No bytes: there
// are none after the offset.
func (b *Bus) OutputAt(ctx context.Context, agent, run string, kind runs.Kind, offset int64,
	limit int) (at int64, data []byte, err error) {
	free, err := b.outputTurn(ctx)
	if err != nil {
		return 0, nil, err
	}
	defer free()
	stream, err := b.Stream(ctx, b.Raw())
	if err != nil {
		return 0, nil, err
	}
	subject := b.RawSubject(agent, run)
	newest, err := last(ctx, stream, subject)
	if err != nil || newest == nil {
		return offset, nil, err
	}
	from, err := b.seek(ctx, subject, kind, offset, newest.Sequence)
	if err != nil {
		return 0, nil, err
	}
	at = offset
	r := b.rawReader(subject, from)
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
func (b *Bus) seek(ctx context.Context, subject string, kind runs.Kind, offset int64, last uint64) (uint64, error) {
	if offset == 0 {
		return 1, nil
	}
	g := guess{offset: offset, low: 1, high: last + 1}
	for g.low < g.high {
		middle := g.next()
		seq, e, err := b.entryOf(ctx, subject, kind, middle, g.high)
		if err != nil {
			return 0, err
		}
		size := int64(len(e.Body))
		switch end := e.Offset + size; {
		case seq == 0:
			g.high = middle
		case end > offset && e.Offset <= offset: // it has the byte
			return seq, nil
		case end > offset:
			g.high, g.highAt = middle, e.Offset
		case offset-end <= 4*size: // it is one of the next few
			return seq + 1, nil
		default:
			g.first = cmp.Or(g.first, seq)
			g.low, g.lowAt = seq+1, end
		}
	}
	return g.low, nil
}

// guess is the range of sequences in which an offset is looked for.
type guess struct {
	offset        int64
	low, high     uint64
	lowAt, highAt int64  // offsets there; highAt 0: not known
	first         uint64 // sequence of the first entry; 0: not known
	tries         int
}

// next returns a sequence in the range: the first one, then two by the offsets, as if these
// grew evenly, then the middle, and so on. So the number of tries is bounded by the logarithm
// of the range, and is small for entries of similar sizes.
func (g *guess) next() uint64 {
	g.tries++
	width := float64(g.high - g.low)
	at := width / 2
	switch {
	case g.tries == 1:
		at = 0
	case g.tries%3 == 1:
	case g.highAt > g.lowAt:
		at = width * float64(g.offset-g.lowAt) / float64(g.highAt-g.lowAt)
	case g.lowAt > 0: // from the rate so far
		at = float64(g.low-g.first) * float64(g.offset-g.lowAt) / float64(g.lowAt)
	}
	return g.low + uint64(min(at, width-1))
}

// entryOf looks for an entry of the kind between from and high, among the next few
// entries of the run; seq 0: none found.
func (b *Bus) entryOf(ctx context.Context, subject string, kind runs.Kind, from, high uint64) (
	seq uint64, e runs.Entry, err error) {
	for range 16 {
		m, err := reader.Next(ctx, b.inside, b.Raw(), subject, from)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, e, nil
		case err != nil:
			return 0, e, fmt.Errorf("read %s: %w", b.Raw(), err)
		case m.Sequence >= high:
			return 0, e, nil
		}
		if e, ok := DecodeEntry(m.Header, m.Data); ok && e.Kind == kind {
			return m.Sequence, e, nil
		}
		from = m.Sequence + 1
	}
	return 0, e, nil
}
