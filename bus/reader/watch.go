package reader

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Watch follows the newest message of each subject of a stream, by an ordered
// consumer.
type Watch struct {
	JS          jetstream.JetStream
	Stream      string
	Subject     string // the filter
	HeadersOnly bool
	Log         *zap.Logger

	created time.Time     // of the stream
	seen    atomic.Uint64 // the newest sequence that came
}

// Run calls each with the messages until ctx ends: then it returns nil. Where
// the consumer breaks it is made again, and each gets the newest messages of all
// subjects once more. At each beginning it calls begin: with whether the stream was
// made anew, or lost its end, and whether there is nothing in it.
func (w *Watch) Run(ctx context.Context, each func(jetstream.Msg, *jetstream.MsgMetadata), begin func(anew, empty bool)) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 5*time.Second
	for {
		began := time.Now()
		err := w.once(ctx, each, begin)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > time.Minute {
			pause.Reset()
		}
		w.Log.Warn("read again from the beginning", zap.String("stream", w.Stream), zap.String("why", Explain(w.JS.Conn(), err)))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// replaced reports whether the stream is not the one that was followed, or has
// lost its end: a consumer may stand beyond that, and bring nothing, without
// an error. Seen is what had come before info was asked for: more may have
// since.
func (w *Watch) replaced(info *jetstream.StreamInfo, seen uint64) bool {
	return !info.Created.Equal(w.created) || info.State.LastSeq < seen && Followed(info) == nil
}

func (w *Watch) once(ctx context.Context, each func(jetstream.Msg, *jetstream.MsgMetadata), begin func(anew, empty bool)) error {
	s, err := w.JS.Stream(ctx, w.Stream)
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	anew := !w.created.IsZero() && w.replaced(info, w.seen.Load())
	w.created = info.Created
	w.seen.Store(0)
	begin(anew, info.State.Msgs == 0)
	config := jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{w.Subject}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: w.HeadersOnly,
	}
	consumer, err := Consume(ctx, w.JS, w.Stream, config, func(m jetstream.Msg) {
		if meta, err := m.Metadata(); err == nil {
			w.seen.Store(meta.Sequence.Stream)
			each(m, meta)
		}
	}, jetstream.PullMaxMessages(1024))
	if err != nil {
		return err
	}
	defer consumer.Stop()
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	var progress Progress
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-consumer.Broken:
			return err
		case <-tick.C:
		}
		seen, asked := w.seen.Load(), time.Now()
		s, err := w.JS.Stream(ctx, w.Stream)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound), err == nil && w.replaced(s.CachedInfo(), seen):
			return ErrReplaced
		case err != nil:
			progress = Progress{}
			continue
		}
		if _, err := progress.Check(ctx, w.JS, s.CachedInfo(), asked, w.Subject, seen); errors.Is(err, ErrStalled) {
			return err
		}
	}
}
