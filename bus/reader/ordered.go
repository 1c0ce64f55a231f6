package reader

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Ordered is a running ordered consumer. The client recreates it when messages are
// missing; an error that the client cannot handle arrives on Broken.
type Ordered struct {
	Broken    <-chan error // the first error that requires a new consumer
	consumer  jetstream.Consumer
	consuming jetstream.ConsumeContext
	js        jetstream.JetStream
	stream    string
}

// Consume calls handle, in one goroutine, for each message of a new ordered consumer,
// until Stop. The limits apply to the messages in flight. The server removes the
// consumer after [ConsumerTimeout] without a request.
func Consume(
	ctx context.Context,
	js jetstream.JetStream,
	stream string,
	config jetstream.OrderedConsumerConfig,
	handle func(jetstream.Msg),
	limits ...jetstream.PullConsumeOpt,
) (*Ordered, error) {
	config.InactiveThreshold = ConsumerTimeout
	consumer, err := js.OrderedConsumer(ctx, stream, config)
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
		handle,
		append(limits, jetstream.PullHeartbeat(heartbeat), jetstream.ConsumeErrHandler(failed))...)
	if err != nil {
		Drop(js, stream, consumer)
		return nil, err
	}
	return &Ordered{broken, consumer, consuming, js, stream}, nil
}

// Stop ends the delivery and removes the consumer. When it returns, no call of handle
// is in progress.
func (o *Ordered) Stop() {
	o.consuming.Stop()
	<-o.consuming.Closed()
	Drop(o.js, o.stream, o.consumer)
}
