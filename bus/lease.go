package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"encoding/json"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// NormalizerLease is the key of the lease that selects the working normalizer.
// Correctness does not depend on it: the fences of EVENTS and RUNS refuse a former
// holder.
const NormalizerLease = "normalizer"

const (
	leaseTTL   = 4 * time.Second
	leaseRenew = time.Second
)

// errLease reports that the lease was lost to another holder.
var errLease = errors.New("the lease was lost")

type lease struct {
	state    *bucket.Bucket
	key      string
	holder   string
	revision uint64
}

// takeLease waits until the lease of a key is free, and takes it. It calls standby, which may
// be nil, once if another holder has it.
func takeLease(ctx context.Context, b *Bus, key string, standby func()) (*lease, error) {
	l := &lease{state: bucket.New(b.js, b.State()), key: key, holder: nuid.Next()}
	for {
		e, err := l.state.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("read the lease: %w", err)
		}
		if len(e.Value) == 0 { // free, or released
			l.revision = e.Revision
			if err = l.put(ctx, []byte(l.holder)); err == nil {
				return l, nil
			}
			if !bucket.Moved(err) { // not because another holder was first
				return nil, fmt.Errorf("take the lease: %w", err)
			}
		} else if standby != nil {
			standby()
			standby = nil
		}
		if err := reader.Sleep(ctx, leaseRenew/2); err != nil {
			return nil, err
		}
	}
}

// AskCloud calls f while it holds the lease for Codex Cloud, like [Push.Lead].
func (b *Bus) AskCloud(ctx context.Context, f func(context.Context) error) error {
	return b.lead(ctx, CloudLease, "Codex Cloud is not polled", "Codex Cloud is polled again", f)
}

// lead calls f while it holds a lease, repeatedly, until ctx ends; then it returns nil.
// The context of f ends when the lease is lost. It logs errors as failure, each once, and their
// end as again.
func (b *Bus) lead(ctx context.Context, key, failure, again string, f func(context.Context) error) error {
	out := reader.Outage{Log: b.log, Began: failure, Ended: again}
	for {
		err := b.Lead(ctx, key, out.Over, func(ctx context.Context) error {
			out.Over()
			return f(ctx)
		})
		if err != nil && ctx.Err() == nil && b.Connected() { // else that is logged
			out.Failed(b.Explain(err))
		}
		if reader.Sleep(ctx, leaseTTL) != nil {
			return nil
		}
	}
}

// Lead waits for the lease of a key in the state bucket, and calls f while it holds the
// lease. The context of f ends when the lease is lost. It calls standby, which may be nil, once if
// another holder has it.
func (b *Bus) Lead(ctx context.Context, key string, standby func(), f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l, err := takeLease(ctx, b, key, standby)
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
		l.release()
	}()
	err = f(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errLease) && (err == nil || errors.Is(err, context.Canceled)) {
		return cause
	}
	return err
}

// LeaseHeld reports whether anyone holds the lease of a key.
func (b *Bus) LeaseHeld(ctx context.Context, key string) (bool, error) {
	e, err := bucket.New(b.js, b.State()).Get(ctx, key)
	if err != nil {
		return false, fmt.Errorf("read the lease: %w", b.plainly(err))
	}
	return len(e.Value) > 0, nil
}

// ClearLease removes the normalizer's lease: on a server that was just started, its
// holder is a process of the past.
func (b *Bus) ClearLease(ctx context.Context) error {
	if _, err := bucket.New(b.js, b.State()).Put(ctx, NormalizerLease, nil, nil); err != nil {
		return fmt.Errorf("clear the lease: %w", err)
	}
	return nil
}

// keep renews the lease until ctx ends, or the lease is lost: then it returns the
// reason.
func (l *lease) keep(ctx context.Context) error {
	renewed := time.Now()
	for {
		if reader.Sleep(ctx, leaseRenew) != nil {
			return nil
		}
		err := l.put(ctx, []byte(l.holder))
		var api *jetstream.APIError
		switch {
		case err == nil:
			renewed = time.Now()
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &api), time.Since(renewed) > leaseTTL:
			return fmt.Errorf("%w: %w", errLease, err)
		}
	}
}

// release frees the lease, so that the next holder need not wait until it expires.
func (l *lease) release() {
	_ = l.put(context.Background(), nil) // otherwise it expires
}

// put ignores the cancellation of ctx: a write that was sent may be stored, and without
// its revision the lease could not be released.
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

// WorkerKey is the key of a worker's heartbeats in the state bucket.
func WorkerKey(name string) string { return "worker." + name }

// CloudLease is the key of the lease for polling Codex Cloud.
const CloudLease = "cloud"

// SendHeartbeats sends a worker's heartbeats until ctx ends; current returns the content of each.
// A worker whose heartbeats are missing for ttl may be considered lost.
func (b *Bus) SendHeartbeats(ctx context.Context, ttl time.Duration, current func() runs.Heartbeat) {
	every := min(max(ttl/6, 100*time.Millisecond), 10*time.Second)
	lastStored := time.Now()
	out := reader.Outage{
		Log: b.log, Began: "heartbeats of this worker are not stored", Ended: "heartbeats of this worker are stored again",
	}
	for {
		pause := every
		err := b.beat(ctx, current(), ttl)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			lastStored = time.Now()
			out.Over()
		default:
			pause = min(every, time.Second)
			if time.Since(lastStored) > ttl {
				out.Failed(b.Explain(err))
			}
		}
		if reader.Sleep(ctx, pause) != nil {
			return
		}
	}
}

const beatTimeout = 2 * time.Second

func (b *Bus) beat(ctx context.Context, v runs.Heartbeat, ttl time.Duration) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	_, err = bucket.New(b.js, b.State()).Put(ctx, WorkerKey(v.ID), body, nil, bucket.For(ttl), bucket.Once())
	return err
}

// WatchHeartbeats calls each with every worker's heartbeats, the latest stored ones first,
// until ctx ends; then it returns nil. At is the time of the heartbeat, by the server's
// clock.
func (b *Bus) WatchHeartbeats(ctx context.Context, each func(beat runs.Heartbeat, at time.Time)) error {
	return bucket.New(b.js, b.State()).Watch(ctx, WorkerKey("*"), false, b.log, func(e bucket.Entry, _ bool) {
		var v runs.Heartbeat
		if json.Unmarshal(e.Value, &v) == nil && e.Key == WorkerKey(v.ID) {
			each(v, e.At)
		}
	}, nil)
}
