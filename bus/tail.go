package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
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

// tail reads the messages of a subject of a stream, in order. Its consumer may
// stand still without a word, as on a node of a cluster that lags for long, or
// where the client cannot make it again: who knows the end is the stream's
// leader, and it is asked whenever nothing comes.
type tail struct {
	js      jetstream.JetStream
	stream  string
	subject string
	from    uint64    // sequence to read on from, 1 or more
	since   time.Time // begin with what was stored then, if it is given
	bare    bool      // without the bodies
	batch   int       // messages that are on their way at a time
}

// upTo calls each with the messages up to the end of the stream that info
// tells, until each returns false or an error, or none is left.
func (t *tail) upTo(ctx context.Context, info *jetstream.StreamInfo, each func(jetstream.Msg, *jetstream.MsgMetadata) (bool, error)) error {
	if err := followed(info); err != nil { // the end may be another one
		return err
	}
	if t.from > info.State.LastSeq || info.State.Msgs == 0 {
		return nil
	}
	for {
		err := t.read(ctx, info, each)
		if !errors.Is(err, errStill) {
			return err
		}
	}
}

// on calls each with the messages that are there, and with those that come,
// until each returns false or an error, or ctx ends, which is an error. It
// waits for a server that goes away.
func (t *tail) on(ctx context.Context, each func(jetstream.Msg, *jetstream.MsgMetadata) (bool, error)) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	begun := false
	for {
		var done error // what each says is no matter of the stream
		err := t.read(ctx, nil, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
			begun = true
			pause.Reset()
			more, err := each(m, meta)
			done = err
			return more, err
		})
		begun = begun || errors.Is(err, errStill)
		conn := t.js.Conn()
		switch {
		case err == nil, done != nil, ctx.Err() != nil, conn.IsClosed(), errors.Is(err, jetstream.ErrStreamNotFound):
			return err
		case !begun && !conn.IsReconnecting() && !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrConnectionClosed):
			return err // it never worked
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// read reads with one consumer: up to the end that info tells, or on and on
// where there is none. Afterwards from is behind what came.
func (t *tail) read(ctx context.Context, info *jetstream.StreamInfo, each func(jetstream.Msg, *jetstream.MsgMetadata) (bool, error)) error {
	quiet := time.Second // then the leader is asked; and once more before the consumer is given up
	var last, end uint64 // up to where to read, 0: on and on; where the stream ended
	config := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{t.subject}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: t.from,
		HeadersOnly: t.bare, MaxResetAttempts: 5, InactiveThreshold: lonely,
	}
	if info != nil {
		last, end = info.State.LastSeq, info.State.LastSeq
	} else {
		quiet = 5 * time.Second
		s, err := t.js.Stream(ctx, t.stream)
		if err != nil {
			return fmt.Errorf("stream %s: %w", t.stream, err)
		}
		end = s.CachedInfo().State.LastSeq
		// A consumer beyond the stream's end would wait for ever: begin with
		// what comes next, whatever its number.
		config.OptStartSeq = min(t.from, end+1)
	}
	if !t.since.IsZero() {
		config.DeliverPolicy, config.OptStartSeq, config.OptStartTime = jetstream.DeliverByStartTimePolicy, 0, &t.since
	}
	more := func() (bool, error) {
		from := t.from
		if !t.since.IsZero() { // which one that is the replica alone knows
			from = end + 1
		}
		return holds(ctx, t.js.Conn(), t.stream, t.subject, from, last)
	}
	// over reports whether nothing is left, where a consumer says so: it tells
	// what its own replica holds, which may lag.
	over := func(pending uint64) (bool, error) {
		if info == nil || pending > 0 {
			return false, nil
		}
		if !replicated(info) {
			return true, nil
		}
		left, err := more()
		return !left, err
	}
	consumer, err := t.js.OrderedConsumer(ctx, t.stream, config)
	if err != nil {
		return fmt.Errorf("read %s: %w", t.stream, err)
	}
	defer drop(t.js, t.stream, consumer)
	if yes, err := over(consumer.CachedInfo().NumPending); yes || err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(t.batch))
	if err != nil {
		return fmt.Errorf("read %s: %w", t.stream, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)() // while the server is away Next does not look at ctx
	still := false
	for {
		m, err := next(ctx, messages, quiet)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, jetstream.ErrNoHeartbeat):
			left, err := more()
			switch {
			case errors.Is(err, jetstream.ErrStreamNotFound):
				return fmt.Errorf("stream %s: %w", t.stream, err)
			case err != nil: // it is away, or slow
			case !left && info != nil: // the rest was removed before it was read
				return nil
			case left && still:
				return fmt.Errorf("read %s: %w", t.stream, errStill)
			default:
				still = left
			}
			continue
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
		if info != nil && seq > last {
			return nil
		}
		still, t.from, t.since = false, max(t.from, seq+1), time.Time{}
		if goOn, err := each(m, meta); !goOn || err != nil {
			return err
		}
		if info != nil && seq == last {
			return nil
		}
		if yes, err := over(meta.NumPending); yes || err != nil {
			return err
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
