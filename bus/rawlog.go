package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// RawLog writes the raw log of one run. Each run has one writer, and only that may use
// it.
type RawLog struct {
	bus      *Bus
	run      string
	subject  string
	stream   jetstream.Stream
	mark     runs.Mark
	failFast bool   // fail instead of waiting for NATS
	since    int64  // start of the connection in which
	fence    uint64 // sequence of the last entry in RAW, 0: none
	news     bool   // another writer appended after our last entry
	window   int    // how many entries may be in flight; 1 and less: one
	patience int    // entries before the next burst, after one that failed
	log      *zap.Logger

	hears     bool    // [RawLog.Entries] was called: entries are kept for it
	kept      []heard // those after keptFrom, at most about maxKept bytes
	keptFrom  uint64
	keptBytes int
}

// OpenLog opens the raw log of a run after mark, which describes what the caller knows:
// only later entries are read. It waits while NATS is unreachable.
func (b *Bus) OpenLog(ctx context.Context, agent, run string, mark runs.Mark) (*RawLog, error) {
	return b.openLog(ctx, agent, run, mark, false)
}

func (b *Bus) openLog(ctx context.Context, agent, run string, mark runs.Mark, failFast bool) (*RawLog, error) {
	l := &RawLog{
		bus: b, failFast: failFast, run: run, subject: b.RawSubject(agent, run), mark: mark, keptFrom: mark.Seq,
		log: b.log.With(zap.String("agent", agent), zap.String("run", run)),
	}
	err := l.patiently(ctx, func() error {
		since := b.since.Load()
		s, err := b.raw(ctx, since)
		if err != nil {
			return err
		}
		l.stream, l.since = s, since
		_, err = l.catchUp(ctx, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: open its log: %w", run, err)
	}
	return l, nil
}

// rawHandle is what all logs of a connection use to read RAW, looked up once.
type rawHandle struct {
	stream jetstream.Stream
	since  int64 // start of the connection
}

// raw returns RAW, as it was looked up in the connection since a time. Its next request fails if it does not exist.
func (b *Bus) raw(ctx context.Context, since int64) (jetstream.Stream, error) {
	if h := b.rawKnown.Load(); h != nil && h.since == since {
		return h.stream, nil
	}
	s, err := b.js.Stream(ctx, b.Raw())
	if err == nil {
		b.rawKnown.Store(&rawHandle{s, since})
	}
	return s, err
}

// Mark returns how far the log reaches. If the log is empty because RAW was recreated,
// the mark has a time nevertheless: when the log is opened with it again, nothing of
// the old log is restored.
func (l *RawLog) Mark() runs.Mark { return l.mark }

// Append stores e after the last entry. It waits while NATS is unreachable or full,
// until ctx ends. [runs.ErrMoved] means that another writer appended: e is not stored,
// and Mark is updated.
func (l *RawLog) Append(ctx context.Context, e runs.Entry) error {
	if l.news {
		l.news = false
		return runs.ErrMoved
	}
	return l.patiently(ctx, func() error {
		before, fence := l.mark, l.fence
		if since := l.bus.since.Load(); since != l.since {
			// The server may have lost the end of the stream, and reuse its sequence
			// numbers, which the fence cannot detect. And an earlier attempt may have
			// been stored.
			stored, err := l.catchUp(ctx, &e)
			if stored {
				return nil
			}
			if err != nil {
				return err
			}
			l.since = since
			if l.mark != before {
				return runs.ErrMoved
			}
			fence = l.fence
		}
		ack, err := l.publish(ctx, e)
		if err == nil {
			l.stored(e, ack.Sequence)
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		// Whatever went wrong, read what the log contains.
		stored, lookErr := l.catchUp(ctx, &e)
		switch {
		case stored:
			return nil
		case lookErr != nil:
			return err
		case l.mark != before:
			return runs.ErrMoved
		case l.fence != fence: // the last entry expired meanwhile
			return errAgain
		}
		return err
	})
}

// maxKept bounds the bodies of the entries that a log keeps for [RawLog.Entries], in bytes.
const maxKept = 1 << 20

// heard is an entry that the mark includes.
type heard struct {
	seq uint64
	runs.Entry
}

// Entries calls each with the entries after a sequence, in order, up to that of the mark. An entry that
// cannot be decoded has the kind [runs.Unreadable], and those that have expired are left out. It asks the
// server only for entries before those that this log has stored, or read, since the last call. It waits
// while NATS is unreachable. [runs.ErrMoved] means that the log was lost meanwhile, and Mark is updated.
func (l *RawLog) Entries(ctx context.Context, after uint64, each func(seq uint64, e runs.Entry) error) error {
	pass := func(seq uint64, e runs.Entry) error {
		after = seq
		return each(seq, e)
	}
	for after < l.keptFrom {
		var m *jetstream.RawStreamMsg
		err := l.patiently(ctx, func() (err error) {
			m, err = l.get(ctx, after+1, jetstream.WithGetMsgSubject(l.subject))
			if !errors.Is(err, jetstream.ErrMsgNotFound) {
				return err
			}
			before := l.mark
			if _, err = l.catchUp(ctx, nil); err == nil && l.mark != before {
				return runs.ErrMoved
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("run %s: read its log: %w", l.run, err)
		}
		if m == nil { // the others have expired
			break
		}
		if err := pass(m.Sequence, decoded(m)); err != nil {
			return err
		}
	}
	for _, e := range l.kept {
		if e.seq > after {
			if err := pass(e.seq, e.Entry); err != nil {
				return err
			}
		}
	}
	l.hears = true
	l.keepAfter(l.mark)
	return nil
}

// decoded returns the entry in a message of RAW.
func decoded(m *jetstream.RawStreamMsg) runs.Entry {
	e, ok := DecodeEntry(m.Header, m.Data)
	if !ok {
		e.Kind = runs.Unreadable
	}
	return e
}

// advance sets the mark after an entry.
func (l *RawLog) advance(e runs.Entry, seq uint64) {
	l.mark = l.mark.After(e, seq)
	l.keptBytes += len(e.Body) + 100 // for what else an entry takes
	if !l.hears || l.keptBytes > maxKept {
		l.keepAfter(l.mark)
		return
	}
	e.Body = bytes.Clone(e.Body)
	l.kept = append(l.kept, heard{seq, e})
}

// keepAfter sets the mark, and that entries are kept from there on.
func (l *RawLog) keepAfter(m runs.Mark) { l.mark, l.keptFrom, l.kept, l.keptBytes = m, m.Seq, nil, 0 }

// Look reads what other writers have appended, and reports whether they have. It does not wait while NATS is
// unreachable.
func (l *RawLog) Look(ctx context.Context) (moved bool, err error) {
	before, since := l.mark, l.bus.since.Load()
	if _, err = l.catchUp(ctx, nil); err == nil {
		l.since = since
	}
	return l.mark != before, err
}

// Reconnected reports whether the connection was restored since the log was last read, or written.
func (l *RawLog) Reconnected() bool { return l.since != l.bus.since.Load() }

// AppendIf appends an entry to the log of a run that the caller does not own. Decide
// receives the log's mark, and returns the entry, or nil for none; it is called again
// if another writer was first. Known is what the caller knows of the log; the result is
// its final mark. AppendIf does not wait while NATS is unreachable, since the decision
// may be outdated afterwards.
func (b *Bus) AppendIf(ctx context.Context, agent, run string, known runs.Mark,
	decide func(runs.Mark) *runs.Entry) (runs.Mark, error) {
	l, err := b.openLog(ctx, agent, run, known, true)
	if err != nil {
		return runs.Mark{}, err
	}
	for {
		e := decide(l.Mark())
		if e == nil {
			return l.Mark(), nil
		}
		err := l.Append(ctx, *e)
		if err == nil || !errors.Is(err, runs.ErrMoved) {
			return l.Mark(), err
		}
	}
}

var errAgain = errors.New("try again at once")

func (l *RawLog) publish(ctx context.Context, e runs.Entry) (*jetstream.PubAck, error) {
	ctx, cancel := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer cancel()
	return l.bus.js.PublishMsg(ctx, encodeEntry(l.subject, e),
		jetstream.WithExpectLastSequencePerSubject(l.fence), jetstream.WithRetryAttempts(0))
}

// catchUp reads the entries after the mark, and reports whether mine is among them,
// even if it fails after that: entries are not read twice.
func (l *RawLog) catchUp(ctx context.Context, mine *runs.Entry) (stored bool, err error) {
	last, err := l.last(ctx)
	if errors.Is(err, jetstream.ErrMsgNotFound) { // none yet, or all have expired
		l.fence = 0
		return false, l.catchUpEmpty(ctx)
	}
	if err != nil {
		return false, err
	}
	if other, err := l.other(ctx, last.Sequence); err != nil {
		return false, err
	} else if other { // start over with the new content
		l.keepAfter(emptied(l.mark))
	}
	for l.mark.Seq < last.Sequence {
		m, err := l.get(ctx, l.mark.Seq+1, jetstream.WithGetMsgSubject(l.subject))
		if err != nil {
			return stored, err
		}
		e, ok := DecodeEntry(m.Header, m.Data)
		if !ok {
			e = runs.Entry{Kind: runs.Unreadable}
		}
		l.advance(e, m.Sequence)
		l.news = stored
		if mine != nil && e.Kind == mine.Kind && e.Time == mine.Time && e.Offset == mine.Offset &&
			bytes.Equal(e.Body, mine.Body) {
			stored = true
		}
	}
	l.fence = last.Sequence // only now: unread entries must cause a refusal
	return stored, nil
}

// catchUpEmpty is catchUp if RAW has no entry of the run.
func (l *RawLog) catchUpEmpty(ctx context.Context) (err error) {
	switch {
	case l.mark.Seq != 0:
		aged, err := l.agedOut(ctx)
		if err == nil && !aged { // RAW was recreated, and has nothing of the run
			l.keepAfter(emptied(l.mark))
		}
		return err
	case l.mark.At != 0: // the run's record belongs to a former RAW
		return nil
	}
	l.mark, err = l.bus.remembered(ctx, l.run)
	if err != nil || !l.mark.Started || l.mark.Exited {
		return err
	}
	aged, err := l.agedOut(ctx)
	l.mark.Gone = err == nil && !aged
	return err
}

// emptied returns the mark of a log that is empty because RAW was recreated; m is its
// mark in the former RAW. It differs from that of an unknown log: a caller that stores
// it, and is killed, must not get what the run's record remembers.
func emptied(m runs.Mark) runs.Mark { return runs.Mark{At: max(m.At, 1)} }

// other reports whether RAW was recreated, or lost its end in a power failure: the last
// known entry is missing, and has not expired.
func (l *RawLog) other(ctx context.Context, last uint64) (bool, error) {
	switch {
	case l.mark.Seq == 0:
		return false, nil
	case last < l.mark.Seq:
		return true, nil
	}
	m, err := l.get(ctx, l.mark.Seq)
	if err == nil {
		e, _ := DecodeEntry(m.Header, nil)
		return m.Subject != l.subject || l.mark.At != 0 && e.Time != l.mark.At, nil
	}
	if !errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, err
	}
	aged, err := l.agedOut(ctx)
	return err == nil && !aged, err
}

// agedOut reports whether RAW no longer reaches back to the last known entry. If RAW
// does, and does not have the entry, it was recreated.
func (l *RawLog) agedOut(ctx context.Context) (bool, error) {
	info, err := l.stream.Info(ctx)
	if err != nil {
		return false, err
	}
	return info.State.FirstSeq > l.mark.Seq, nil
}

func (l *RawLog) last(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer cancel()
	return l.stream.GetLastMsgForSubject(ctx, l.subject)
}

func (l *RawLog) get(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer cancel()
	return l.stream.GetMsg(ctx, seq, opts...)
}

// patiently calls try until it succeeds or returns [runs.ErrMoved], or ctx ends. It
// logs once a minute why it waits, and when the wait is over.
func (l *RawLog) patiently(ctx context.Context, try func() error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 20*time.Millisecond, 5*time.Second
	lastLog := time.Time{}
	var last error // why the last attempt failed
	gone := func() error {
		if last == nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", ctx.Err(), last)
	}
	for {
		err := try()
		if err == nil || errors.Is(err, runs.ErrMoved) {
			if !lastLog.IsZero() {
				l.log.Info("RAW takes entries again")
			}
			return err
		}
		if ctx.Err() != nil {
			return gone()
		}
		if errors.Is(err, errAgain) {
			continue
		}
		last = err
		if l.failFast || errors.Is(err, jetstream.ErrBadRequest) { // retries cannot succeed
			return err
		}
		if time.Since(lastLog) > time.Minute {
			lastLog = time.Now()
			l.log.Warn("RAW takes no entries: the spool holds them", zap.String("why", l.bus.Explain(err)))
		}
		if reader.Sleep(ctx, pause.NextBackOff()) != nil {
			return gone()
		}
	}
}

// encodeEntry returns the message that stores e.
func encodeEntry(subject string, e runs.Entry) *nats.Msg {
	h := nats.Header{
		HeaderRecord: []string{string(e.Kind)},
		HeaderTime:   []string{strconv.FormatInt(e.Time, 10)},
	}
	if e.Kind.Streams() {
		h[HeaderOffset] = []string{strconv.FormatInt(e.Offset, 10)}
	}
	return &nats.Msg{Subject: subject, Header: h, Data: e.Body}
}

// DecodeEntry decodes a message of RAW. If it cannot be decoded, ok is false, and the
// entry has what could be read, such as the time.
func DecodeEntry(h nats.Header, body []byte) (e runs.Entry, ok bool) {
	e = runs.Entry{Kind: runs.Kind(h.Get(HeaderRecord)), Body: body}
	at, err := strconv.ParseInt(h.Get(HeaderTime), 10, 64)
	if err != nil || at < 0 {
		return e, false
	}
	e.Time = at
	if e.Kind.Streams() {
		e.Offset, err = strconv.ParseInt(h.Get(HeaderOffset), 10, 64)
		if err != nil || e.Offset < 0 || e.Offset > maxOffset {
			return e, false
		}
	}
	return e, e.Kind.Known()
}

// maxOffset prevents overflow in sums of offsets and lengths.
const maxOffset = 1 << 60
