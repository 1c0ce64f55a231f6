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

// Bounds of one batch of direct gets, of which a reader may hold three. Who
// reads much asks for more and more.
const (
	firstBatch    = 256
	BatchMessages = 2048
	batchBytes    = 2 << 20
)

// errUnanswered reports a batch that did not come, or not whole.
var errUnanswered = errors.New("the server sent no answer, or a part of it")

// EachRaw handles one message, and reports whether it wants the next one.
type EachRaw func(*jetstream.RawStreamMsg) (bool, error)

// Direct reads the messages of a stream in order, by batched direct gets. They
// leave nothing on the server, so neither the number of consumers nor their
// limit matters to it. Any replica may answer, also one that lags, and answers
// may be lost: every message names the one before it, and where nothing more
// comes from a stream with several copies its leader is asked.
type Direct struct {
	js      jetstream.JetStream
	stream  string
	subject string
	all     bool      // the subject is all that the stream has
	live    string    // where the server repeats what is stored under the subject
	from    uint64    // sequence to read on from, 1 or more
	Since   time.Time // begin with what was stored then, if it is given
	Log     *zap.Logger

	begun   atomic.Bool // there was a stream
	created time.Time   // it
	seen    uint64      // the last sequence that is known of it
	end     end         // what the leader does not have, or one that was the leader
	again   bool        // it reads from the beginning: the stream was replaced, or lost its end
}

// NewDirect reads a subject of a stream from a sequence on, 1 or more. All says
// that the subject is all that the stream has. The server repeats on the subject
// live what is stored.
func NewDirect(js jetstream.JetStream, stream, subject, live string, all bool, from uint64) *Direct {
	return &Direct{js: js, stream: stream, subject: subject, all: all, live: live, from: from, Log: zap.NewNop()}
}

// Begun reports whether the stream has answered, ever.
func (d *Direct) Begun() bool { return d.begun.Load() }

// Again reports whether it reads from the beginning: the stream was replaced, or
// lost its end.
func (d *Direct) Again() bool { return d.again }

// UpTo passes each the messages up to the sequence last of the stream in info.
func (d *Direct) UpTo(ctx context.Context, info *jetstream.StreamInfo, last uint64, each EachRaw) error {
	if err := Followed(info); err != nil { // the end may be another one
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
		case err != nil || done || !Replicated(info):
			return err
		}
		// An error may be that of a moment, as all that is not the stream's own.
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

// Follow passes each the stored messages, and new ones as they arrive, until ctx
// ends, which is no error. It waits for a server or a stream that is away, also
// before the first answer. A stream that was replaced is read from its beginning.
func (d *Direct) Follow(ctx context.Context, each EachRaw) error {
	pause := pauses()
	said := ""
	var stopped error // of each: not an error of the stream
	for {
		err := d.attempt(ctx, func(m *jetstream.RawStreamMsg) (bool, error) {
			pause.Reset()
			more, err := each(m)
			stopped = err
			return more, err
		})
		conn := d.js.Conn()
		noJetStream := errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount)
		away := conn.IsReconnecting() || IsAway(err) && !noJetStream
		switch {
		case err == nil, stopped != nil:
			return err
		case ctx.Err() != nil:
			return nil
		case conn.IsClosed(), !d.begun.Load() && !away: // it never worked
			return err
		case !d.begun.Load() && conn.IsConnected() && Explain(conn, err) != said:
			said = Explain(conn, err)
			d.Log.Warn("waiting for a stream", zap.String("stream", d.stream), zap.String("why", said))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// gather is how long a follower pauses after a request, so that what comes close
// together is one batch, whatever wakes it.
const gather = 20 * time.Millisecond

// attempt is one attempt of [Direct.Follow]. Messages on the live subject are only a wake-up,
// since others may publish there too. While nothing arrives, the stream is
// polled at growing intervals.
func (d *Direct) attempt(ctx context.Context, each EachRaw) error {
	s, err := Look(ctx, d.js, d.stream)
	if err != nil {
		return fmt.Errorf("stream %s: %w", d.stream, err)
	}
	info := s.CachedInfo()
	switch {
	case d.begun.Load() && d.other(info):
		d.from, d.seen, d.again = 1, 0, true
	case !d.begun.Load() && Followed(info) == nil: // beyond the end: begin with what comes next
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
		default: // it is awake
		}
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", d.stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a connection that is lost has none
	silence := backoff.NewExponentialBackOff()
	silence.InitialInterval, silence.MaxInterval, silence.RandomizationFactor = 100*time.Millisecond, 8*time.Second, 0.2
	for fails := 0; ; {
		from := d.from
		done, err := d.drain(ctx, 0, patience(fails), each)
		if d.from > from {
			fails = 0
			silence.Reset()
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
		if err := d.wait(ctx, awake, silence); err != nil {
			return err
		}
	}
}

// wait returns when there may be more.
func (d *Direct) wait(ctx context.Context, awake <-chan struct{}, silence *backoff.ExponentialBackOff) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-awake:
			silence.Reset() // who answers next may not have it yet
			return nil
		case <-time.After(silence.NextBackOff()):
		}
		left, err := d.left(ctx)
		switch {
		case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, ErrReplaced), d.js.Conn().IsClosed():
			return fmt.Errorf("read %s: %w", d.stream, err)
		case left:
			silence.Reset()
			return nil
		}
	}
}

