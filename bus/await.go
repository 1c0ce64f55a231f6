package bus

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/reader"
)

// await waits until a stream answers, or ctx ends: until an election is over, or
// a normalizer has made it. Each reason is logged once, and passed to tell,
// which may be nil.
func (b *Bus) await(ctx context.Context, js jetstream.JetStream, stream string, tell func(why string)) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 2*time.Second
	said := ""
	for {
		_, err := reader.Look(ctx, js, stream)
		if err == nil || ctx.Err() != nil {
			return
		}
		text := b.Explain(err)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			text = "it does not exist yet: a normalizer makes it"
		}
		if text != said {
			said = text
			b.log.Warn("waiting for a stream", zap.String("stream", stream), zap.String("why", text))
			if tell != nil {
				tell("stream " + stream + ": " + text)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
	}
}
