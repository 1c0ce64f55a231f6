package bus

import (
	"context"
	"fmt"
	"time"

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
	e, err := r.bus.get(ctx, r.bus.Requests(), key)
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
	ok, err := r.bus.wrote(r.bus.Requests(), err)
	return own, ok, err
}

// get reads the entry of a key of a bucket.
func (b *Bus) get(ctx context.Context, of, key string) (bucket.Entry, error) {
	e, err := bucket.New(b.js, of).Get(ctx, key)
	if err != nil {
		err = fmt.Errorf("bucket %s: read: %w", of, err)
	}
	return e, err
}

// wrote returns whether a conditional write to a bucket was not refused, given its error.
func (b *Bus) wrote(to string, err error) (bool, error) {
	if err == nil || bucket.Moved(err) {
		return err == nil, nil
	}
	return false, fmt.Errorf("bucket %s: write: %w", to, err)
}
