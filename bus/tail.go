package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
)

// errStill reports a consumer that brings nothing although there is more.
var errStill = errors.New("its consumer stands still")

// stillness finds out whether a consumer that others drive stands still.
type stillness struct {
	seq   uint64 // that came last, when there was more to come
	since time.Time
}

// at is told what came last each time that there is more to come, and reports
// whether that has been so for longer than a new consumer takes.
func (s *stillness) at(seq uint64) bool {
	if seq != s.seq || s.since.IsZero() {
		*s = stillness{seq, time.Now()}
	}
	return time.Since(s.since) > 5*heartbeat
}

// each is told of a message, and says whether to go on.
type each func(jetstream.Msg) (bool, error)

// tail reads the messages of a subject of a stream of the inside account, in
// order, with one consumer after another: nobody may read directly there. A
// consumer may stand still without a word, on a node that is gone or lags;
// messages may be lost on their way; it ends where nobody asks it for a while.
// So its numbers must have no gap, and whenever nothing comes the stream's
// leader is asked, who knows.
type tail struct {
	js      jetstream.JetStream
	stream  string
	subject string
	from    uint64 // sequence to read on from, 1 or more
	batch   int    // messages that are on their way at a time
}

// upTo tells each the messages up to the end of the stream that info tells.
func (t *tail) upTo(ctx context.Context, info *jetstream.StreamInfo, each each) error {
	if err := followed(info); err != nil { // the end may be another one
		return err
	}
	if t.from > info.State.LastSeq || info.State.Msgs == 0 {
		return nil
	}
	pause := pauses()
	for {
		err := t.read(ctx, info, info.State.LastSeq, each)
		if !errors.Is(err, errStill) {
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
// behind what came. The error is errStill where another consumer may bring more.
func (t *tail) read(ctx context.Context, info *jetstream.StreamInfo, last uint64, each each) error {
	const quiet = time.Second // then the leader is asked; and once more before the consumer is given up
	consumer, err := t.js.CreateConsumer(ctx, t.stream, jetstream.ConsumerConfig{
		FilterSubject: t.subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.from,
		AckPolicy: jetstream.AckNonePolicy, Replicas: 1, MemoryStorage: true, InactiveThreshold: lonely,
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", t.stream, err)
	}
	defer drop(t.js, t.stream, consumer)
	// over reports whether nothing is left, where a consumer says so: it tells
	// what its own replica holds, which may lag.
	over := func(pending uint64) (bool, error) {
		if pending > 0 {
			return false, nil
		}
		if !replicated(info) {
			return true, nil
		}
		left, err := holds(ctx, t.js.Conn(), t.stream, t.subject, t.from, last)
		return !left, err
	}
	if yes, err := over(consumer.CachedInfo().NumPending); yes || err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessagesWithBytesLimit(t.batch, pullBytes))
	if err != nil {
		return fmt.Errorf("read %s: %w", t.stream, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	still := false
	for n := uint64(1); ; n++ {
		m, err := next(ctx, messages, quiet)
		for ; errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; m, err = next(ctx, messages, quiet) {
			left, asked := holds(ctx, t.js.Conn(), t.stream, t.subject, t.from, last)
			switch {
			case errors.Is(asked, jetstream.ErrStreamNotFound):
				return fmt.Errorf("read %s: %w", t.stream, asked)
			case asked != nil: // it is away, or slow
			case !left: // the rest was removed before it was read
				return nil
			case still:
				return fmt.Errorf("read %s: %w", t.stream, errStill)
			default:
				still = true
			}
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && t.js.Conn().IsClosed():
			return fmt.Errorf("read %s: %w", t.stream, err)
		case err != nil: // the client has given it up
			return fmt.Errorf("read %s: %w: %w", t.stream, errStill, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read %s: %w", t.stream, err)
		}
		seq := meta.Sequence.Stream
		switch {
		case meta.Sequence.Consumer != n: // one before it was lost
			return fmt.Errorf("read %s: %w", t.stream, errStill)
		case seq > last:
			return nil
		}
		still = false
		if seq < t.from { // a replica that lagged began too early
			continue
		}
		t.from = seq + 1
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
		if time.Since(began) > lonely { // the consumer is gone
			return fmt.Errorf("read %s: %w", t.stream, errStill)
		}
	}
}

// lonely is how long a consumer lasts that nobody asks, if it was not dropped:
// longer than a connection is lost as a rule.
const lonely = 30 * time.Second

// drop removes a consumer that is needed no more, without waiting for it. In a
// cluster each one is in the minds of all nodes: thousands slow it down.
func drop(js jetstream.JetStream, stream string, consumer jetstream.Consumer) {
	_ = js.Conn().Publish(jetstream.DefaultAPIPrefix+"CONSUMER.DELETE."+stream+"."+consumer.CachedInfo().Name, nil)
}

// next is the next message. One that does not come in time is
// [context.DeadlineExceeded].
func next(ctx context.Context, messages jetstream.MessagesContext, within time.Duration) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return messages.Next(jetstream.NextContext(ctx))
}
