package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
)

// NormalizerLease is the key of the lease that decides who of several normalizers
// tries. It is only that: the fences of EVENTS and RUNS keep out one that believes
// it still has it.
const NormalizerLease = "normalizer"

const (
	leaseTTL   = 4 * time.Second
	leaseRenew = time.Second
)

// errLease reports that the lease went to somebody else.
var errLease = errors.New("the lease was lost")

type lease struct {
	state    *bucket.Bucket
	key      string
	holder   string
	revision uint64
}

// takeLease waits until nobody holds the lease of a key, and takes it.
func takeLease(ctx context.Context, b *Bus, key string) (*lease, error) {
	l := &lease{state: bucket.New(b.js, b.State()), key: key, holder: nuid.Next()}
	if err := l.state.Open(ctx); err != nil {
		return nil, err
	}
	for {
		e, err := l.state.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("read the lease: %w", err)
		}
		if len(e.Value) == 0 { // nobody has it, or it was given back
			l.revision = e.Revision
			if err = l.put(ctx, []byte(l.holder)); err == nil {
				return l, nil
			}
			var api *jetstream.APIError
			if !errors.As(err, &api) { // not just somebody quicker
				return nil, fmt.Errorf("take the lease: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(leaseRenew / 2):
		}
	}
}

// AskCloud calls f while nobody else does, with a context that ends when that
// is no longer sure, again and again until ctx ends; then it returns nil.
func (b *Bus) AskCloud(ctx context.Context, f func(context.Context) error) error {
	for {
		err := b.WithLease(ctx, CloudLease, f)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			b.log.Warn("Codex Cloud is not polled", zap.String("why", b.Explain(err)))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(leaseTTL):
		}
	}
}

// WithLease waits for the lease of a key in the state bucket, and calls f, with
// a context that ends when it is no longer sure, while it holds the lease of a key.
func (b *Bus) WithLease(ctx context.Context, key string, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, err := takeLease(ctx, b, key)
	if err != nil {
		return err
	}
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		cancel(l.keep(ctx))
	}()
	defer func() {
		cancel(nil)
		<-kept
		l.drop()
	}()
	err = f(ctx)
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause // the lease was lost
	}
	return err
}

// ClearLease takes the lease from whoever had it: for a server that has just
// been started, whose holder can only be of the time before.
func (b *Bus) ClearLease(ctx context.Context) error {
	if _, err := bucket.New(b.js, b.State()).Put(ctx, NormalizerLease, nil, nil); err != nil {
		return fmt.Errorf("clear the lease: %w", err)
	}
	return nil
}

// keep renews the lease until ctx ends, or it is lost: then it says why.
func (l *lease) keep(ctx context.Context) error {
	good := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(leaseRenew):
		}
		err := l.put(ctx, []byte(l.holder))
		var api *jetstream.APIError
		switch {
		case err == nil:
			good = time.Now()
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &api), time.Since(good) > leaseTTL:
			return fmt.Errorf("%w: %w", errLease, err)
		}
	}
}

// drop gives the lease back, so that the next one need not wait for its end.
func (l *lease) drop() {
	_ = l.put(context.Background(), nil) // it ends by itself
}

// put does not end with ctx: what was sent then may be stored all the same, and
// nobody could give it back without its revision.
func (l *lease) put(ctx context.Context, value []byte) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTTL)
	defer cancel()
	revision, err := l.state.Put(ctx, l.key, value, nil, bucket.If(l.revision), bucket.For(leaseTTL), bucket.Once())
	if err != nil {
		return err
	}
	l.revision = revision
	return nil
}
