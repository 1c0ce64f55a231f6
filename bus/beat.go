package bus

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
)

// WorkerKey is the key of a worker's heartbeats in the state bucket.
func WorkerKey(name string) string { return "worker." + name }

// CloudLease is the key of the lease for polling Codex Cloud.
const CloudLease = "cloud"

// Beat sends a worker's heartbeats until ctx ends; current returns the content of each.
// A worker whose heartbeats are missing for ttl may be considered lost.
func (b *Bus) Beat(ctx context.Context, ttl time.Duration, current func() runs.Beat) {
	tick := time.NewTicker(min(max(ttl/6, 100*time.Millisecond), 10*time.Second))
	defer tick.Stop()
	lastStored := time.Now()
	for {
		v := current()
		err := b.beat(ctx, v, ttl)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			lastStored = time.Now()
		case time.Since(lastStored) > ttl:
			b.log.Warn("heartbeats of this worker are not stored", zap.String("why", b.Explain(err)))
			lastStored = time.Now()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *Bus) beat(ctx context.Context, v runs.Beat, ttl time.Duration) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = bucket.New(b.js, b.State()).Put(ctx, WorkerKey(v.ID), body, nil, bucket.For(ttl), bucket.Once())
	return err
}

// WatchBeats calls each with every worker's heartbeats, the latest stored ones first,
// until ctx ends; then it returns nil. At is the time of the heartbeat, by the server's
// clock.
func (b *Bus) WatchBeats(ctx context.Context, each func(beat runs.Beat, at time.Time)) error {
	workers := bucket.Watch{Keys: WorkerKey("*"), Log: b.log}
	return bucket.New(b.js, b.State()).Watch(ctx, workers, func(e bucket.Entry, _ bool) {
		var v runs.Beat
		if json.Unmarshal(e.Value, &v) == nil && e.Key == WorkerKey(v.ID) {
			each(v, e.At)
		}
	}, nil)
}
