package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
)

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

// read reads with one consumer up to the sequence last. Afterwards From is
// behind what came. The error is ErrStalled where another consumer may bring more.
func (t *Tail) read(ctx context.Context, info *jetstream.StreamInfo, last uint64, each Each) error {
	consumer, err := t.JS.CreateConsumer(ctx, t.Stream, jetstream.ConsumerConfig{
		FilterSubject: t.Subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.From,
		AckPolicy: jetstream.AckNonePolicy, Replicas: 1, MemoryStorage: true, InactiveThreshold: Lonely,
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", t.Stream, err)
	}
	defer Drop(t.JS, t.Stream, consumer)
	if over, err := t.over(ctx, info, last, consumer.CachedInfo().NumPending); over || err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(t.Batch, PullBytes))
	if err != nil {
		return fmt.Errorf("read %s: %w", t.Stream, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	for n := uint64(1); ; n++ {
		m, err := t.next(ctx, messages, last)
		if m == nil || err != nil {
			return err
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
		case seq < t.From: // a replica that lagged began too early
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
		if over, err := t.over(ctx, info, last, meta.NumPending); over || err != nil {
			return err
		}
		if time.Since(began) > Lonely { // the consumer is gone
			return fmt.Errorf("read %s: %w", t.Stream, ErrStalled)
		}
	}
}

// over reports whether nothing is left up to the sequence last, where a consumer
// says how much is pending: it tells what its own replica holds, which may lag.
func (t *Tail) over(ctx context.Context, info *jetstream.StreamInfo, last, pending uint64) (bool, error) {
	if pending > 0 {
		return false, nil
	}
	if !Replicated(info) {
		return true, nil
	}
	left, err := Holds(ctx, t.JS.Conn(), t.Stream, t.Subject, t.From, last)
	return !left, err
}

// next waits for the next message; nil says that the rest was removed before it
// was read. While nothing comes the leader is asked after each second, and the
// second time that there is more the consumer is given up: then the error is
// ErrStalled.
func (t *Tail) next(ctx context.Context, messages jetstream.MessagesContext, last uint64) (jetstream.Msg, error) {
	for silent := false; ; {
		m, err := within(ctx, messages, time.Second)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			return m, nil
		case errors.Is(err, context.DeadlineExceeded):
		case t.JS.Conn().IsClosed():
			return nil, fmt.Errorf("read %s: %w", t.Stream, err)
		default: // the client has given it up
			return nil, fmt.Errorf("read %s: %w: %w", t.Stream, ErrStalled, err)
		}
		left, err := Holds(ctx, t.JS.Conn(), t.Stream, t.Subject, t.From, last)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("read %s: %w", t.Stream, err)
		case err != nil: // it is away, or slow
		case !left:
			return nil, nil
		case silent:
			return nil, fmt.Errorf("read %s: %w", t.Stream, ErrStalled)
		default:
			silent = true
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

// within is the next message. One that does not come in time is
// [context.DeadlineExceeded].
func within(ctx context.Context, messages jetstream.MessagesContext, patience time.Duration) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}
