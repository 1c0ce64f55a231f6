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

// await waits until a stream answers, or ctx ends: for the end of an election, or for a
// normalizer to create the stream. It logs each reason once, and passes it to notify,
// which may be nil.
func (b *Bus) await(ctx context.Context, js jetstream.JetStream, stream string, notify func(why string)) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 100*time.Millisecond, 2*time.Second
	lastLog := ""
	for {
		_, err := reader.Look(ctx, js, stream)
		if err == nil || ctx.Err() != nil {
			return
		}
		text := b.Explain(err)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			text = "it does not exist yet: a normalizer makes it"
		}
		if text != lastLog {
			lastLog = text
			b.log.Warn("waiting for a stream", zap.String("stream", stream), zap.String("why", text))
			if notify != nil {
				notify("stream " + stream + ": " + text)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause.NextBackOff()):
		}
	}
}
