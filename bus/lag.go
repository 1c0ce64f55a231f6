package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Lag is the number of messages that each step is behind the previous one.
type Lag struct {
	Raw    uint64 // entries of RAW that are in no stored cut
	Events uint64 // events after that cut: not in RUNS yet
}

// Lag returns the normalizer's lag. Some lag is normal: the checkpoint is stored about
// once a second.
func (b *Bus) Lag(ctx context.Context) (l Lag, err error) {
	c, _, err := b.checkpoint(ctx)
	if err != nil {
		return l, err
	}
	// Read the streams after the checkpoint: what is stored in between counts as lag.
	for _, s := range []struct {
		js   jetstream.JetStream
		name string
		done uint64
		lag  *uint64
	}{{b.js, b.Raw(), max(c.CutRaw, c.Raw), &l.Raw}, {b.jsPub, b.Names.Events(), c.CutEvents, &l.Events}} {
		stream, err := s.js.Stream(ctx, s.name)
		if err != nil {
			return l, fmt.Errorf("stream %s: %w", s.name, err)
		}
		if last := stream.CachedInfo().State.LastSeq; last > s.done {
			*s.lag = last - s.done
		}
	}
	return l, nil
}
