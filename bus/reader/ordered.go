package reader

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// Ordered is an ordered consumer at work. The client recreates it where messages
// are missing; what it cannot mend arrives on Broken.
type Ordered struct {
	Broken    <-chan error // the first error that needs another consumer
	consumer  jetstream.Consumer
	consuming jetstream.ConsumeContext
	js        jetstream.JetStream
	stream    string
}

// Consume calls handle, in one goroutine, for each message that an ordered
// consumer delivers, until Stop. Limits bound what is on its way at a time. A
// server removes the consumer after [Lonely] without a request.
func Consume(ctx context.Context, js jetstream.JetStream, stream string, config jetstream.OrderedConsumerConfig, handle func(jetstream.Msg),
	limits ...jetstream.PullConsumeOpt,
) (*Ordered, error) {
	config.InactiveThreshold = Lonely
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
	consuming, err := consumer.Consume(handle, append(limits, jetstream.PullHeartbeat(Heartbeat), jetstream.ConsumeErrHandler(failed))...)
	if err != nil {
		Drop(js, stream, consumer)
		return nil, err
	}
	return &Ordered{broken, consumer, consuming, js, stream}, nil
}

// Stop ends the delivery and removes the consumer. No call of handle is under
// way once it has returned.
func (o *Ordered) Stop() {
	o.consuming.Stop()
	<-o.consuming.Closed()
	Drop(o.js, o.stream, o.consumer)
}
