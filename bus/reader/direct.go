package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// Limits of one batch of direct gets; a reader holds up to three batches. Batches
// double in size from firstBatch to BatchMessages.
const (
	firstBatch    = 256
	BatchMessages = 2048
	batchBytes    = 2 << 20
)

// errUnanswered reports a missing or incomplete answer to a request for a batch.
var errUnanswered = errors.New("the server's answer is missing or incomplete")

// EachRaw handles one message, and reports whether the reader should continue.
type EachRaw func(*jetstream.RawStreamMsg) (bool, error)

// Direct reads the messages of a stream in order, by batched direct gets. They leave no
// state on the server, so the limit of consumers does not apply. Any replica may
// answer, even one that lags, and answers may be lost. Therefore every message is
// checked against the sequence of the one before it, and when a replicated stream has
// no more messages, its leader is asked.
type Direct struct {
	js      jetstream.JetStream
	stream  string
	subject string
	all     bool      // the subject covers the whole stream
	live    string    // subject on which the server republishes what is stored
	from    uint64    // next sequence to read, 1 or more
	Since   time.Time // skip messages stored before this time; zero: none
	Log     *zap.Logger

	begun   atomic.Bool // the stream has answered
	created time.Time   // when the stream was created
	seen    uint64      // highest sequence known to exist
	end     end         // where the stream ends, according to its leaders
	again   bool        // it restarted from the beginning: the stream was replaced, or lost its end
}

// NewDirect returns a reader for a subject of a stream, from a sequence on, 1 or more.
// Set all if the subject covers the whole stream. Live is the subject on which the
// server republishes stored messages.
func NewDirect(js jetstream.JetStream, stream, subject, live string, all bool, from uint64) *Direct {
	return &Direct{js: js, stream: stream, subject: subject, all: all, live: live, from: from, Log: zap.NewNop()}
}

// Begun reports whether the stream has answered at least once.
func (d *Direct) Begun() bool { return d.begun.Load() }

// Again reports whether the reader restarted from the beginning because the stream was
// replaced, or lost its end.
func (d *Direct) Again() bool { return d.again }

// UpTo calls each with the messages up to sequence last of the stream in info.
func (d *Direct) UpTo(ctx context.Context, info *jetstream.StreamInfo, last uint64, each EachRaw) error {
	if err := Followed(info); err != nil { // the end in info may be wrong
		return err
	}
	if err := d.begin(ctx, info); err != nil {
		return err
	}
	pause := pauses()
	for fails := 0; d.from <= last && info.State.Msgs > 0; {
		from := d.from
		done, err := d.drain(ctx, last, patience(fails), each)
		if d.from > from {
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
		end, err := d.ends(ctx, last)
		if end >= last || errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause.NextBackOff()):
		}
	}
	return nil
}

