package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
)

// MaxRequestBytes bounds the bucket of requests, in bytes. An entry takes about
// half a kilobyte. When it is full new ones are refused: a request that cannot
// be noted is not carried out.
const MaxRequestBytes = 128 << 20

// Requests is the bucket of requests with an idempotency key, one entry a key.
// Each write names the revision that it replaces, so of several that were made
// from one entry the first wins. An entry goes when its time is over.
type Requests struct {
	bus *Bus
}

// RequestStore is the bucket as one of a bus's users sees it.
func (b *Bus) RequestStore() *Requests { return &Requests{b} }

// Get reads an entry and its revision. A key without an entry has revision 0.
func (r *Requests) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	e, err := get(ctx, r.bus.js, r.bus.Requests(), key)
	return e.Value, e.Revision, err
}

// Put stores an entry for so long. It replaces the one of a revision, 0 being
// none, and returns its own. It reports false, and stores nothing, where
// somebody else wrote meanwhile. Without an answer nobody knows what was
// stored; read it.
func (r *Requests) Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64, bool, error) {
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
