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

// each is told of a message, and says whether to go on.
type each func(jetstream.Msg, *jetstream.MsgMetadata) (bool, error)

// tail reads the messages of a subject of a stream, in order, with one
// consumer after another. A consumer may stand still without a word, on a node
// that is gone or lags; messages may be lost on their way; it ends where nobody
// asks it for a while. So its numbers must have no gap, and whenever nothing
// comes the stream's leader is asked, who knows.
type tail struct {
	js      jetstream.JetStream
	stream  string
	subject string
	from    uint64    // sequence to read on from, 1 or more
	since   time.Time // begin with what was stored then, if it is given
	bare    bool      // without the bodies
	batch   int       // messages that are on their way at a time

	begun   bool      // there was a consumer
	created time.Time // of the stream that it had
	seen    uint64    // the last sequence that came from there
	anew    bool      // another one had been there before, or it has lost its end
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

// on tells each the messages that are there, and those that come, until ctx
// ends, which is no error. It waits for a server that goes away, and for a
// stream: where that is made anew it is read from its beginning.
func (t *tail) on(ctx context.Context, each each) error {
	pause := pauses()
	var told error // what each says is no matter of the stream
	for {
		err := t.follow(ctx, func(m jetstream.Msg, meta *jetstream.MsgMetadata) (bool, error) {
			pause.Reset()
			more, err := each(m, meta)
			told = err
			return more, err
		})
		conn := t.js.Conn()
		away := conn.IsReconnecting() || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed)
		switch {
		case err == nil, told != nil:
			return err
		case ctx.Err() != nil:
			return nil
		case conn.IsClosed(), !t.begun && !away: // it never worked
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// follow is one attempt of on.
func (t *tail) follow(ctx context.Context, each each) error {
	s, err := t.js.Stream(ctx, t.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", t.stream, err)
	}
	info := s.CachedInfo()
	if t.begun && t.other(info) {
		t.from, t.seen, t.anew = 1, 0, true
	}
	t.created = info.Created
	return t.read(ctx, info, 0, each)
}

// other reports whether the stream is not the one that was followed, or has
// lost its end.
func (t *tail) other(info *jetstream.StreamInfo) bool {
	return !info.Created.Equal(t.created) || info.State.LastSeq < t.seen && followed(info) == nil
}

// read reads with one consumer: up to the sequence last, or on and on where
// that is 0. Afterwards from is behind what came. The error is errStill where
// another consumer may bring more.
func (t *tail) read(ctx context.Context, info *jetstream.StreamInfo, last uint64, each each) error {
	quiet := 5 * time.Second // then the leader is asked; and once more before the consumer is given up
	if last != 0 {
		quiet = time.Second
	}
	// A consumer beyond the stream's end would wait for ever: begin with what
	// comes next, whatever its number.
	config := jetstream.ConsumerConfig{
		FilterSubject: t.subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: min(t.from, info.State.LastSeq+1),
		AckPolicy: jetstream.AckNonePolicy, HeadersOnly: t.bare, Replicas: 1, MemoryStorage: true, InactiveThreshold: lonely,
	}
	if !t.since.IsZero() {
		config.DeliverPolicy, config.OptStartSeq, config.OptStartTime = jetstream.DeliverByStartTimePolicy, 0, &t.since
	}
	consumer, err := t.js.CreateConsumer(ctx, t.stream, config)
	if err != nil {
		return fmt.Errorf("read %s: %w", t.stream, err)
	}
	defer drop(t.js, t.stream, consumer)
	t.begun = true
	// over reports whether nothing is left, where a consumer says so: it tells
	// what its own replica holds, which may lag. Which is the first one since a
	// time nobody else knows.
	over := func(pending uint64) (bool, error) {
		if last == 0 || pending > 0 {
			return false, nil
		}
		if !replicated(info) || !t.since.IsZero() {
			return true, nil
		}
		left, err := holds(ctx, t.js.Conn(), t.stream, t.subject, t.from, last)
		return !left, err
	}
	if yes, err := over(consumer.CachedInfo().NumPending); yes || err != nil {
		return err
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(t.batch))
	if err != nil {
		return fmt.Errorf("read %s: %w", t.stream, err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)()
	still := false
	for n := uint64(1); ; n++ {
		m, err := next(ctx, messages, quiet)
		for ; errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; m, err = next(ctx, messages, quiet) {
			left, asked := t.left(ctx, consumer, last)
			switch {
			case errors.Is(asked, jetstream.ErrStreamNotFound), errors.Is(asked, errStill):
				return fmt.Errorf("read %s: %w", t.stream, asked)
			case asked != nil: // it is away, or slow
			case !left && last != 0: // the rest was removed before it was read
				return nil
			case left && still:
				return fmt.Errorf("read %s: %w", t.stream, errStill)
			default:
				still = left
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
		case last != 0 && seq > last:
			return nil
		}
		still, t.since, t.seen = false, time.Time{}, seq
		if seq < t.from { // a replica that lagged began too early
			continue
		}
		t.from = seq + 1
		began := time.Now()
		if more, err := each(m, meta); !more || err != nil {
			return err
		}
		if last != 0 && seq == last {
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

// left reports whether there is more to come from a consumer that brings
// nothing. The error is errStill where it stands in a stream that is gone.
func (t *tail) left(ctx context.Context, consumer jetstream.Consumer, last uint64) (bool, error) {
	if !t.since.IsZero() {
		info, err := consumer.Info(ctx)
		if errors.Is(err, jetstream.ErrConsumerNotFound) {
			return false, errStill
		}
		return err == nil && info.NumPending > 0, err
	}
	if last == 0 {
		s, err := t.js.Stream(ctx, t.stream)
		switch {
		case err != nil:
			return false, err
		case t.other(s.CachedInfo()):
			return false, errStill
		case s.CachedInfo().State.LastSeq < t.from:
			return false, nil
		}
	}
	return holds(ctx, t.js.Conn(), t.stream, t.subject, t.from, last)
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