// Follow calls each with the stored messages, then with new ones as they arrive, until
// ctx ends, which is not an error. It waits while the server or the stream is
// unreachable, even before the first answer. A stream that was replaced is read from
// its beginning.
func (d *Direct) Follow(ctx context.Context, each EachRaw) error {
	pause := pauses()
	lastLog := ""
	var eachErr error // returned by each
	for {
		err := d.attempt(ctx, func(m *jetstream.RawStreamMsg) (bool, error) {
			pause.Reset()
			more, err := each(m)
			eachErr = err
			return more, err
		})
		conn := d.js.Conn()
		noJetStream := errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
			errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
		unreachable := conn.IsReconnecting() || IsAway(err) && !noJetStream
		switch {
		case err == nil, eachErr != nil:
			return err
		case ctx.Err() != nil:
			return nil
		case conn.IsClosed(), !d.begun.Load() && !unreachable: // it never worked
			return err
		case !d.begun.Load() && conn.IsConnected() && Explain(conn, err) != lastLog:
			lastLog = Explain(conn, err)
			d.Log.Warn("waiting for a stream", zap.String("stream", d.stream), zap.String("why", lastLog))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// gather is how long a follower pauses after a request, so that messages that arrive
// close together form one batch.
const gather = 20 * time.Millisecond

// attempt is one attempt of [Direct.Follow]. A message on the live subject is only a
// wake-up signal, since others may publish there too. While nothing arrives, the stream
// is polled at growing intervals.
func (d *Direct) attempt(ctx context.Context, each EachRaw) error {
	s, err := Look(ctx, d.js, d.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", d.stream, err)
	}
	info := s.CachedInfo()
	switch {
	case d.begun.Load() && d.other(info):
		d.from, d.seen, d.again = 1, 0, true
	case !d.begun.Load() && Followed(info) == nil: // beyond the end: start with the next message
		d.from = min(d.from, info.State.LastSeq+1)
	}
	if err := d.begin(ctx, info); err != nil {
		return err
	}
	d.created = info.Created
	d.begun.Store(true)
	awake := make(chan struct{}, 1)
	sub, err := d.js.Conn().Subscribe(d.live, func(*nats.Msg) {
		select {
		case awake <- struct{}{}:
		default: // a wake-up is pending
		}
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", d.stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails if the connection is lost
	poll := backoff.NewExponentialBackOff()
	poll.InitialInterval, poll.MaxInterval, poll.RandomizationFactor = 100*time.Millisecond, 8*time.Second, 0.2
	for fails := 0; ; {
		from := d.from
		done, err := d.drain(ctx, 0, patience(fails), each)
		if d.from > from {
			fails = 0
			poll.Reset()
		}
		switch {
		case errors.Is(err, errUnanswered):
			fails++
		case err != nil || done:
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(gather):
		}
		if err := d.wait(ctx, awake, poll); err != nil {
			return err
		}
	}
}

// wait returns when there may be new messages.
func (d *Direct) wait(ctx context.Context, awake <-chan struct{}, poll *backoff.ExponentialBackOff) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-awake:
			poll.Reset() // the next replica to answer may not have it yet
			return nil
		case <-time.After(poll.NextBackOff()):
		}
		left, err := d.left(ctx)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, ErrReplaced), d.js.Conn().IsClosed():
			return fmt.Errorf("read %s: %w", d.stream, err)
		case left:
			poll.Reset()
			return nil
		}
	}
}

// begin sets the first sequence to read, and checks that the stream allows direct gets.
func (d *Direct) begin(ctx context.Context, info *jetstream.StreamInfo) error {
	if !info.Config.AllowDirect {
		return fmt.Errorf("%w: stream %s has no allow_direct; a normalizer that starts sets it", ErrUnfit, d.stream)
	}
	if d.Since.IsZero() {
		return nil
	}
	request := fmt.Appendf(nil, `{"start_time":%q,"next_by_subj":%q}`, d.Since.UTC().Format(time.RFC3339Nano), d.subject)
	seq, _, err := AskLeader(ctx, d.js.Conn(), d.stream, request)
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		seq = info.State.LastSeq + 1
	case err != nil:
		return fmt.Errorf("read %s: %w", d.stream, err)
	}
	d.from, d.Since = max(d.from, seq), time.Time{}
	return nil
}

// other reports whether the stream is not the one read before, or has lost its end.
func (d *Direct) other(info *jetstream.StreamInfo) bool {
	return !info.Created.Equal(d.created) || info.State.LastSeq < d.seen && Followed(info) == nil
}

// patience is how long to wait for the next message of an answer, after a number of
// consecutive failures.
func patience(fails int) time.Duration { return 2 * time.Second << min(fails, 3) }

// directGet is the prefix of the subjects of direct gets; the stream's name follows.
const directGet = "$JS.API.DIRECT.GET."

// Headers of the answers to direct gets.
const (
	headerStatus  = "Status"
	headerPending = "Nats-Num-Pending"
	headerBefore  = "Nats-Last-Sequence" // of the previous message in the batch
)

// fetched is the answer to one request: messages in order, and, if err is nil, how many
// more the server has.
type fetched struct {
	messages []*jetstream.RawStreamMsg
	pending  uint64
	err      error
}

