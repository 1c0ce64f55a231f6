package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// Health reports why linesman cannot accept and store data, or nil: it checks that the
// streams exist and are not full, that a write is acknowledged, and that a normalizer
// is running and not far behind.
func (b *Bus) Health(ctx context.Context) error {
	_, err := b.HealthAs(ctx, func(string) bool { return true })
	return err
}

// HealthAs is Health within the permissions of a user: permitted reports whether it may
// publish to a subject. Unchecked lists the checks that were skipped.
func (b *Bus) HealthAs(ctx context.Context, permitted func(subject string) bool) (unchecked []string, err error) {
	may := func(what, subject string) bool {
		ok := permitted(subject)
		if !ok {
			unchecked = append(unchecked, what)
		}
		return ok
	}
	var problems []error
	var raw jetstream.StreamInfo
	for _, name := range []string{b.Raw(), b.Names.Events(), bucket.Stream(b.Runs()), bucket.Stream(b.State())} {
		if !may("stream "+name, "$JS.API.STREAM.INFO."+name) {
			continue
		}
		stream, err := b.Stream(ctx, name)
		if err != nil {
			problems = append(problems, b.plainly(err))
			continue
		}
		if name != b.Raw() {
			continue
		}
		raw = *stream.CachedInfo()
		if size := raw.Config.MaxBytes; size > 0 && raw.State.Bytes > uint64(size)/20*19 {
			problems = append(problems,
				fmt.Errorf("stream %s is full: %d of %d bytes; increase its size", name, raw.State.Bytes, size))
		}
	}
	if problems != nil {
		return unchecked, errors.Join(problems...)
	}
	if may("that a write is acknowledged", bucket.Subject(b.State(), HealthKey)) {
		if err := b.probe(ctx); err != nil {
			return unchecked, b.plainly(err)
		}
	}
	if may("the normalizer", "$JS.API.STREAM.MSG.GET."+bucket.Stream(b.State())) {
		return unchecked, b.plainly(b.normalizerHealth(ctx, raw.State.LastSeq))
	}
	return unchecked, nil
}

// Reachable returns why a stream gives no answer, nil if it does.
func (b *Bus) Reachable(ctx context.Context, stream string) error {
	_, err := b.Stream(ctx, stream)
	return b.plainly(err)
}

// HealthKey is the key that a health check writes.
const HealthKey = "health"

// Storable returns why the bucket of the heartbeats takes no writes at present, nil if it does, or if this user may not
// try.
func (b *Bus) Storable(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	err := b.unlessDenied(ctx, bucket.Subject(b.State(), HealthKey), func() bool { return true }, b.probe)
	if errors.Is(err, ErrDenied) {
		return nil
	}
	return err
}

// probe writes a key.
func (b *Bus) probe(ctx context.Context) error {
	want := time.Now().UTC().Format(time.RFC3339Nano)
	subject := bucket.Subject(b.State(), HealthKey)
	ack, err := b.js.Publish(ctx, subject, []byte(want))
	if err != nil {
		return fmt.Errorf("nothing can be stored: %w", err)
	}
	if ack.Stream != bucket.Stream(b.State()) {
		return fmt.Errorf("a write was stored in the wrong stream, %s", ack.Stream)
	}
	return nil
}

// normalizerHealth waits until the normalizer's checkpoint has reached seq, or advanced
// at all.
func (b *Bus) normalizerHealth(ctx context.Context, seq uint64) error {
	state := bucket.New(b.js, b.State())
	if lease, err := state.Get(ctx, NormalizerLease); err != nil {
		return fmt.Errorf("read the lease: %w", err)
	} else if len(lease.Value) == 0 {
		return errors.New("no normalizer is at work")
	}
	started := time.Now()
	var first Checkpoint
	for {
		last, _, err := readCheckpoint(ctx, state)
		if err != nil {
			return err
		}
		if first == (Checkpoint{}) {
			first = last
		}
		// CutRaw, not Raw: an unfinished line may hold Raw back without a limit.
		if max(last.CutRaw, last.Raw) >= seq || last != first {
			return nil
		}
		if time.Since(started) > 3*time.Second {
			return fmt.Errorf("the normalizer is stalled at %d of %d", last.CutRaw, seq)
		}
		if err := reader.Sleep(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("the normalizer is behind: %w", err)
		}
	}
}

// ErrManyConnections reports that the server rejected a login because its account
// has the maximum number of connections.
var ErrManyConnections = nats.ErrMaxAccountConnectionsExceeded

// TooLarge says why a message of n bytes does not fit, "" if it does.
func (b *Bus) TooLarge(n int) string {
	const headers = 4 << 10
	most := b.inside.MaxPayload()
	if int64(n) <= most-headers {
		return ""
	}
	return fmt.Sprintf("its message has %d bytes, and max_payload of the NATS server is %d: set it to %d there", n, most,
		MaxPayload)
}

// Server returns what the server of the inside account said of itself when it was last
// connected: its URL, without a password, its version, and the maximum size of a message
// in bytes.
func (b *Bus) Server() (url, version string, maxPayload int64) {
	return b.inside.ConnectedUrlRedacted(), b.inside.ConnectedServerVersion(), b.inside.MaxPayload()
}
