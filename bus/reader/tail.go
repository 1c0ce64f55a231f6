package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrStalled reports a consumer that brings nothing although there is more.
var ErrStalled = errors.New("its consumer stands still")

// Stall finds out whether a consumer that others drive has stalled.
type Stall struct {
	seq   uint64 // that came last, when there was more to come
	since time.Time
}

// At takes what came last each time that there is more to come, and reports
// whether that has been so for longer than a new consumer takes.
func (s *Stall) At(seq uint64) bool {
	if seq != s.seq || s.since.IsZero() {
		*s = Stall{seq, time.Now()}
	}
	return time.Since(s.since) > 5*Heartbeat
}

// Each handles a message, and says whether to go on.
type Each func(jetstream.Msg) (bool, error)

// Tail reads the messages of a subject of a stream of the inside account, in
// order, with one consumer after another: nobody may read directly there. A
// consumer may stand still without a word, on a node that is gone or lags;
// messages may be lost on their way; it ends where nobody asks it for a while.
// So its numbers must have no gap, and whenever nothing comes the stream's
// leader is asked, who knows.
type Tail struct {
	JS      jetstream.JetStream
	Stream  string
	Subject string
	From    uint64 // sequence to read on from, 1 or more
	Batch   int    // messages that are on their way at a time
}

// UpTo passes each the messages up to the end of the stream that info tells.
func (t *Tail) UpTo(ctx context.Context, info *jetstream.StreamInfo, each Each) error {
	if err := Followed(info); err != nil { // the end may be another one
		return err
	}
	if t.From > info.State.LastSeq || info.State.Msgs == 0 {
		return nil
	}
	pause := pauses()
	for {
		err := t.read(ctx, info, info.State.LastSeq, each)
		if !errors.Is(err, ErrStalled) {
			return err
		}
		select { // a consumer that is refused again and again must not keep the server busy
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// pauses are those between one consumer and the next.
func pauses() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	return pause
}

// read reads with one consumer up to the sequence last. Afterwards from is
// behind what came. The error is ErrStalled where another consumer may bring more.
func (t *Tail) read(ctx context.Context, info *jetstream.StreamInfo, last uint64, each Each) error {
	const quiet = time.Second // then the leader is asked; and once more before the consumer is given up
	consumer, err := t.JS.CreateConsumer(ctx, t.Stream, jetstream.ConsumerConfig{
		FilterSubject: t.Subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.From,
		AckPolicy: jetstream.AckNonePolicy, Replicas: 1, MemoryStorage: true, InactiveThreshold: Lonely,
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", t.Stream, err)
	}
	defer Drop(t.JS, t.Stream, consumer)
	// over reports whether nothing is left, where a consumer says so: it tells
	// what its own replica holds, which may lag.
	over := func(pending uint64) (bool, error) {
		if pending > 0 {
			return false, nil
		}
		if !Replicated(info) {
			return true, nil
		}
		left, err := Holds(ctx, t.JS.Conn(), t.Stream, t.Subject, t.From, last)
		return !left, err
	}
	if yes, err := over(consumer.CachedInfo().NumPending); yes || err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(t.Batch, PullBytes))
	if err != nil {
		return fmt.Errorf("read %s: %w", t.Stream, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	still := false
	for n := uint64(1); ; n++ {
		m, err := next(ctx, messages, quiet)
		for ; errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; m, err = next(ctx, messages, quiet) {
			left, asked := Holds(ctx, t.JS.Conn(), t.Stream, t.Subject, t.From, last)
			switch {
			case errors.Is(asked, jetstream.ErrStreamNotFound):
				return fmt.Errorf("read %s: %w", t.Stream, asked)
			case asked != nil: // it is away, or slow
			case !left: // the rest was removed before it was read
				return nil
			case still:
				return fmt.Errorf("read %s: %w", t.Stream, ErrStalled)
			default:
				still = true
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && t.JS.Conn().IsClosed():
			return fmt.Errorf("read %s: %w", t.Stream, err)
		case err != nil: // the client has given it up
			return fmt.Errorf("read %s: %w: %w", t.Stream, ErrStalled, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read %s: %w", t.Stream, err)
		}
		seq := meta.Sequence.Stream
		switch {
		case meta.Sequence.Consumer != n: // one before it was lost
			return fmt.Errorf("read %s: %w", t.Stream, ErrStalled)
		case seq > last:
			return nil
		}
		still = false
		if seq < t.From { // a replica that lagged began too early
			continue
		}
		t.From = seq + 1
		began := time.Now()
		if more, err := each(m); !more || err != nil {
			return err
		}
		if seq == last {
			return nil
		}
		if yes, err := over(meta.NumPending); yes || err != nil {
			return err
		}
		if time.Since(began) > Lonely { // the consumer is gone
			return fmt.Errorf("read %s: %w", t.Stream, ErrStalled)
		}
	}
}

// PullBytes is what a consumer is asked for at a time. A server closes the
// connection of a client that takes less than it asked for, so it is less than
// what the embedded server keeps for one.
const PullBytes = 8 << 20

// Lonely is how long a consumer lasts that nobody asks, if it was not dropped:
// longer than a connection is lost as a rule.
const Lonely = 30 * time.Second

// Drop removes a consumer that is needed no more, without waiting for it. In a
// cluster each one is in the minds of all nodes: thousands slow it down.
func Drop(js jetstream.JetStream, stream string, consumer jetstream.Consumer) {
	_ = js.Conn().Publish(jetstream.DefaultAPIPrefix+"CONSUMER.DELETE."+stream+"."+consumer.CachedInfo().Name, nil)
}

// next is the next message. One that does not come in time is
// [context.DeadlineExceeded].
func next(ctx context.Context, messages jetstream.MessagesContext, within time.Duration) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}
