package bus

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
)

// Lag is how far each step is behind the one before it, in messages.
type Lag struct {
	Raw    uint64 // entries of RAW that have not become events in a stored cut
	Events uint64 // events behind that cut: RUNS does not tell of them yet
}

// Lag reads how far the normalizer is. While it works some of each is normal:
// it records what it has done about once a second.
func (b *Bus) Lag(ctx context.Context) (l Lag, err error) {
	c, _, err := b.Checkpoint(ctx)
	if err != nil {
		return l, err
	}
	// The streams after the checkpoint: what comes between counts as behind.
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
