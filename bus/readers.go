package bus

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Limits of the consumers that readers create on EVENTS. At the limit the next one is
// refused; linesman itself creates none there. A server needs some milliseconds for
// each when it starts, and more when it stops.
const (
	// MaxReaders is the maximum number of consumers.
	MaxReaders = 500
	// ReaderAge is how long a consumer lasts without a request for messages: longer
	// than a weekend. A restart of the server resets the time.
	ReaderAge = 72 * time.Hour
)

// boundConsumers applies the maximum age to the consumers of a stream. If there are
// more than MaxReaders, it deletes unused ones, starting with those that delivered
// nothing, or least recently.
func boundConsumers(ctx context.Context, s jetstream.Stream, age time.Duration) (deleted int, err error) {
	left := s.CachedInfo().State.Consumers
	if left == 0 {
		return 0, nil
	}
	var all []*jetstream.ConsumerInfo
	consumers := s.ListConsumers(ctx)
	for c := range consumers.Info() {
		all = append(all, c)
	}
	if err := consumers.Err(); err != nil {
		return 0, fmt.Errorf("list them: %w", err)
	}
	used := func(c *jetstream.ConsumerInfo) time.Time {
		if c.Delivered.Last != nil {
			return *c.Delivered.Last
		}
		return c.Created
	}
	slices.SortFunc(all, func(a, b *jetstream.ConsumerInfo) int {
		return cmp.Or(cmp.Compare(min(a.Delivered.Consumer, 1), min(b.Delivered.Consumer, 1)), used(a).Compare(used(b)))
	})
	for _, c := range all {
		config := c.Config
		switch idle := c.NumWaiting == 0 && !c.PushBound; {
		case idle && left > MaxReaders:
			err = s.DeleteConsumer(ctx, c.Name)
			left--
			deleted++
		case config.InactiveThreshold == 0 || config.InactiveThreshold > age:
			config.InactiveThreshold = age
			_, err = s.UpdateConsumer(ctx, config)
		}
		if err != nil {
			return deleted, fmt.Errorf("consumer %s: %w", c.Name, err)
		}
	}
	return deleted, nil
}

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
