package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
)

// maxRequestBytes is the maximum size of the bucket of requests. An entry takes about
// half a kilobyte. A full bucket refuses new entries, and the requests are refused,
// too.
const maxRequestBytes = 128 << 20

// maxAccessBytes is the maximum size of the bucket of access. It has three entries, and
// each of them is smaller than the payload of a message, 1 MB unless configured.
const maxAccessBytes = 8 << 20

// Values is a bucket whose entries several processes change. Each write names the
// revision that it replaces, so of several concurrent writes the first wins.
type Values struct {
	bus  *Bus
	name string
}

// RequestStore returns the bucket of requests with an idempotency key, one entry per key.
// Entries expire.
func (b *Bus) RequestStore() *Values { return &Values{b, b.Requests()} }

// AccessStore returns the bucket of what the responders share about callers over HTTP.
func (b *Bus) AccessStore() *Values { return &Values{b, b.Access()} }

// Get reads an entry and its revision. A key without an entry has revision 0.
func (v *Values) Get(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	e, err := v.bus.get(ctx, v.name, key)
	return e.Value, e.Revision, err
}

// Put stores an entry for a time, 0: until it is replaced. It replaces the one with the
// given revision, 0 being none, and returns its own. If the entry has another revision,
// it returns false and stores nothing. After an error the entry may have been stored:
// read it.
func (v *Values) Put(ctx context.Context, key string, value []byte, ttl time.Duration,
	revision uint64) (uint64, bool, error) {
	options := []jetstream.PublishOpt{bucket.If(revision)}
	if ttl > 0 {
		options = append(options, bucket.For(ttl))
	}
	own, err := bucket.New(v.bus.js, v.name).Put(ctx, key, value, nil, options...)
	ok, err := v.bus.wrote(v.name, err)
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
