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

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// RawLog is the raw log of one run, for its one writer.
type RawLog struct {
	bus     *Bus
	run     string
	subject string
	stream  jetstream.Stream
	mark    runs.Mark
	hasty   bool   // do not wait for NATS
	since   int64  // of the connection in which the log was read
	fence   uint64 // sequence of the last entry that RAW still holds, 0: none
	news    bool   // something lies behind the entry that was appended last
	log     *zap.Logger
}

// OpenLog opens the raw log of a run, of which the caller knows what mark
// tells: only what came later is read. It waits while NATS is away.
func (b *Bus) OpenLog(ctx context.Context, agent, run string, mark runs.Mark) (*RawLog, error) {
	return b.openLog(ctx, agent, run, mark, false)
}

func (b *Bus) openLog(ctx context.Context, agent, run string, mark runs.Mark, hasty bool) (*RawLog, error) {
	l := &RawLog{
		bus: b, hasty: hasty, run: run, subject: b.RawSubject(agent, run), mark: mark,
		log: b.log.With(zap.String("agent", agent), zap.String("run", run)),
	}
	err := l.patiently(ctx, func() error {
		s, err := b.js.Stream(ctx, b.Raw())
		if err != nil {
			return err
		}
		l.stream, l.since = s, b.since.Load()
		_, err = l.catchUp(ctx, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: open its log: %w", run, err)
	}
	return l, nil
}

// Mark is how far the log reaches. One of a log that is empty, because RAW is
// another one than it was, has a time all the same: who opens the log with it
// again gets nothing of the old one.
func (l *RawLog) Mark() runs.Mark { return l.mark }

// Append stores e behind the last entry. It waits while NATS is away or full,
// as long as ctx lasts. [runs.ErrMoved] says that somebody else wrote: e is
// not stored, and Mark tells what is.
func (l *RawLog) Append(ctx context.Context, e runs.Entry) error {
	if l.news {
		l.news = false
		return runs.ErrMoved
	}
	return l.patiently(ctx, func() error {
		before, fence := l.mark, l.fence
		if since := l.bus.since.Load(); since != l.since {
			// The server may have come back without its end, and the numbers of
			// what it lost are given again: the fence alone would not tell. And
			// what was tried before may have been stored.
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
			l.mark, l.fence = l.mark.After(e, ack.Sequence), ack.Sequence
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
		// Whatever went wrong, the log itself says what it holds.
		stored, lookErr := l.catchUp(ctx, &e)
		switch {
		case stored:
			return nil
		case lookErr != nil:
			return err
		case l.mark != before:
			return runs.ErrMoved
		case l.fence != fence: // the last entry aged out meanwhile
			return errAgain
		}
		return err
	})
}

// AppendIf stores an entry in the log of a run for somebody who does not drive
// it: decide gets what the log holds, and returns the entry, or nil to
// leave it at that. It is asked again whenever somebody was quicker. The mark
// says what the log held in the end; known is what the caller knows of it. It
// waits for nobody: what was decided before NATS was away may be wrong after.
func (b *Bus) AppendIf(ctx context.Context, agent, run string, known runs.Mark, decide func(runs.Mark) *runs.Entry) (runs.Mark, error) {
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

// catchUp reads the entries that came after the mark, and reports whether
// mine is among them: also where it breaks off behind that, for what was read
// is not read again.
func (l *RawLog) catchUp(ctx context.Context, mine *runs.Entry) (stored bool, err error) {
	last, err := l.last(ctx)
	if errors.Is(err, jetstream.ErrMsgNotFound) { // none yet, or all have aged out
		l.fence = 0
		return false, l.catchUpEmpty(ctx)
	}
	if err != nil {
		return false, err
	}
	if other, err := l.other(ctx, last.Sequence); err != nil {
		return false, err
	} else if other { // what it holds now counts
		l.mark = emptied(l.mark)
	}
	for l.mark.Seq < last.Sequence {
		m, err := l.get(ctx, l.mark.Seq+1, jetstream.WithGetMsgSubject(l.subject))
		if err != nil {
			return stored, err
		}
		e, ok := DecodeEntry(m.Header, m.Data)
		if !ok {
			e = runs.Entry{}
		}
		l.mark = l.mark.After(e, m.Sequence)
		l.news = stored
		if mine != nil && e.Kind == mine.Kind && e.Time == mine.Time && e.Offset == mine.Offset && bytes.Equal(e.Body, mine.Body) {
			stored = true
		}
	}
	l.fence = last.Sequence // not before: what is not read yet must refuse what comes next
	return stored, nil
}

// catchUpEmpty is catchUp where RAW has no entry of the run.
func (l *RawLog) catchUpEmpty(ctx context.Context) (err error) {
	switch {
	case l.mark.Seq != 0:
		aged, err := l.agedOut(ctx)
		if err == nil && !aged { // RAW is another one: what it holds now counts, and that is nothing
			l.mark = emptied(l.mark)
		}
		return err
	case l.mark.At != 0: // the run's record is of another RAW
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

// emptied is the mark of a log of which another RAW holds nothing yet, after m
// in the old one. It differs from that of a log that nobody knows: a caller who
// keeps it, and is killed, must not get what the run's record remembers.
func emptied(m runs.Mark) runs.Mark { return runs.Mark{At: max(m.At, 1)} }

// other reports whether RAW was made anew, or lost its end in a power failure:
// the entry that we know as the last is not there, and has not aged out.
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

// agedOut reports whether RAW no longer reaches back to the entry that we know
// as the last. Where it does, and has no such entry, it is another RAW.
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

// patiently tries until try succeeds, somebody else turns out to have
// written, or ctx ends. It says once what it waits for, and once that it is over.
func (l *RawLog) patiently(ctx context.Context, try func() error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 20*time.Millisecond, 5*time.Second
	said := time.Time{}
	var last error // why it was waited
	gone := func() error {
		if last == nil {
			return ctx.Err()
		}
		return fmt.Errorf("%w: %w", ctx.Err(), last)
	}
	for {
		err := try()
		if err == nil || errors.Is(err, runs.ErrMoved) {
			if !said.IsZero() {
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
		if fatal := hopeless(err); fatal != nil || l.hasty {
			return err
		}
		if time.Since(said) > time.Minute {
			said = time.Now()
			l.log.Warn("RAW takes no entries: the spool holds them", zap.String("why", l.bus.Explain(err)))
		}
		select {
		case <-ctx.Done():
			return gone()
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// hopeless is the error for what no waiting mends.
func hopeless(err error) error {
	if errors.Is(err, jetstream.ErrBadRequest) {
		return err
	}
	return nil
}
