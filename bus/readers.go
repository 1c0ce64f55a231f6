package bus

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// Limits of the consumers that readers create on EVENTS. At the limit the next one is
// refused; linesman itself has one there for each long read, and needs none. A server needs some milliseconds for
// each when it starts, and more when it stops.
const (
	// MaxReaders is the maximum number of consumers.
	MaxReaders = 500
	// ReaderAge is how long a consumer lasts without a request for messages: longer
	// than a weekend. A restart of the server resets the time.
	ReaderAge = 72 * time.Hour
)

// Readers returns the number of consumers of EVENTS, and the maximum.
func (b *Bus) Readers(ctx context.Context) (have, limit int, err error) {
	stream, err := b.Stream(ctx, b.Names.Events())
	if err != nil {
		return 0, 0, err
	}
	account, err := b.jsPub.AccountInfo(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("account of %s: %w", b.Names.Events(), err)
	}
	limits := []int{stream.CachedInfo().Config.MaxConsumers, account.Limits.MaxConsumers}
	for _, tier := range account.Tiers {
		limits = append(limits, tier.Limits.MaxConsumers)
	}
	for _, n := range limits {
		if n > 0 && (limit == 0 || n < limit) {
			limit = n
		}
	}
	return stream.CachedInfo().State.Consumers, cmp.Or(limit, MaxReaders), nil
}
