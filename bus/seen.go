package bus

import (
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
)

// Limits of the bucket of opened runs. Beyond them the oldest keys are dropped. Only runs
// that ended in the last 7 days are looked up there.
const (
	seenAge      = 8 * 24 * time.Hour
	maxSeen      = 100_000
	maxSeenBytes = 32 << 20
)

// SetSeen stores that the owner of a run has opened it. Repeating it is not an error.
func (b *Bus) SetSeen(ctx context.Context, run string) error {
	if _, err := bucket.New(b.js, b.Seen()).Put(ctx, run, nil, nil); err != nil {
		return fmt.Errorf("run %s: mark it as seen: %w", run, err)
	}
	return nil
}

// WatchSeen calls each with every run that is marked as seen, then with every change,
// until ctx ends; then it returns nil. At is when the mark was stored; it is zero for a
// mark that was removed. Known is called once all stored marks were passed to each. At each
// start begin is called, with lost if earlier marks may no longer be stored.
func (b *Bus) WatchSeen(ctx context.Context, begin func(lost bool), each func(run string, at time.Time),
	known func()) error {
	b.await(ctx, zap.NewNop(), b.js, bucket.Stream(b.Seen()), nil) // the log has the run table already
	return bucket.New(b.js, b.Seen()).Watch(ctx, "*", false, b.log, func(e bucket.Entry, last bool) {
		if e.Deleted {
			e.At = time.Time{}
		}
		each(e.Key, e.At)
		if last {
			known()
		}
	}, func(replaced, empty bool) {
		begin(replaced)
		if empty {
			known()
		}
	})
}
