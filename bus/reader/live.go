package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Limits of what a follower of a whole stream has received and not passed on. Beyond them it reads from the stream. A
// responder may have a hundred followers whose clients read nothing. A connection must be opened with at least
// [LiveMessages] as the length of the queue of a subscription; by default the queue takes half a MiB for each.
const (
	LiveMessages = 4 << 10
	liveBytes    = 4 << 20
)

// errBehind reports a follower that is too slow for the messages that arrive.
var errBehind = errors.New("the reader is behind")

// errReconnected reports that the connection was lost meanwhile: the stream may be another one.
var errReconnected = errors.New("the connection was restored")

// followWhole is the rest of an attempt to follow all messages of a stream. Their sequences have no holes, so a
// republished message shows by itself whether it is the next one, and is passed on. Where one is missing, the stream
// is read. Anybody may publish there: a message counts only with the headers of the server, and its own subject.
func (r *Reader) followWhole(ctx context.Context, each each) error {
	conn := cmp.Or(r.wake, r.js.Conn())
	before := conn.Stats().Reconnects
	if _, done, err := r.drain(ctx, 0, patience(0), each); done || err != nil && !errors.Is(err, errUnanswered) {
		return err
	}
	sub, err := conn.SubscribeSync(r.live[0])
	if err == nil {
		defer func() { _ = sub.Unsubscribe() }() // fails if the connection is lost
		err = sub.SetPendingLimits(LiveMessages, liveBytes)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", r.stream, err)
	}
	return r.takeLive(ctx, sub, each, func() bool { return conn.Stats().Reconnects != before })
}

// takeLive passes on what a subscription delivers, and what the stream has between.
func (r *Reader) takeLive(ctx context.Context, sub *nats.Subscription, each each, restored func() bool) error {
	poll := r.polls()
	var next time.Time // when the leader is asked
	behind, fails := true, 0
	latest := r.from - 1              // the message that came before
	doubt, sure := false, time.Time{} // whether the stream may be another one, and when it was not
	for {
		if behind {
			advanced, done, err := r.drain(ctx, 0, patience(fails), each)
			if advanced {
				fails = 0
				poll.Reset()
			}
			switch {
			case errors.Is(err, errUnanswered):
				fails++
			case err != nil || done:
				return err
			}
			behind, next = false, time.Now().Add(poll.NextBackOff())
		}
		m, err := receive(ctx, sub, next)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, nats.ErrSlowConsumer):
			return errBehind
		case restored():
			return errReconnected
		case err != nil && !errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("read %s: %w", r.stream, err)
		}
		seq := r.sequence(m)
		// A stream's messages come in order, and what was read before it came is not newer than what was read last.
		doubt = doubt || seq != 0 && (seq <= latest || seq < r.from && stamp(m).After(r.stored))
		latest = max(latest, seq)
		if doubt && (seq >= r.from || time.Since(sure) > leastPoll) {
			if err := r.same(ctx); err != nil {
				return err
			}
			doubt, sure, latest = false, time.Now(), cmp.Or(seq, latest)
		}
		if seq == r.from {
			r.from, r.known.seen, r.stored = seq+1, max(r.known.seen, seq), stamp(m)
			if err := each(&jetstream.RawStreamMsg{
				Subject: m.Header.Get(jetstream.SubjectHeader), Sequence: seq, Header: m.Header, Data: m.Data,
			}); err != nil {
				if errors.Is(err, ErrStop) {
					err = nil
				}
				return err
			}
			poll.Reset()
			next = time.Time{}
			continue
		}
		if next.IsZero() {
			next = time.Now().Add(poll.NextBackOff())
		}
		switch {
		case seq > r.from: // one was not delivered, or the replica that was read lags
			if err := Sleep(ctx, gather); err != nil {
				return err
			}
			behind = true
			poll.Reset() // the next replica to answer may not have it yet
		case !time.Now().Before(next):
			next = time.Now().Add(poll.NextBackOff())
			left, err := r.left(ctx, 0)
			if r.gone(err) {
				return fmt.Errorf("read %s: %w", r.stream, err)
			}
			behind = left
		}
	}
}

// gone reports whether an error of the leader says that the stream is another one, or cannot be reached again.
func (r *Reader) gone(err error) bool {
	return errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, ErrReplaced) || r.js.Conn().IsClosed()
}

// same waits until the leader has said that the stream is the one that was read.
func (r *Reader) same(ctx context.Context) error {
	for {
		s, err := Look(ctx, r.js, r.stream)
		if err == nil && r.known.replacedBy(s.CachedInfo()) {
			err = ErrReplaced
		}
		if r.gone(err) {
			return fmt.Errorf("read %s: %w", r.stream, err)
		}
		if err == nil {
			return nil
		}
		if err := Sleep(ctx, leastPoll); err != nil {
			return err
		}
	}
}

// receive returns the next message of a subscription, or the error [context.DeadlineExceeded] at a time; zero: in a
// tenth of a second.
func receive(ctx context.Context, sub *nats.Subscription, until time.Time) (*nats.Msg, error) {
	if n, _, err := sub.Pending(); err == nil && n > 0 {
		return sub.NextMsgWithContext(ctx)
	}
	if until.IsZero() {
		until = time.Now().Add(leastPoll)
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	return sub.NextMsgWithContext(ctx)
}

// sequence is that of a republished message of the stream; 0: it is none.
func (r *Reader) sequence(m *nats.Msg) uint64 {
	if m == nil || m.Header.Get(jetstream.StreamHeader) != r.stream {
		return 0
	}
	seq, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return 0
	}
	return seq
}

// stamp is when a republished message was stored.
func stamp(m *nats.Msg) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
	return at
}

// leastPoll is the first of the intervals at which a follower asks the leader.
const leastPoll = 100 * time.Millisecond

// polls are the intervals at which a follower asks the leader while nothing arrives.
func (r *Reader) polls() *backoff.ExponentialBackOff {
	poll := backoff.NewExponentialBackOff()
	poll.InitialInterval, poll.RandomizationFactor = leastPoll, 0.2
	poll.MaxInterval = cmp.Or(r.poll, 8*time.Second)
	return poll
}
