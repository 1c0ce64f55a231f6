package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
)

// MaxRequestBytes is the maximum size of the bucket of requests. An entry takes about
// half a kilobyte. A full bucket refuses new entries, and the requests are refused,
// too.
const MaxRequestBytes = 128 << 20

// Requests is the bucket of requests with an idempotency key, one entry per key. Each
// write names the revision that it replaces, so of several concurrent writes the first
// wins. Entries expire.
type Requests struct {
	bus *Bus
}

// RequestStore returns the bucket of requests.
func (b *Bus) RequestStore() *Requests { return &Requests{b} }

// Get reads an entry and its revision. A key without an entry has revision 0.
func (r *Requests) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	e, err := get(ctx, r.bus.js, r.bus.Requests(), key)
	return e.Value, e.Revision, err
}

// Put stores an entry for a time. It replaces the one with the given revision, 0 being
// none, and returns its own. If the entry has another revision, it returns false and
// stores nothing. After an error the entry may have been stored: read it.
func (r *Requests) Put(
	ctx context.Context,
	key string,
	value []byte,
	ttl time.Duration,
	revision uint64,
) (uint64, bool, error) {
	own, err := bucket.New(r.bus.js, r.bus.Requests()).Put(ctx, key, value, nil, bucket.If(revision), bucket.For(ttl))
	switch {
	case bucket.Moved(err):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("bucket %s: write: %w", r.bus.Requests(), err)
	}
	return own, true, nil
}

// get reads the entry of a key.
func get(ctx context.Context, js jetstream.JetStream, name, key string) (bucket.Entry, error) {
	b := bucket.New(js, name)
	if err := b.Open(ctx); err != nil {
		return bucket.Entry{}, err
	}
	e, err := b.Get(ctx, key)
	if err != nil {
		err = fmt.Errorf("bucket %s: read: %w", name, err)
	}
	return e, err
}
