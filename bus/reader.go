package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Stored is one message of EVENTS.
type Stored struct {
	Seq        uint64
	Pos        normalizer.Pos
	Agent, Run string
	Token      string // of the kind, or [normalizer.CompletionToken]
	Body       []byte
}

// Filter says which messages of EVENTS to read. Its zero value is all of them,
// from the oldest that is kept to the newest that there is.
type Filter struct {
	Agent, Run string
	Tokens     []string  // kinds; none: all
	FromSeq    uint64    // not before this sequence
	Since      time.Time // not stored before this
	Follow     bool      // go on with what comes
}

// Wants reports whether the filter lets a kind through.
func (f Filter) Wants(token string) bool {
	return len(f.Tokens) == 0 || slices.Contains(f.Tokens, token)
}

// subject is the one that covers what the filter lets through. A consumer
// with several would need more rights than a subscriber has.
func (f Filter) subject(n Names) string {
	any := func(s string) string {
		if s == "" {
			return "*"
		}
		return s
	}
	token := "*"
	if len(f.Tokens) == 1 {
		token = f.Tokens[0]
	}
	return n.EventSubject(any(f.Agent), any(f.Run), token)
}

// Read calls each with the messages of EVENTS that the filter lets through,
// in the order of the stream, until each returns an error, which it passes
// on, or there is no more to read. With Follow it goes on until ctx ends,
// which is no error, and waits for a server that goes away.
func (b *Bus) Read(ctx context.Context, f Filter, each func(Stored) error) error {
	stream, consumer, err := b.open(ctx, f)
	for f.Follow && b.mayComeBack(err) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(100 * time.Millisecond):
		}
		stream, consumer, err = b.open(ctx, f)
	}
	if err != nil || consumer == nil {
		return err
	}
	last := stream.CachedInfo().State.LastSeq
	first := max(f.FromSeq, 1)
	// seen is behind what a reader from some time on begins with: that takes the
	// replica's word for it.
	seen := first - 1
	if !f.Since.IsZero() {
		seen = last
	}
	lagging := func() (bool, error) {
		return lags(ctx, b.jsPub, stream.CachedInfo(), f.subject(b.Names), seen+1, last)
	}
	if !f.Follow && consumer.CachedInfo().NumPending == 0 {
		if more, err := lagging(); !more {
			return err
		}
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(256))
	if err != nil {
		return fmt.Errorf("read %s: %w", b.Names.Events(), err)
	}
	defer messages.Stop()
	defer context.AfterFunc(ctx, messages.Stop)() // while the server is away Next does not look at ctx
	drained := false
	for {
		m, err := next(ctx, messages, f.Follow)
		switch {
		case ctx.Err() != nil:
			if f.Follow {
				return nil
			}
			return ctx.Err()
		case errors.Is(err, jetstream.ErrNoHeartbeat):
			continue // the server is away, or slow: the consumer comes back
		case errors.Is(err, context.DeadlineExceeded):
			// Was the rest removed before it was read? What was sent before the
			// answer has one more turn.
			if drained {
				if more, err := lagging(); !more {
					return err
				}
			}
			info, err := consumer.Info(ctx)
			drained = err == nil && info.NumPending == 0
			continue
		case err != nil:
			return fmt.Errorf("read %s: %w", b.Names.Events(), err)
		}
		drained = false
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read %s: %w", b.Names.Events(), err)
		}
		s := Stored{Seq: meta.Sequence.Stream, Body: m.Data()}
		agent, run, token, ok := b.parseEvent(m.Subject())
		pos, isOurs := parsePos(m.Headers().Get(HeaderPos))
		if ok && isOurs && s.Seq >= first && f.Wants(token) {
			s.Agent, s.Run, s.Token, s.Pos = agent, run, token, pos
			if err := each(s); err != nil {
				return err
			}
		}
		if seen = max(seen, s.Seq); f.Follow {
			continue
		}
		if s.Seq >= last {
			return nil
		}
		if meta.NumPending == 0 {
			if more, err := lagging(); !more {
				return err
			}
		}
	}
}

