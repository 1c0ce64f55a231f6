package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// WatchRuns calls each with the row of every run's record, in the order in
// which they were stored, and then with what changes, until ctx ends: then it
// returns nil. It reads no record. After a loss of the connection it may tell
// again what was told; where the run table was made anew it says so first.
func (b *Bus) WatchRuns(ctx context.Context, each func(runs.Change)) error {
	prefix := bucketSubject(b.Runs(), "")
	if _, err := b.js.Stream(ctx, bucketStream(b.Runs())); err != nil {
		return fmt.Errorf("bucket %s: %w", b.Runs(), err)
	}
	var known time.Time
	return b.follow(ctx, b.js, bucketStream(b.Runs()), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{prefix + ">"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
		c := runs.Change{Revision: meta.Sequence.Stream, Last: meta.NumPending == 0}
		var err error
		if m.Headers().Get(headerOperation) != "" {
			c.Row.ID, c.Removed = m.Subject()[len(prefix):], true
		} else if c.Row, err = runs.ParseRow(m.Headers().Get(HeaderRow)); err != nil {
			b.log.Warn("a run record without a row", zap.Uint64("sequence", c.Revision))
			c = runs.Change{Revision: c.Revision, Last: c.Last}
		}
		each(c)
	}, func(created time.Time, empty bool) {
		c := runs.Change{Anew: !known.IsZero() && !created.Equal(known), Last: empty}
		known = created
		each(c)
	})
}

// headerOperation marks a key of a bucket that was removed.
const headerOperation = "KV-Operation"

// FirstRun is the first sequence that RUNS still holds: records before it
// have aged out.
func (b *Bus) FirstRun(ctx context.Context) (uint64, error) {
	stream, err := b.js.Stream(ctx, bucketStream(b.Runs()))
	if err != nil {
		return 0, fmt.Errorf("bucket %s: %w", b.Runs(), err)
	}
	return stream.CachedInfo().State.FirstSeq, nil
}

// RemoveRun removes the record of a run that has ended, if it is still that
// of the given revision. Its events stay.
func (b *Bus) RemoveRun(ctx context.Context, run string, revision uint64) error {
	m := nats.NewMsg(bucketSubject(b.Runs(), run))
	m.Header.Set(headerOperation, "DEL")
	m.Header.Set(headerLastSubject, strconv.FormatUint(revision, 10))
	if _, err := b.js.PublishMsg(ctx, m); err != nil {
		return fmt.Errorf("run %s: remove its record: %w", run, err)
	}
	return nil
}

// follow calls each with the messages of an ordered consumer until ctx ends:
// then it returns nil. Where the consumer breaks it is made again.
func (b *Bus) follow(ctx context.Context, js jetstream.JetStream, stream string, config jetstream.OrderedConsumerConfig,
	each func(jetstream.Msg, *jetstream.MsgMetadata), begin func(created time.Time, empty bool),
) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		began := time.Now()
		err := b.followOnce(ctx, js, stream, config, each, begin)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > time.Minute {
			pause.Reset()
		}
		b.log.Warn("read again from the beginning", zap.String("stream", stream), zap.String("why", why(err)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
	}
}

func (b *Bus) followOnce(ctx context.Context, js jetstream.JetStream, stream string, config jetstream.OrderedConsumerConfig,
	each func(jetstream.Msg, *jetstream.MsgMetadata), begin func(created time.Time, empty bool),
) error {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return err
	}
	created := s.CachedInfo().Created
	begin(created, s.CachedInfo().State.Msgs == 0)
	consumer, err := js.OrderedConsumer(ctx, stream, config)
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		if meta, err := m.Metadata(); err == nil {
			each(m, meta)
		}
	}, jetstream.PullMaxMessages(1024), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrOrderedConsumerNotCreated) || errors.Is(err, jetstream.ErrOrderedConsumerReset) {
			select {
			case broken <- err:
			default:
			}
		}
	}))
	if err != nil {
		return err
	}
	defer func() {
		consuming.Stop()
		<-consuming.Closed()
	}()
	// A consumer of a stream that was made anew may stand beyond its end, and
	// bring nothing, without an error.
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-broken:
			return err
		case <-tick.C:
		}
		s, err := js.Stream(ctx, stream)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound), err == nil && !s.CachedInfo().Created.Equal(created):
			return errOtherStream
		}
	}
}
