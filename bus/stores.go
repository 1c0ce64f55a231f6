package bus

import (
	"context"
	"fmt"
)

// Stores returns the identities of the streams that know an ended run: RAW, and
// RUNS behind it. An identity is the time when the stream was created, so it
// survives restarts, and a stream of another server, prefix or account has
// another one. Stores waits until the streams answer.
func (b *Bus) Stores(ctx context.Context) ([]string, error) {
	var ids []string
	for _, name := range []string{b.Raw(), bucketStream(b.Runs())} {
		b.await(ctx, b.js, name, nil)
		s, err := look(ctx, b.js, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
		ids = append(ids, streamID(s.CachedInfo().Created))
	}
	return ids, nil
}
