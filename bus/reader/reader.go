package reader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// ErrStop is returned by a handler of messages to end the reading without an error.
var ErrStop = errors.New("stop reading")

// errUnanswered reports that a source delivered nothing in time, or lost a message.
var errUnanswered = errors.New("the server's answer is missing or incomplete")

// each handles one message. An error ends the reading; [ErrStop] does so without an error.
type each func(*jetstream.RawStreamMsg) error

// Reader reads the messages of subjects of a stream in order, each once. Any replica may deliver
// them, even one that lags, and messages may be lost. So the source checks that there is
// no gap between messages, and when a replicated stream has no more, the leader is asked.
type Reader struct {
	Since time.Time // skip messages stored before this time; zero: none
	Log   *zap.Logger
	// Want is about how many messages are wanted, so that not many more are requested; 0: not
	// known. Readers of [NewConsumer] and [NewTail] ignore it.
	Want int
	// Turns bounds what is in flight to the readers that share it: as many of them as it has
	// room for request messages at the same time. A server closes a connection on which more
	// is requested than it buffers. nil: no bound. Readers of [NewDirect] ignore it.
	Turns chan struct{}

	js       jetstream.JetStream
	stream   string
	subjects []string      // none covers another one
	from     uint64        // next sequence to read, 1 or more
	stored   time.Time     // when the message before that was stored
	live     []string      // subjects on which the server republishes what is stored
	wake     *nats.Conn    // that subscribes to live; nil: that of js
	poll     time.Duration // longest interval of polls while nothing arrives; 0: 8 s
	whole    bool          // the subject covers the whole stream
	single   bool          // a stream that was replaced ends the reading, with ErrReplaced
	open     func(from uint64, patience time.Duration) source
	fit      func(*jetstream.StreamInfo) error // whether the source can read the stream

	begun atomic.Bool // the stream has answered
	known identity    // the stream that is followed
	end   end         // where the stream ends, according to its leaders
	again bool        // it restarted from the beginning: the stream was replaced, or lost its end
}

// source delivers messages of a stream from a position on.
type source interface {
	// next returns the next messages, in order. More reports that the stream has further
	// ones, as far as the server that answered knows. After an error, which is
	// errUnanswered if another source may deliver more, the messages before it are valid.
	next(ctx context.Context) (messages []*jetstream.RawStreamMsg, more bool, err error)
	close()
}

// Begun reports whether the stream has answered at least once.
func (r *Reader) Begun() bool { return r.begun.Load() }

// Again reports whether the reader restarted from the beginning because the stream was
// replaced, or lost its end.
func (r *Reader) Again() bool { return r.again }

// Only makes the reader one of the stream that was created at a time, and had all that is before the reader's first
// message: another one ends the reading with [ErrReplaced].
func (r *Reader) Only(created time.Time) { r.single, r.known = true, identity{created, r.from - 1} }

// replaced reports whether the stream in info is not the one that is read.
func (r *Reader) replaced(info *jetstream.StreamInfo) bool {
	return !r.known.created.IsZero() && r.known.replacedBy(info)
}

// ToEnd calls each with the messages up to the current end of the stream.
func (r *Reader) ToEnd(ctx context.Context, each each) error {
	s, err := Look(ctx, r.js, r.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", r.stream, err)
	}
	return r.UpTo(ctx, s.CachedInfo(), s.CachedInfo().State.LastSeq, each)
}

