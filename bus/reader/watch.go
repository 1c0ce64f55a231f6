package reader

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Watch follows the newest message of each subject of a stream, by an ordered consumer.
type Watch struct {
	JS          jetstream.JetStream
	Stream      string
	Subject     string // the filter
	HeadersOnly bool
	Log         *zap.Logger

	created time.Time     // when the stream was created
	seen    atomic.Uint64 // the newest sequence received
	stall   time.Duration // see [Background]
}

// Run calls each with the messages until ctx ends; then it returns nil. If the consumer
// breaks, Run creates another one, and each receives the newest messages of all
// subjects again. At each start it calls begin; replaced reports that the stream was
// recreated, or lost its end, and empty that it has no messages.
func (w *Watch) Run(ctx context.Context, each func(jetstream.Msg, *jetstream.MsgMetadata),
	begin func(replaced, empty bool)) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 5*time.Second
	out := Outage{
		Log: w.Log, Began: "reading again from the beginning", Ended: "the stream is read again",
		Fields: []zap.Field{zap.String("stream", w.Stream)},
	}
	for {
		began := time.Now()
		err := w.once(ctx, each, func(replaced, empty bool) {
			out.Over()
			begin(replaced, empty)
		})
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > time.Minute {
			pause.Reset()
		}
		out.Failed(Explain(w.JS.Conn(), err))
		if Sleep(ctx, pause.NextBackOff()) != nil {
			return nil
		}
	}
}

func (w *Watch) once(ctx context.Context, each func(jetstream.Msg, *jetstream.MsgMetadata),
	begin func(replaced, empty bool)) error {
	s, err := w.JS.Stream(ctx, w.Stream)
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	replaced := !w.created.IsZero() && (identity{w.created, w.seen.Load()}).replacedBy(info)
	w.created = info.Created
	w.seen.Store(0)
	begin(replaced, info.State.Msgs == 0)
	from := Background{
		JS: w.JS, Stream: w.Stream, Subject: w.Subject, Policy: jetstream.DeliverLastPerSubjectPolicy,
		Headers: w.HeadersOnly, Limit: jetstream.PullMaxMessages(1024), Stall: w.stall,
	}
	consumer, err := from.Consume(ctx, func(m jetstream.Msg) {
		if meta, err := m.Metadata(); err == nil {
			w.seen.Store(meta.Sequence.Stream)
			each(m, meta)
		}
	})
	if err != nil {
		return err
	}
	defer consumer.Stop()
	tick := time.NewTicker(min(2*time.Second, cmp.Or(w.stall, time.Hour)))
	defer tick.Stop()
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
		case errors.Is(err, jetstream.ErrStreamNotFound),
			err == nil && (identity{w.created, seen}).replacedBy(s.CachedInfo()):
			return ErrReplaced
		case err != nil:
			consumer.progress = progress{}
			continue
		}
		if _, err := consumer.Check(ctx, s.CachedInfo(), asked, seen); errors.Is(err, ErrStalled) {
			return err
		}
	}
}
