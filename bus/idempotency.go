package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
)

// MostRequests bounds the bucket of requests, in bytes. An entry takes about
// half a kilobyte. When it is full new ones are refused: a request that cannot
// be noted is not carried out.
const MostRequests = 128 << 20

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
	stream, err := r.bus.js.Stream(ctx, bucket.Stream(r.bus.Requests()))
	if err != nil {
		return nil, 0, fmt.Errorf("bucket %s: %w", r.bus.Requests(), err)
	}
	m, err := stream.GetLastMsgForSubject(ctx, bucket.Subject(r.bus.Requests(), key))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("bucket %s: read: %w", r.bus.Requests(), err)
	}
	return m.Data, m.Sequence, nil
}

// Put stores an entry for so long, in place of the one of a revision, 0 being
// none, and returns its own. It reports false, and stores nothing, where
// somebody else wrote meanwhile. Without an answer nobody knows what was
// stored; read it.
func (r *Requests) Put(ctx context.Context, key string, value []byte, ttl time.Duration, revision uint64) (uint64, bool, error) {
	m := nats.NewMsg(bucket.Subject(r.bus.Requests(), key))
	m.Data = value
	ack, err := r.bus.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(revision), jetstream.WithMsgTTL(max(ttl, time.Second).Round(time.Second)))
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && api.ErrorCode == wrongLastSequence:
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("bucket %s: write: %w", r.bus.Requests(), err)
	}
	return ack.Sequence, true, nil
}