// begin finds the first sequence to read, and whether the stream can be read so.
func (d *Direct) begin(ctx context.Context, info *jetstream.StreamInfo) error {
	if !info.Config.AllowDirect {
		return fmt.Errorf("%w: stream %s has no allow_direct; a normalizer that starts sets it", ErrUnfit, d.stream)
	}
	if d.Since.IsZero() {
		return nil
	}
	seq, _, err := AskLeader(ctx, d.js.Conn(), d.stream, fmt.Appendf(nil, `{"start_time":%q,"next_by_subj":%q}`, d.Since.UTC().Format(time.RFC3339Nano), d.subject))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		seq = info.State.LastSeq + 1
	case err != nil:
		return fmt.Errorf("read %s: %w", d.stream, err)
	}
	d.from, d.Since = max(d.from, seq), time.Time{}
	return nil
}

// other reports whether the stream is not the one that was followed, or has
// lost its end.
func (d *Direct) other(info *jetstream.StreamInfo) bool {
	return !info.Created.Equal(d.created) || info.State.LastSeq < d.seen && Followed(info) == nil
}

// patience is how long the next piece of an answer may take, after so many
// failures in a row.
func patience(fails int) time.Duration { return 2 * time.Second << min(fails, 3) }

// directGet begins the subjects of direct gets; the stream follows.
const directGet = "$JS.API.DIRECT.GET."

// Headers of the answers to direct gets.
const (
	headerStatus  = "Status"
	headerPending = "Nats-Num-Pending"
	headerBefore  = "Nats-Last-Sequence" // of the message before in the batch
)

// fetched is the answer to one request: messages in their order, and, where err
// is nil, how many more the server has.
type fetched struct {
	messages []*jetstream.RawStreamMsg
	pending  uint64
	err      error
}

// drain passes each the stored messages, up to the sequence last unless that is
// 0. The next batch is fetched while one is processed. It reports done when each
// wants no more, or last was reached; from is then the next sequence to read.
func (d *Direct) drain(ctx context.Context, last uint64, patience time.Duration, each EachRaw) (done bool, err error) {
	within, cancel := context.WithCancel(ctx)
	batches := make(chan fetched)
	go func(from uint64) {
		defer close(batches)
		for more, most := true, firstBatch; more; most = min(2*most, BatchMessages) {
			f := d.get(within, from, most, patience)
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

// Count is how many messages there are.
func (d *Direct) Count(ctx context.Context) (uint64, error) {
	f := d.get(ctx, d.from, 1, AnswerTimeout)
	if f.err != nil {
		return 0, fmt.Errorf("count in %s: %w", d.stream, f.err)
	}
	return uint64(len(f.messages)) + f.pending, nil
}

// get is one request for at most so many messages. It has a subject of its own
// for its answer: when that is given up the server forgets a request that
// another account let in.
func (d *Direct) get(ctx context.Context, from uint64, most int, patience time.Duration) (f fetched) {
	fail := func(err error) fetched {
		f.err = fmt.Errorf("read %s: %w", d.stream, err)
		return f
	}
	ask := struct {
		Seq   uint64 `json:"seq"`
		Next  string `json:"next_by_subj,omitempty"`
		Batch int    `json:"batch"`
		Bytes int    `json:"max_bytes"`
	}{from, d.subject, most, batchBytes}
	if d.all {
		ask.Next = "" // then the server knows without counting how much is left
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return fail(err)
	}
	conn := d.js.Conn()
	answers := make(chan *nats.Msg, most+1) // and its end
	sub, err := conn.ChanSubscribe(conn.NewInbox(), answers)
	if err != nil {
		return fail(err)
	}
	defer func() { _ = sub.Unsubscribe() }() // a connection that is lost has none
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
		case status == "503": // no server has the stream
			return fail(errUnanswered)
		case status != "" && status != "204":
			return fail(fmt.Errorf("the server answers with status %.3s", status))
		case m.Header.Get(headerBefore) != before: // one before it was lost
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
		f.messages = append(f.messages, &jetstream.RawStreamMsg{Subject: m.Header.Get(jetstream.SubjectHeader), Sequence: seq, Header: m.Header, Data: m.Data})
	}
}
