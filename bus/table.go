package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
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
// again what was told; where the run table was made anew it says so first. One that
// does not exist yet is waited for, and each is called with the reason.
func (b *Bus) WatchRuns(ctx context.Context, each func(runs.Change)) error {
	prefix := bucketSubject(b.Runs(), "")
	b.await(ctx, b.js, bucketStream(b.Runs()), func(why string) { each(runs.Change{Waits: why}) })
	return b.follow(ctx, b.js, bucketStream(b.Runs()), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{prefix + ">"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: true,
	}, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
		c := runs.Change{Revision: meta.Sequence.Stream, Last: meta.NumPending == 0}
		var err error
		if m.Headers().Get(headerOperation) != "" {
			c.Row.ID, c.Removed = m.Subject()[len(prefix):], true
		} else if c.Row, err = b.row(ctx, m, m.Subject()[len(prefix):]); err != nil {
			b.log.Warn("a run record without a row", zap.Uint64("sequence", c.Revision))
			c = runs.Change{Revision: c.Revision, Last: c.Last}
		}
		each(c)
	}, func(anew, empty bool) { each(runs.Change{Anew: anew, Last: empty}) })
}

// row is the row of a run record. One of the first builds has none beside it:
// then it is made from the record.
func (b *Bus) row(ctx context.Context, m jetstream.Msg, run string) (runs.Row, error) {
	if text := m.Headers().Get(HeaderRow); text != "" {
		return runs.ParseRow(text)
	}
	record, ok, err := b.Record(ctx, run)
	if err != nil || !ok {
		return runs.Row{}, errors.Join(err, runs.ErrNoRun)
	}
	return record.Row(), nil
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
// of the given revision; else the error is [runs.ErrMoved]. Its events stay.
func (b *Bus) RemoveRun(ctx context.Context, run string, revision uint64) error {
	m := nats.NewMsg(bucketSubject(b.Runs(), run))
	m.Header.Set(headerOperation, "DEL")
	m.Header.Set(headerLastSubject, strconv.FormatUint(revision, 10))
	_, err := b.js.PublishMsg(ctx, m)
	var api *jetstream.APIError
	if errors.As(err, &api) && api.ErrorCode == wrongLastSequence {
		err = runs.ErrMoved
	}
	if err != nil {
		return fmt.Errorf("run %s: remove its record: %w", run, err)
	}
	return nil
}

// follow calls each with the messages of an ordered consumer until ctx ends:
// then it returns nil. Where the consumer breaks it is made again; begin is
// told before whether the stream was made anew, or lost its end, and whether
// there is nothing in it.
func (b *Bus) follow(ctx context.Context, js jetstream.JetStream, stream string, config jetstream.OrderedConsumerConfig,
	each func(jetstream.Msg, *jetstream.MsgMetadata), begin func(anew, empty bool),
) error {
	f := &follower{bus: b, js: js, stream: stream, config: config, each: each, begin: begin}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		began := time.Now()
		err := f.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > time.Minute {
			pause.Reset()
		}
		b.log.Warn("read again from the beginning", zap.String("stream", stream), zap.String("why", b.why(err)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// follower follows one stream.
type follower struct {
	bus    *Bus
	js     jetstream.JetStream
	stream string
	config jetstream.OrderedConsumerConfig
	each   func(jetstream.Msg, *jetstream.MsgMetadata)
	begin  func(anew, empty bool)

	created time.Time     // of the stream
	seen    atomic.Uint64 // the newest sequence that came
}

// other reports whether the stream is not the one that was followed, or has
// lost its end: a consumer may stand beyond that, and bring nothing, without
// an error. Seen is what had come before info was asked for: more may have
// since.
func (f *follower) other(info *jetstream.StreamInfo, seen uint64) bool {
	return !info.Created.Equal(f.created) || info.State.LastSeq < seen && followed(info) == nil
}

func (f *follower) once(ctx context.Context) error {
	s, err := f.js.Stream(ctx, f.stream)
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	anew := !f.created.IsZero() && f.other(info, f.seen.Load())
	f.created = info.Created
	f.seen.Store(0)
	f.begin(anew, info.State.Msgs == 0)
	f.config.InactiveThreshold = lonely
	consumer, err := f.js.OrderedConsumer(ctx, f.stream, f.config)
	if err != nil {
		return err
	}
	defer drop(f.js, f.stream, consumer)
	broken := make(chan error, 1)
	consuming, err := consumer.Consume(func(m jetstream.Msg) {
		if meta, err := m.Metadata(); err == nil {
			f.seen.Store(meta.Sequence.Stream)
			f.each(m, meta)
		}
	}, jetstream.PullMaxMessages(1024), jetstream.PullHeartbeat(heartbeat), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
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
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	var still stillness
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-broken:
			return err
		case <-tick.C:
		}
		seen := f.seen.Load()
		s, err := f.js.Stream(ctx, f.stream)
		if errors.Is(err, jetstream.ErrStreamNotFound) || err == nil && f.other(s.CachedInfo(), seen) {
			return errOtherStream
		}
		if err != nil || s.CachedInfo().State.LastSeq <= seen {
			still = stillness{}
			continue
		}
		if more, err := holds(ctx, f.js.Conn(), f.stream, f.config.FilterSubjects[0], seen+1, 0); err == nil && more && still.at(seen) {
			return errStill
		}
	}
}
