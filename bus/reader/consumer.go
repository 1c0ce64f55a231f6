package reader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// NewConsumer returns a reader of a subject from a sequence on, 1 or more, by one consumer
// after another, with at most batch messages in flight: for accounts and streams that
// allow no direct gets. A consumer may stall without an error, on a node that failed or
// lags; messages may be lost; and an idle consumer expires. Then it is replaced.
func NewConsumer(js jetstream.JetStream, stream, subject string, batch int, from uint64) *Reader {
	r := &Reader{
		js: js, stream: stream, subjects: []string{subject}, from: from, Log: zap.NewNop(),
		fit: func(*jetstream.StreamInfo) error { return nil },
	}
	r.open = func(from uint64, patience time.Duration) source {
		return &consumer{
			js: js, stream: stream, subject: subject, from: from, batch: batch, bytes: PullBytes, patience: patience,
			turns: r.Turns,
		}
	}
	return r
}

// consumer is a source that reads with one consumer. Between batches nothing is in flight.
type consumer struct {
	js       jetstream.JetStream
	stream   string
	subject  string
	from     uint64
	batch    int           // limits of a batch
	bytes    int           //
	patience time.Duration // for the next message
	turns    chan struct{} // of [Reader.Turns]; nil: no bound

	on      jetstream.Consumer
	count   uint64 // of delivered messages
	pending uint64 // messages after those
}

func (c *consumer) next(ctx context.Context) (messages []*jetstream.RawStreamMsg, more bool, err error) {
	if c.on == nil {
		if more, err := c.start(ctx); !more || err != nil {
			return nil, false, err
		}
	}
	done, err := turn(ctx, c.turns)
	if err != nil {
		return nil, false, err
	}
	defer done()
	messages, err = c.get(ctx, int(min(c.pending, uint64(c.batch))))
	return messages, c.pending > 0, err
}

// get requests one batch, which the server has. It may send fewer messages if they are large.
func (c *consumer) get(ctx context.Context, size int) ([]*jetstream.RawStreamMsg, error) {
	stored, messages := make([]jetstream.RawStreamMsg, size), make([]*jetstream.RawStreamMsg, 0, size)
	err := ask(ctx, c.js.Conn(), jetstream.DefaultAPIPrefix+"CONSUMER.MSG.NEXT."+c.stream+"."+c.on.CachedInfo().Name,
		fmt.Appendf(nil, `{"batch":%d,"max_bytes":%d,"expires":%d}`, size, c.bytes, c.patience), size+1, c.patience,
		func(m *nats.Msg) (bool, error) {
			if m.Reply == "" { // why there are no more
				if status := m.Header.Get(headerStatus); status != "409" || len(messages) == 0 {
					return false, fmt.Errorf("%w: status %.3s", errUnanswered, status)
				}
				return false, nil
			}
			meta, err := m.Metadata()
			if err != nil {
				return false, err
			}
			if c.count++; meta.Sequence.Consumer != c.count { // one was lost
				return false, errUnanswered
			}
			c.pending = meta.NumPending
			stored[len(messages)] = jetstream.RawStreamMsg{
				Subject: m.Subject, Sequence: meta.Sequence.Stream, Header: m.Header, Data: m.Data, Time: meta.Timestamp,
			}
			messages = append(messages, &stored[len(messages)])
			return len(messages) < size, nil
		})
	return messages, err
}

