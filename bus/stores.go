package bus

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// Stores returns the identities of the streams that know an ended run: RAW and RUNS. An
// identity is the time when the stream was created: it survives restarts, and differs
// between servers, prefixes and accounts. Stores waits until the streams answer.
func (b *Bus) Stores(ctx context.Context) ([]string, error) {
	var ids []string
	for _, name := range []string{b.Raw(), bucket.Stream(b.Runs())} {
		b.await(ctx, b.js, name, nil)
		s, err := reader.Look(ctx, b.js, name)
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, err)
		}
		ids = append(ids, StreamID(s.CachedInfo().Created))
	}
	return ids, nil
}

// StreamID returns the identity of a stream, from the time when it was created.
func StreamID(created time.Time) string { return strconv.FormatInt(created.UnixNano(), 36) }