// UpTo calls each with the messages up to sequence last of the stream in info.
func (r *Reader) UpTo(ctx context.Context, info *jetstream.StreamInfo, last uint64, each each) error {
	if err := Followed(info); err != nil { // the end in info may be wrong
		return err
	}
	if r.single && r.replaced(info) {
		return fmt.Errorf("read %s: %w", r.stream, ErrReplaced)
	}
	if err := r.begin(ctx, info); err != nil {
		return err
	}
	pause := pauses()
	for fails := 0; r.from <= last && info.State.Msgs > 0; {
		advanced, done, err := r.drain(ctx, last, patience(fails), each)
		if advanced {
			fails = 0
			pause.Reset()
		}
		switch {
		case errors.Is(err, errUnanswered):
			fails++
		case err != nil || done || !replicated(info):
			return err
		}
		// Other errors may be transient: retry.
		if _, err := r.left(ctx, last); errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		if r.from <= last {
			if err := Sleep(ctx, pause.NextBackOff()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Follow calls each with the stored messages, then with new ones as they arrive, until
// ctx ends, which is not an error. It waits while the server or the stream is
// unreachable, even before the first answer. A stream that was replaced is read from
// its beginning; a reader of [NewTail], or one with [Reader.Only], ends with [ErrReplaced].
func (r *Reader) Follow(ctx context.Context, each each) error {
	pause := pauses()
	out := Outage{
		Log: r.Log, Began: "waiting for a stream", Ended: "the stream answers",
		Fields: []zap.Field{zap.String("stream", r.stream)},
	}
	for {
		var eachErr error // returned by each
		err := r.attempt(ctx, out.Over, func(m *jetstream.RawStreamMsg) error {
			pause.Reset()
			eachErr = each(m)
			return eachErr
		})
		conn := r.js.Conn()
		noJetStream := errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
			errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
		unreachable := conn.IsReconnecting() || IsAway(err) && !noJetStream
		switch {
		case err == nil, eachErr != nil, r.single && errors.Is(err, ErrReplaced):
			return err
		case ctx.Err() != nil:
			return nil
		case conn.IsClosed() && errors.Is(err, errReconnected): // with credentials that were refused then
			return fmt.Errorf("read %s: %w", r.stream, nats.ErrConnectionClosed)
		case conn.IsClosed(), !r.begun.Load() && !unreachable: // it never worked
			return err
		case !r.begun.Load() && conn.IsConnected():
			out.Failed(Explain(conn, err))
		}
		if Sleep(ctx, pause.NextBackOff()) != nil {
			return nil
		}
	}
}

// gather is how long a follower pauses after a request, so that messages that arrive
// close together form one batch.
const gather = 20 * time.Millisecond

// attempt is one attempt of [Reader.Follow]. A message on the live subject is only a
// wake-up signal, since others may publish there too. While nothing arrives, the stream
// is polled at growing intervals.
func (r *Reader) attempt(ctx context.Context, begun func(), each each) error {
	s, err := Look(ctx, r.js, r.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", r.stream, err)
	}
	info := s.CachedInfo()
	switch {
	case r.single && r.replaced(info):
		return ErrReplaced
	case r.replaced(info):
		r.from, r.known.seen, r.again = 1, 0, true
	case !r.begun.Load() && Followed(info) == nil: // beyond the end: start with the next message
		r.from = min(r.from, info.State.LastSeq+1)
	}
	if err := r.begin(ctx, info); err != nil {
		return err
	}
	r.known.created = info.Created
	r.begun.Store(true)
	begun()
	if r.whole {
		return r.followWhole(ctx, each)
	}
	awake := make(chan struct{}, 1)
	for _, subject := range r.live {
		sub, err := cmp.Or(r.wake, r.js.Conn()).Subscribe(subject, func(*nats.Msg) {
			select {
			case awake <- struct{}{}:
			default: // a wake-up is pending
			}
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", r.stream, err)
		}
		defer func() { _ = sub.Unsubscribe() }() // fails if the connection is lost
	}
	poll := r.polls()
	for fails := 0; ; {
		advanced, done, err := r.drain(ctx, 0, patience(fails), each)
		if advanced {
			fails = 0
			poll.Reset()
		}
		switch {
		case errors.Is(err, errUnanswered):
			fails++
		case err != nil || done:
			return err
		}
		if err := Sleep(ctx, gather); err != nil {
			return err
		}
		if err := r.wait(ctx, awake, poll); err != nil {
			return err
		}
	}
}

// wait returns when there may be new messages.
func (r *Reader) wait(ctx context.Context, awake <-chan struct{}, poll *backoff.ExponentialBackOff) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-awake:
			poll.Reset() // the next replica to answer may not have it yet
			return nil
		case <-time.After(poll.NextBackOff()):
		}
		left, err := r.left(ctx, 0)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, ErrReplaced), r.js.Conn().IsClosed():
			return fmt.Errorf("read %s: %w", r.stream, err)
		case left:
			poll.Reset()
			return nil
		}
	}
}