// turn waits for a turn of [Reader.Turns], which ends with done.
func turn(ctx context.Context, turns chan struct{}) (done func(), err error) {
	if turns == nil {
		return func() {}, nil
	}
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// start creates the consumer, and reports whether it has messages.
func (c *consumer) start(ctx context.Context) (more bool, err error) {
	c.on, err = c.js.CreateConsumer(ctx, c.stream, jetstream.ConsumerConfig{
		FilterSubject: c.subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: c.from,
		AckPolicy: jetstream.AckNonePolicy, Replicas: 1, MemoryStorage: true, InactiveThreshold: consumerTimeout,
	})
	if err != nil {
		return false, err
	}
	c.pending = c.on.CachedInfo().NumPending
	return c.pending > 0, nil
}

func (c *consumer) close() {
	if c.on != nil {
		drop(c.js, c.stream, c.on)
	}
}

// PullBytes limits one pull request. A server closes the connection of a client that
// does not read what it requested, so this is less than the embedded server buffers for
// a client.
const PullBytes = 8 << 20

// consumerTimeout is how long a consumer lasts without requests if it was not deleted:
// longer than a typical loss of the connection.
const consumerTimeout = 30 * time.Second

// drop deletes a consumer without waiting for the answer. All nodes of a cluster keep
// track of each consumer, and thousands of them slow it down.
func drop(js jetstream.JetStream, stream string, consumer jetstream.Consumer) {
	_ = js.Conn().Publish(jetstream.DefaultAPIPrefix+"CONSUMER.DELETE."+stream+"."+consumer.CachedInfo().Name, nil)
}

// Ordered is a running ordered consumer, in the background. The client recreates it when
// messages are missing; an error that the client cannot handle arrives on Broken.
type Ordered struct {
	Broken    <-chan error // the first error that requires a new consumer
	from      Background
	consumer  jetstream.Consumer
	consuming jetstream.ConsumeContext
	progress  progress
}

// Background describes an ordered consumer.
type Background struct {
	JS      jetstream.JetStream
	Stream  string
	Subject string
	Policy  jetstream.DeliverPolicy
	From    uint64                   // with [jetstream.DeliverByStartSequencePolicy]
	Headers bool                     // without the bodies
	Limit   jetstream.PullConsumeOpt // of the messages in flight
	Stall   time.Duration            // a consumer that delivers nothing for this long has stalled; 0: 10 s
}

// heartbeat is the interval of a consumer's heartbeats. In a cluster a consumer runs on
// one node; if the node fails, another consumer is created after twice this time.
const heartbeat = 2 * time.Second

// Consume calls handle, in one goroutine, for each message of a new ordered consumer,
// until Stop. The server removes the consumer after 30 s without a request.
func (b Background) Consume(ctx context.Context, handle func(jetstream.Msg)) (*Ordered, error) {
	consumer, err := b.JS.OrderedConsumer(ctx, b.Stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{b.Subject}, DeliverPolicy: b.Policy, OptStartSeq: b.From, HeadersOnly: b.Headers,
		InactiveThreshold: consumerTimeout,
	})
	if err != nil {
		return nil, err
	}
	broken := make(chan error, 1)
	failed := func(_ jetstream.ConsumeContext, err error) {
		if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrOrderedConsumerNotCreated) ||
			errors.Is(err, jetstream.ErrOrderedConsumerReset) {
			select {
			case broken <- err:
			default:
			}
		}
	}
	consuming, err := consumer.Consume(
		handle, b.Limit, jetstream.PullHeartbeat(heartbeat), jetstream.ConsumeErrHandler(failed))
	if err != nil {
		drop(b.JS, b.Stream, consumer)
		return nil, err
	}
	return &Ordered{Broken: broken, from: b, consumer: consumer, consuming: consuming}, nil
}

// Check asks the leader whether there is more than what was delivered up to sequence
// seen. Info is that of the stream, requested at the given time. Check returns the
// sequence up to which nothing more will be delivered, at least seen: messages removed
// before they were read count as delivered. The error is [ErrStalled] if more has been
// available for longer than a new consumer needs.
func (o *Ordered) Check(ctx context.Context, info *jetstream.StreamInfo, asked time.Time, seen uint64) (uint64, error) {
	return o.progress.check(ctx, o.from, info, asked, seen)
}

// Stop ends the delivery and removes the consumer. When it returns, no call of handle
// is in progress.
func (o *Ordered) Stop() {
	o.consuming.Stop()
	<-o.consuming.Closed()
	drop(o.from.JS, o.from.Stream, o.consumer)
}