// drain calls each with the stored messages, up to sequence last unless that is 0. It
// fetches the next batch while it processes one. Done reports that each stopped, or
// last was reached. Afterwards d.from is the next sequence to read.
func (d *Direct) drain(ctx context.Context, last uint64, patience time.Duration, each EachRaw) (done bool, err error) {
	within, cancel := context.WithCancel(ctx)
	batches := make(chan fetched)
	go func(from uint64) {
		defer close(batches)
		for more, size := true, firstBatch; more; size = min(2*size, BatchMessages) {
			f := d.get(within, from, size, patience)
			if n := len(f.messages); n > 0 {
				from = f.messages[n-1].Sequence + 1
			}
			more = f.err == nil && f.pending > 0 && (last == 0 || from <= last)
			select {
			case batches <- f:
			case <-within.Done():
				return
			}
		}
	}(d.from)
	defer func() {
		cancel()
		for range batches { // until it is closed
		}
	}()
	for f := range batches {
		for _, m := range f.messages {
			if last != 0 && m.Sequence > last {
				return true, nil
			}
			d.from, d.seen = m.Sequence+1, max(d.seen, m.Sequence)
			if more, err := each(m); !more || err != nil {
				return true, err
			}
		}
		if f.err != nil {
			return false, f.err
		}
	}
	return last != 0 && d.from > last, ctx.Err()
}

// Count returns the number of messages from the next sequence on.
func (d *Direct) Count(ctx context.Context) (uint64, error) {
	f := d.get(ctx, d.from, 1, AnswerTimeout)
	if f.err != nil {
		return 0, fmt.Errorf("count in %s: %w", d.stream, f.err)
	}
	return uint64(len(f.messages)) + f.pending, nil
}

// get requests one batch of at most limit messages. The answer goes to a subject of its
// own: when that is unsubscribed, the server drops a request imported from another
// account.
func (d *Direct) get(ctx context.Context, from uint64, limit int, patience time.Duration) (f fetched) {
	fail := func(err error) fetched {
		f.err = fmt.Errorf("read %s: %w", d.stream, err)
		return f
	}
	ask := struct {
		Seq   uint64 `json:"seq"`
		Next  string `json:"next_by_subj,omitempty"`
		Batch int    `json:"batch"`
		Bytes int    `json:"max_bytes"`
	}{from, d.subject, limit, batchBytes}
	if d.all {
		ask.Next = "" // so the server need not count the remaining messages of a subject
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return fail(err)
	}
	conn := d.js.Conn()
	answers := make(chan *nats.Msg, limit+1) // and the end marker
	sub, err := conn.ChanSubscribe(conn.NewInbox(), answers)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails if the connection is lost
	if err := conn.PublishRequest(directGet+d.stream, sub.Subject, body); err != nil {
		return fail(err)
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for before := "0"; ; {
		var m *nats.Msg
		select {
		case <-ctx.Done():
			f.err = ctx.Err()
			return f
		case <-late.C:
			return fail(errUnanswered)
		case m = <-answers:
		}
		late.Reset(patience)
		status := m.Header.Get(headerStatus)
		switch {
		case status == "404":
			return f
		case status == "503": // no server answers for the stream
			return fail(errUnanswered)
		case status != "" && status != "204":
			return fail(fmt.Errorf("unexpected status %.3s", status))
		case m.Header.Get(headerBefore) != before: // a message was lost
			return fail(errUnanswered)
		case status == "204":
			if f.pending, err = strconv.ParseUint(m.Header.Get(headerPending), 10, 64); err != nil {
				return fail(errUnanswered)
			}
			return f
		}
		before = m.Header.Get(jetstream.SequenceHeader)
		seq, err := strconv.ParseUint(before, 10, 64)
		if err != nil {
			return fail(errUnanswered)
		}
		f.messages = append(f.messages, &jetstream.RawStreamMsg{
			Subject: m.Header.Get(jetstream.SubjectHeader), Sequence: seq, Header: m.Header, Data: m.Data,
		})
	}
}
