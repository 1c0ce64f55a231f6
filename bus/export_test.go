package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/runs"
)

// What the tests of package bus_test see of this one.

var (
	NoRoom          = noRoom
	ReconnectPauses = reconnectPauses
	Unauthorized    = unauthorized
)

const Deliverer = deliverer

type Notice = notice

func (b *Bus) BeatOnce(ctx context.Context, v runs.Beat, ttl time.Duration) error {
	return b.beat(ctx, v, ttl)
}

func (b *Bus) ForgetEach(ctx context.Context, run string, each func(step string) error) (runs.Forgotten, error) {
	return b.forget(ctx, run, each)
}

// Reconnected is what happens to a bus whose connection was lost and is back.
func (b *Bus) Reconnected() { b.since.Store(time.Now().UnixNano()) }

// Publish stores an entry whose answer the log does not see.
func (l *RawLog) Publish(ctx context.Context, e runs.Entry) (*jetstream.PubAck, error) {
	return l.publish(ctx, e)
}

// Remembered is what a run's record tells of a log that has aged out.
func (b *Bus) Remembered(ctx context.Context, run string) (runs.Mark, error) {
	return b.remembered(ctx, run)
}

// ReplacePublic gives the bus another JetStream in the account of EVENTS.
func (b *Bus) ReplacePublic(js jetstream.JetStream) { b.jsPub = js }
