package bus

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/runs"
)

// Unexported parts that the tests of package bus_test use.

var (
	NoRoom          = noSpace
	ReconnectPauses = reconnectPauses
	Unauthorized    = unauthorized
)

const (
	Deliverer       = deliverer
	MaxRequestBytes = maxRequestBytes
)

type (
	Notice = notice
	Answer = answer
)

func (b *Bus) HeartbeatOnce(ctx context.Context, v runs.Heartbeat, ttl time.Duration) error {
	return b.beat(ctx, v, ttl)
}

func (b *Bus) ForgetEach(ctx context.Context, run string, each func(step string) error) (runs.Forgotten, error) {
	return b.forget(ctx, run, each)
}

// Ask is Call without the flag of errors.
func (b *Bus) Ask(ctx context.Context, tool string, args []byte) (body []byte, err error) {
	a, err := b.Call(ctx, tool, args)
	return a.Body, err
}

// HoldBy is Hold with the times at which the request is renewed.
func (b *Bus) HoldBy(ctx context.Context, name string, progress func([]byte), renew <-chan time.Time) (Answer, error) {
	return b.call(ctx, name, nil, progress, renew)
}

// Reconnected simulates that the connection was lost and restored.
func (b *Bus) Reconnected() { b.since.Store(time.Now().UnixNano()) }

// Publish stores an entry without updating the log's state, as if the answer was lost.
func (l *RawLog) Publish(ctx context.Context, e runs.Entry) (*jetstream.PubAck, error) {
	return l.publish(ctx, e)
}

// Remembered returns what a run's record says about a log that has expired.
func (b *Bus) Remembered(ctx context.Context, run string) (runs.Mark, error) {
	return b.remembered(ctx, run)
}

// ReplacePublic replaces the JetStream context of the account of EVENTS.
func (b *Bus) ReplacePublic(js jetstream.JetStream) { b.jsPub = js }

// BurstMsg returns the message of an entry of a burst that is sent now.
func (l *RawLog) BurstMsg(entries []runs.Entry, i int, inbox string) *nats.Msg {
	return l.burstMsg(entries, i, entries[i], inbox)
}

// Patience returns how many entries must directly follow each other before the next burst.
func (l *RawLog) Patience() int { return l.patience }

// SetPatience sets it, as bursts that failed do.
func (l *RawLog) SetPatience(n int) { l.patience, l.window = n, -n }

// Kept returns the numbers in the slots of a run.
func Kept(newest uint64) []uint64 { return kept(newest) }
