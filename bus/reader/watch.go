package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

	created time.Time            // when the stream was created
	last    atomic.Pointer[edge] // the newest message received; nil: none
	lost    bool                 // the stream lost its end and grew again: the next start reports it
	stall   time.Duration        // see [Background]
}

// edge is the last message that a consumer delivered before it was replaced, by the client
// library or by [Watch.Run]. The next consumer starts at the next sequence. If the stream lost
// its end in between and grew again, new messages have sequences up to that of the edge: the
// next consumer does not deliver them.
type edge struct {
	seq  uint64
	time time.Time
}

// lostBefore reports whether the stream has such messages: stored after e, at its sequence or
// a lower one. The server finds the first message after a time (start_time, NATS 2.11).
func (w *Watch) lostBefore(ctx context.Context, e edge) (bool, error) {
	ask := fmt.Appendf(nil, `{"start_time":%q,"next_by_subj":%q}`, e.time.Add(1).UTC().Format(time.RFC3339Nano), w.Subject)
	seq, _, err := AskLeader(ctx, w.JS.Conn(), w.Stream, ask)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return false, nil
	}
	return err == nil && seq <= e.seq, err
}

// seen returns the sequence of the newest message received; 0: none.
func (w *Watch) seen() uint64 {
	if e := w.last.Load(); e != nil {
		return e.seq
	}
	return 0
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
		err := w.once(ctx, each, begin, out.Over)
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

// once is [Watch.Run] with one consumer. It calls reads when there is one.
func (w *Watch) once(ctx context.Context, each func(jetstream.Msg, *jetstream.MsgMetadata),
	begin func(replaced, empty bool), reads func()) error {
	s, err := w.JS.Stream(ctx, w.Stream)
	if err != nil {
		return err
	}
	info := s.CachedInfo()
	replaced := w.lost || !w.created.IsZero() && (identity{w.created, w.seen()}).replacedBy(info)
	w.created, w.lost = info.Created, false
	w.last.Store(nil)
	begin(replaced, info.State.Msgs == 0)
	from := Background{
		JS: w.JS, Stream: w.Stream, Subject: w.Subject, Policy: jetstream.DeliverLastPerSubjectPolicy,
		Headers: w.HeadersOnly, Limit: jetstream.PullMaxMessages(1024), Stall: w.stall,
	}
	var delivered uint64 // by the current consumer
	edges := make(chan *edge, 1)
	reading, stop := context.WithCancel(ctx)
	connections := w.JS.Conn().Stats().Reconnects
	consumer, err := from.Consume(ctx, func(m jetstream.Msg) {
		meta, err := m.Metadata()
		if err != nil {
			return
		}
		if meta.Sequence.Consumer <= delivered {
			select {
			case edges <- w.last.Load():
			case <-reading.Done():
			}
		}
		delivered = meta.Sequence.Consumer
		w.last.Store(&edge{meta.Sequence.Stream, meta.Timestamp})
		each(m, meta)
	})
	if err != nil {
		stop()
		return err
	}
	reads()
	defer consumer.Stop()
	defer stop()
	tick := time.NewTicker(min(2*time.Second, cmp.Or(w.stall, time.Hour)))
	defer tick.Stop()
	var before *edge // to be looked at
	for {
		var another *edge
		select {
		case <-ctx.Done():
			return nil
		case err := <-consumer.Broken:
			return err
		case another = <-edges:
		case <-tick.C:
			if n := w.JS.Conn().Stats().Reconnects; n != connections {
				connections, another = n, w.last.Load()
			}
		}
		switch {
		case before == nil:
			before = another
		case another != nil && another.seq != before.seq: // a stream may lose its end twice
			w.lost = true
			return ErrReplaced
		}
		seen, asked := w.seen(), time.Now()
		s, err := w.JS.Stream(ctx, w.Stream)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound),
			err == nil && (identity{w.created, seen}).replacedBy(s.CachedInfo()):
			return ErrReplaced
		case err != nil:
			consumer.progress = progress{}
			continue
		}
		if before != nil {
			switch lost, err := w.lostBefore(ctx, *before); {
			case lost:
				w.lost = true
				return ErrReplaced
			case err == nil:
				before = nil
			}
		}
		if _, err := consumer.Check(ctx, s.CachedInfo(), asked, seen); errors.Is(err, ErrStalled) {
			return err
		}
	}
}
