package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// Each handles one message, and reports whether the reader should continue.
type Each func(jetstream.Msg) (bool, error)

// Tail reads the messages of a subject of a stream in order, by one consumer after
// another, in an account that allows no direct gets. A consumer may stall without an
// error, on a node that failed or lags; messages may be lost; and an idle consumer
// expires. So Tail checks that the consumer's sequences have no gap, and asks the
// stream's leader when nothing arrives.
type Tail struct {
	JS      jetstream.JetStream
	Stream  string
	Subject string
	From    uint64 // next sequence to read, 1 or more
	Batch   int    // messages in flight
}

// UpTo calls each with the messages up to the end of the stream in info.
func (t *Tail) UpTo(ctx context.Context, info *jetstream.StreamInfo, each Each) error {
	if err := Followed(info); err != nil { // the end in info may be wrong
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
		select { // limits the load if consumers are refused repeatedly
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// pauses returns the backoff between consumers.
func pauses() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	return pause
}

// read reads with one consumer up to sequence last, and advances From. The error is
// ErrStalled if another consumer may deliver more.
func (t *Tail) read(ctx context.Context, info *jetstream.StreamInfo, last uint64, each Each) error {
	consumer, err := t.JS.CreateConsumer(ctx, t.Stream, jetstream.ConsumerConfig{
		FilterSubject: t.Subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.From,
		AckPolicy: jetstream.AckNonePolicy, Replicas: 1, MemoryStorage: true, InactiveThreshold: ConsumerTimeout,
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
		case meta.Sequence.Consumer != n: // a message was lost
			return fmt.Errorf("read %s: %w", t.Stream, ErrStalled)
		case seq > last:
			return nil
		case seq < t.From: // a lagging replica started too early
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
		if time.Since(began) > ConsumerTimeout { // the consumer has expired
			return fmt.Errorf("read %s: %w", t.Stream, ErrStalled)
		}
	}
}

// over reports whether nothing is left up to sequence last. Pending is the consumer's
// view, which is that of its own replica and may lag.
func (t *Tail) over(ctx context.Context, info *jetstream.StreamInfo, last, pending uint64) (bool, error) {
	if pending > 0 {
		return false, nil
	}
	if !replicated(info) {
		return true, nil
	}
	left, err := holds(ctx, t.JS.Conn(), t.Stream, t.Subject, t.From, last)
	return !left, err
}

// next waits for the next message. It returns nil if the rest was removed before it was
// read. While nothing arrives it asks the leader every second; the second time that
// there is more it returns ErrStalled.
func (t *Tail) next(ctx context.Context, messages jetstream.MessagesContext, last uint64) (jetstream.Msg, error) {
	for asked := false; ; {
		m, err := within(ctx, messages, time.Second)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err == nil:
			return m, nil
		case errors.Is(err, context.DeadlineExceeded):
		case t.JS.Conn().IsClosed():
			return nil, fmt.Errorf("read %s: %w", t.Stream, err)
		default: // the client gave up the consumer
			return nil, fmt.Errorf("read %s: %w: %w", t.Stream, ErrStalled, err)
		}
		left, err := holds(ctx, t.JS.Conn(), t.Stream, t.Subject, t.From, last)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound):
			return nil, fmt.Errorf("read %s: %w", t.Stream, err)
		case err != nil: // no answer, or a late one: keep waiting
		case !left:
			return nil, nil
		case asked:
			return nil, fmt.Errorf("read %s: %w", t.Stream, ErrStalled)
		default:
			asked = true
		}
	}
}

// PullBytes limits one pull request. A server closes the connection of a client that
// does not read what it requested, so this is less than the embedded server buffers for
// a client.
const PullBytes = 8 << 20

// ConsumerTimeout is how long a consumer lasts without requests if it was not deleted:
// longer than a typical loss of the connection.
const ConsumerTimeout = 30 * time.Second

// Drop deletes a consumer without waiting for the answer. All nodes of a cluster keep
// track of each consumer, and thousands of them slow it down.
func Drop(js jetstream.JetStream, stream string, consumer jetstream.Consumer) {
	_ = js.Conn().Publish(jetstream.DefaultAPIPrefix+"CONSUMER.DELETE."+stream+"."+consumer.CachedInfo().Name, nil)
}

// within returns the next message, or [context.DeadlineExceeded] if none arrives in
// time.
func within(ctx context.Context, messages jetstream.MessagesContext, patience time.Duration) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}
