package bus

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// WorkerKey is the key of a worker's heartbeats in the state bucket.
func WorkerKey(name string) string { return "worker." + name }

// CloudLease is the key of the lease for asking Codex Cloud.
const CloudLease = "cloud"

// Beat tells, until ctx ends, that a worker lives: say is asked each time.
// Who hears nothing for ttl may take it for gone.
func (b *Bus) Beat(ctx context.Context, ttl time.Duration, say func() runs.Beat) {
	tick := time.NewTicker(min(max(ttl/6, 100*time.Millisecond), 10*time.Second))
	defer tick.Stop()
	good := time.Now()
	for {
		v := say()
		err := b.beat(ctx, v, ttl)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			good = time.Now()
		case time.Since(good) > ttl:
			b.log.Warn("heartbeats of this worker are not stored", zap.String("why", b.Explain(err)))
			good = time.Now()
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
	m := nats.NewMsg(bucket.Subject(b.State(), WorkerKey(v.ID)))
	m.Data = body
	_, err = b.js.PublishMsg(ctx, m, jetstream.WithMsgTTL(max(ttl, time.Second).Round(time.Second)), jetstream.WithRetryAttempts(0))
	return err
}

// WatchBeats calls each with what every worker says, the last words of those
// that are remembered first, until ctx ends; then it returns nil. At is when
// it was said, by the server's clock.
func (b *Bus) WatchBeats(ctx context.Context, each func(beat runs.Beat, at time.Time)) error {
	prefix := bucket.Subject(b.State(), WorkerKey(""))
	w := reader.Watch{JS: b.js, Stream: bucket.Stream(b.State()), Subject: prefix + "*", Log: b.log}
	return w.Run(ctx, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
		var v runs.Beat
		if json.Unmarshal(m.Data(), &v) == nil && v.ID == strings.TrimPrefix(m.Subject(), prefix) {
			each(v, meta.Timestamp)
		}
	}, func(bool, bool) {})
}
