package reader

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

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

	longRest = 4 * BatchMessages // what is left of a long answer, above which a consumer reads it
)

// NewDirect returns a reader of a subject from a sequence on, 1 or more, by batched
// direct gets: they leave no state on the server, so the limit of consumers does not
// apply. Set all if the subject covers the whole stream: then the server need not count
// the remaining messages of a subject. Live is the subject on which the server republishes
// stored messages, for [Reader.Follow].
func NewDirect(js jetstream.JetStream, stream, subject, live string, all bool, from uint64) *Reader {
	filter := subject
	if all {
		filter = ""
	}
	r := &Reader{
		js: js, stream: stream, subjects: []string{subject}, live: []string{live}, whole: all, from: from,
		Log: zap.NewNop(),
		fit: func(info *jetstream.StreamInfo) error {
			if !info.Config.AllowDirect {
				return fmt.Errorf("%w: stream %s has no allow_direct; a normalizer that starts sets it", ErrUnfit, stream)
			}
			return nil
		},
	}
	r.open = func(from uint64, patience time.Duration) source {
		d := &direct{
			conn: js.Conn(), stream: stream, filter: filter, from: from, want: min(r.Want, BatchMessages), size: firstBatch,
			batch: BatchMessages, patience: patience,
		}
		if all && r.Want == 0 {
			d.longRest = longRest
			d.long = func(from uint64) *consumer {
				return &consumer{
					js: js, stream: stream, subject: subject, from: from, batch: d.batch, bytes: batchBytes, patience: patience,
				}
			}
		}
		return d
	}
	return r
}

// direct is a source of batched direct gets.
type direct struct {
	conn     *nats.Conn
	stream   string
	filter   string // the subject; "": all
	from     uint64
	want     int           // size of the first batch; 0: that of the next ones
	size     int           // of the next batch
	batch    int           // of the largest one
	patience time.Duration // for the next message of an answer

	long     func(from uint64) *consumer // reads most of a long answer; nil: none does
	longRest uint64                      // what is left of one
	rest     *consumer                   // that reads now; nil: none
}

func (d *direct) close() {
	if d.rest != nil {
		d.rest.close()
	}
}

// next returns the next batch. What is left after some batches, if it is more than that, is read by a consumer, which
// costs the server half: it writes no headers into the messages. If it brings nothing more, or cannot be created, as at
// the limit of consumers, direct gets go on where it ended.
func (d *direct) next(ctx context.Context) ([]*jetstream.RawStreamMsg, bool, error) {
	if d.rest != nil {
		messages, more, err := d.rest.next(ctx)
		if n := len(messages); n > 0 {
			d.from = messages[n-1].Sequence + 1
		}
		if ctx.Err() == nil && (!more || err != nil) {
			d.close()
			if d.rest = nil; err != nil {
				d.long = nil
			}
			more, err = true, nil
		}
		return messages, more, err
	}
	size := d.want
	if d.want = 0; size == 0 {
		size, d.size = d.size, min(2*d.size, d.batch)
	}
	messages, pending, err := d.get(ctx, size)
	if n := len(messages); n > 0 {
		d.from = messages[n-1].Sequence + 1
	}
	if d.long != nil && d.size == d.batch && pending > d.longRest {
		d.rest = d.long(d.from)
	}
	return messages, pending > 0, err
}

// directGet is the prefix of the subjects of direct gets; the stream's name follows.
const directGet = "$JS.API.DIRECT.GET."

// Headers of the answers to direct gets.
const (
	headerStatus  = "Status"
	headerPending = "Nats-Num-Pending"
	headerBefore  = "Nats-Last-Sequence" // of the previous message in the batch
)

// get requests one batch, and returns its messages and how many more the server has.
func (d *direct) get(ctx context.Context, size int) (messages []*jetstream.RawStreamMsg, pending uint64, err error) {
	body, err := json.Marshal(struct {
		Seq   uint64 `json:"seq"`
		Next  string `json:"next_by_subj,omitempty"`
		Batch int    `json:"batch"`
		Bytes int    `json:"max_bytes"`
	}{d.from, d.filter, size, batchBytes})
	if err != nil {
		return nil, 0, err
	}
	stored := make([]jetstream.RawStreamMsg, 0, size)
	before := "0"
	err = ask(ctx, d.conn, directGet+d.stream, body, size+1, d.patience, func(m *nats.Msg) (more bool, err error) {
		status := m.Header.Get(headerStatus)
		switch {
		case status == "404":
			return false, nil
		case status == "503": // no server answers for the stream
			return false, errUnanswered
		case status != "" && status != "204":
			return false, fmt.Errorf("unexpected status %.3s", status)
		case m.Header.Get(headerBefore) != before: // a message was lost
			return false, errUnanswered
		case status == "204":
			if pending, err = strconv.ParseUint(m.Header.Get(headerPending), 10, 64); err != nil {
				err = errUnanswered
			}
			return false, err
		}
		before = m.Header.Get(jetstream.SequenceHeader)
		seq, err := strconv.ParseUint(before, 10, 64)
		if err != nil || len(stored) == size {
			return false, errUnanswered
		}
		stored = append(stored, jetstream.RawStreamMsg{
			Subject: m.Header.Get(jetstream.SubjectHeader), Sequence: seq, Header: m.Header, Data: m.Data, Time: stamp(m),
		})
		messages = append(messages, &stored[len(stored)-1])
		return true, nil
	})
	return messages, pending, err
}

// ask sends a request that has at most a number of answers. It calls each with them until that wants no more, or none
// has come for as long as patience. They go to a subject of its own: when that is unsubscribed, the server drops a
// request imported from another account.
func ask(ctx context.Context, conn *nats.Conn, subject string, body []byte, most int, patience time.Duration,
	each func(*nats.Msg) (more bool, err error)) error {
	answers := make(chan *nats.Msg, most)
	sub, err := conn.ChanSubscribe(conn.NewInbox(), answers)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails if the connection is lost
	if err := conn.PublishRequest(subject, sub.Subject, body); err != nil {
		return err
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		var m *nats.Msg
		select {
		case m = <-answers:
		default:
			late.Reset(patience)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-late.C:
				return errUnanswered
			case m = <-answers:
			}
		}
		if more, err := each(m); !more || err != nil {
			return err
		}
	}
}
