package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// Health reports what keeps linesman from taking and storing, nil for
// nothing: the streams are there and have room, a write is acknowledged, a
// normalizer is at work, and what it has not read yet is not old.
func (b *Bus) Health(ctx context.Context) error {
	_, err := b.HealthAs(ctx, OperatorUser)
	return err
}

// HealthAs is Health as far as one of the users of [Accounts] may look; unchecked
// is the rest.
func (b *Bus) HealthAs(ctx context.Context, user string) (unchecked []string, err error) {
	may := func(what, subject string) bool {
		ok := permitted(b.Names, user, subject)
		if !ok {
			unchecked = append(unchecked, what)
		}
		return ok
	}
	var problems []error
	var raw jetstream.StreamInfo
	for _, s := range []struct {
		js   jetstream.JetStream
		name string
	}{{b.js, b.Raw()}, {b.jsPub, b.Names.Events()}, {b.js, bucketStream(b.Runs())}, {b.js, bucketStream(b.State())}} {
		if !may("stream "+s.name, "$JS.API.STREAM.INFO."+s.name) {
			continue
		}
		stream, err := s.js.Stream(ctx, s.name)
		if err != nil {
			problems = append(problems, b.plainly(fmt.Errorf("stream %s: %w", s.name, err)))
			continue
		}
		info := stream.CachedInfo()
		if s.name == b.Raw() {
			raw = *info
			if info.Config.MaxBytes > 0 && info.State.Bytes > uint64(info.Config.MaxBytes)/20*19 {
				problems = append(problems, fmt.Errorf("stream %s is full: %d of %d bytes; give it more room", s.name, info.State.Bytes, info.Config.MaxBytes))
			}
		}
	}
	if problems != nil {
		return unchecked, errors.Join(problems...)
	}
	if may("that a write is acknowledged", bucketSubject(b.State(), healthKey)) {
		if err := b.probe(ctx); err != nil {
			return unchecked, b.plainly(err)
		}
	}
	if may("the normalizer", "$JS.API.STREAM.MSG.GET."+bucketStream(b.State())) {
		return unchecked, b.plainly(b.normalizerHealth(ctx, raw.State.LastSeq))
	}
	return unchecked, nil
}

// permitted reports whether a user, or its other self in the account of the
// events, may publish a subject.
func permitted(n Names, user, subject string) bool {
	for _, g := range grants(n) {
		if g.user == user || g.user == user+publicSuffix {
			for _, pattern := range g.publish {
				if server.SubjectMatchesFilter(subject, pattern) {
					return true
				}
			}
		}
	}
	return false
}

const healthKey = "health"

// probe writes and reads a key.
func (b *Bus) probe(ctx context.Context) error {
	want := time.Now().UTC().Format(time.RFC3339Nano)
	subject := bucketSubject(b.State(), healthKey)
	ack, err := b.js.Publish(ctx, subject, []byte(want))
	if err != nil {
		return fmt.Errorf("nothing can be stored: %w", err)
	}
	if ack.Stream != bucketStream(b.State()) {
		return fmt.Errorf("what is stored goes to the wrong stream, %s", ack.Stream)
	}
	return nil
}

// normalizerHealth waits until the normalizer's checkpoint has reached seq,
// as long as it moves or ctx lasts.
func (b *Bus) normalizerHealth(ctx context.Context, seq uint64) error {
	state, err := b.js.Stream(ctx, bucketStream(b.State()))
	if err != nil {
		return fmt.Errorf("bucket %s: %w", b.State(), err)
	}
	if m, err := state.GetLastMsgForSubject(ctx, bucketSubject(b.State(), leaseKey)); errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && len(m.Data) == 0 {
		return errors.New("no normalizer is at work")
	} else if err != nil {
		return fmt.Errorf("read the lease: %w", err)
	}
	started := time.Now()
	var first, last checkpoint
	for {
		m, err := state.GetLastMsgForSubject(ctx, bucketSubject(b.State(), checkpointKey))
		switch {
		case err == nil:
			if err := json.Unmarshal(m.Data, &last); err != nil {
				return errors.New("the checkpoint is not of the known form")
			}
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return fmt.Errorf("read the checkpoint: %w", err)
		}
		if first == (checkpoint{}) {
			first = last
		}
		// CutRaw, not Raw: an unfinished line may hold Raw back for as long as it likes.
		if max(last.CutRaw, last.Raw) >= seq || last != first {
			return nil
		}
		if time.Since(started) > 3*time.Second {
			return fmt.Errorf("the normalizer stands still at %d of %d", last.CutRaw, seq)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the normalizer is behind: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