// open begins to read. There is no consumer where there is nothing to read.
func (b *Bus) open(ctx context.Context, f Filter) (jetstream.Stream, jetstream.Consumer, error) {
	stream, err := b.jsPub.Stream(ctx, b.Names.Events())
	if err != nil {
		return nil, nil, fmt.Errorf("stream %s: %w", b.Names.Events(), err)
	}
	last := stream.CachedInfo().State.LastSeq
	first := max(f.FromSeq, 1)
	if !f.Follow {
		if err := followed(stream.CachedInfo()); err != nil { // the end may be another one
			return nil, nil, err
		}
		if first > last || stream.CachedInfo().State.Msgs == 0 {
			return stream, nil, nil
		}
	}
	config := jetstream.OrderedConsumerConfig{FilterSubjects: []string{f.subject(b.Names)}, DeliverPolicy: jetstream.DeliverAllPolicy}
	switch {
	case !f.Since.IsZero():
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverByStartTimePolicy, &f.Since
	case f.FromSeq > 0:
		// A consumer beyond the stream's end would wait for ever: begin with
		// what comes next, and leave out what comes too early.
		config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, min(first, last+1)
	}
	consumer, err := b.jsPub.OrderedConsumer(ctx, b.Names.Events(), config)
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", b.Names.Events(), err)
	}
	return stream, consumer, nil
}

// mayComeBack reports whether an error comes of a server that is away, for a
// while as far as anybody knows.
func (b *Bus) mayComeBack(err error) bool {
	lost := errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionClosed) || err != nil && b.public.IsReconnecting()
	return lost && !b.public.IsClosed()
}

// next is the next message. Where it is not followed, one that does not come
// within a second is [context.DeadlineExceeded].
func next(ctx context.Context, messages jetstream.MessagesContext, follow bool) (jetstream.Msg, error) {
	if !follow {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Second)
		defer cancel()
	}
	return messages.Next(jetstream.NextContext(ctx))
}

// Record is the record of a run as stored, and whether there is one. It needs
// a login to the inside account.
func (b *Bus) Record(ctx context.Context, run string) (*runs.Record, bool, error) {
	stream, err := b.js.Stream(ctx, bucketStream(b.Runs()))
	if err != nil {
		return nil, false, fmt.Errorf("bucket %s: %w", b.Runs(), err)
	}
	m, err := stream.GetLastMsgForSubject(ctx, bucketSubject(b.Runs(), run))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("run %s: read its record: %w", run, err)
	}
	if m.Header.Get(headerOperation) != "" {
		return nil, false, nil
	}
	var v stored
	if err := json.Unmarshal(m.Data, &v); err != nil || v.Record == nil {
		return nil, false, fmt.Errorf("%w: the record of run %s is not of the known form", ErrUnfit, run)
	}
	return v.Record, true, nil
}

// Known reports whether anything is known of a run: a raw log, a record, or events.
func (b *Bus) Known(ctx context.Context, run string) (bool, error) {
	for _, at := range []struct {
		js      jetstream.JetStream
		stream  string
		subject string
	}{
		{b.js, b.Raw(), b.RawSubject("*", run)},
		{b.js, bucketStream(b.Runs()), bucketSubject(b.Runs(), run)},
		{b.jsPub, b.Names.Events(), b.EventSubject("*", run, "*")},
	} {
		stream, err := at.js.Stream(ctx, at.stream)
		if err != nil {
			return false, fmt.Errorf("stream %s: %w", at.stream, err)
		}
		switch _, err = stream.GetLastMsgForSubject(ctx, at.subject); {
		case err == nil:
			return true, nil
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return false, fmt.Errorf("run %s: %w", run, err)
		}
	}
	return false, nil
}