// begin sets the first sequence to read, and checks that the source can read the stream.
func (r *Reader) begin(ctx context.Context, info *jetstream.StreamInfo) error {
	if err := r.fit(info); err != nil || r.Since.IsZero() {
		return err
	}
	first := info.State.LastSeq + 1
	for _, subject := range r.subjects {
		request := fmt.Appendf(nil, `{"start_time":%q,"next_by_subj":%q}`, r.Since.UTC().Format(time.RFC3339Nano), subject)
		switch seq, _, err := AskLeader(ctx, r.js.Conn(), r.stream, request); {
		case err == nil:
			first = min(first, seq)
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return fmt.Errorf("read %s: %w", r.stream, err)
		}
	}
	r.from, r.Since = max(r.from, first), time.Time{}
	return nil
}

// drain calls each with the stored messages of one source, up to sequence last unless
// that is 0. It fetches messages while others are processed, but none while the first ones
// may be all that is wanted. Advanced reports that there were some; done, that each stopped,
// or last was reached. Afterwards r.from is the next sequence to read.
func (r *Reader) drain(ctx context.Context, last uint64, patience time.Duration, each each) (advanced, done bool,
	err error) {
	type batch struct {
		messages []*jetstream.RawStreamMsg
		err      error
	}
	within, cancel := context.WithCancel(ctx)
	batches, ahead := make(chan batch), make(chan struct{})
	goAhead := sync.OnceFunc(func() { close(ahead) })
	if r.Want == 0 {
		goAhead()
	}
	go func(from uint64) {
		defer close(batches)
		s := r.open(from, patience)
		defer s.close()
		for more := true; more; {
			var b batch
			b.messages, more, b.err = s.next(within)
			if n := len(b.messages); n > 0 && last != 0 && b.messages[n-1].Sequence >= last {
				more = false
			}
			select {
			case batches <- b:
			case <-within.Done():
				return
			}
			select {
			case <-ahead:
			case <-within.Done():
				return
			}
			more = more && b.err == nil
		}
	}(r.from)
	defer func() {
		cancel()
		for range batches { // until it is closed
		}
	}()
	for b := range batches {
		for _, m := range b.messages {
			switch {
			case last != 0 && m.Sequence > last:
				return advanced, true, nil
			case m.Sequence < r.from: // a lagging replica started too early
				continue
			}
			advanced = true
			r.from, r.stored, r.known.seen = m.Sequence+1, m.Time, max(r.known.seen, m.Sequence)
			if err := each(m); err != nil {
				if errors.Is(err, ErrStop) {
					err = nil
				}
				return true, true, err
			}
		}
		if b.err != nil {
			return advanced, false, fmt.Errorf("read %s: %w", r.stream, b.err)
		}
		goAhead() // what was wanted was not all
	}
	return advanced, last != 0 && r.from > last, ctx.Err()
}

// left asks the leader whether there are more messages up to sequence last; 0: up to the
// stream's end. It skips what the leader certainly does not have.
func (r *Reader) left(ctx context.Context, last uint64) (bool, error) {
	asked := time.Now()
	s, err := Look(ctx, r.js, r.stream)
	if err != nil {
		return false, err
	}
	info := s.CachedInfo()
	if last == 0 {
		if last = info.State.LastSeq; r.known.replacedBy(info) {
			return false, ErrReplaced
		}
	}
	if last < r.from {
		return false, nil
	}
	for _, subject := range r.subjects {
		if left, err := holds(ctx, r.js.Conn(), r.stream, subject, r.from, last); left || err != nil {
			return left, err
		}
	}
	if end := r.end.believe(info, asked, r.from, last); end > 0 {
		r.from, r.known.seen = end+1, max(r.known.seen, end)
	}
	return false, nil
}

// patience is how long to wait for the next message of an answer, after a number of
// consecutive failures.
func patience(fails int) time.Duration { return 2 * time.Second << min(fails, 3) }

// pauses returns the backoff between attempts.
func pauses() *backoff.ExponentialBackOff {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 50*time.Millisecond, 2*time.Second
	return pause
}

// Sleep waits for a time. If ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
