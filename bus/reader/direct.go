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
		return &direct{js.Conn(), stream, filter, from, min(r.Want, BatchMessages), firstBatch, patience}
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
	patience time.Duration // for the next message of an answer
}

func (d *direct) close() {}

func (d *direct) next(ctx context.Context) ([]*jetstream.RawStreamMsg, bool, error) {
	size := d.want
	if d.want = 0; size == 0 {
		size, d.size = d.size, min(2*d.size, BatchMessages)
	}
	messages, pending, err := d.get(ctx, size)
	if n := len(messages); n > 0 {
		d.from = messages[n-1].Sequence + 1
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

// get requests one batch, and returns its messages and how many more the server has. The
// answer goes to a subject of its own: when that is unsubscribed, the server drops a
// request imported from another account.
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
	answers := make(chan *nats.Msg, size+1) // and the end marker
	sub, err := d.conn.ChanSubscribe(d.conn.NewInbox(), answers)
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = sub.Unsubscribe() }() // fails if the connection is lost
	if err := d.conn.PublishRequest(directGet+d.stream, sub.Subject, body); err != nil {
		return nil, 0, err
	}
	late := time.NewTimer(d.patience)
	defer late.Stop()
	for before := "0"; ; {
		var m *nats.Msg
		select {
		case <-ctx.Done():
			return messages, 0, ctx.Err()
		case <-late.C:
			return messages, 0, errUnanswered
		case m = <-answers:
		}
		late.Reset(d.patience)
		status := m.Header.Get(headerStatus)
		switch {
		case status == "404":
			return messages, 0, nil
		case status == "503": // no server answers for the stream
			return messages, 0, errUnanswered
		case status != "" && status != "204":
			return messages, 0, fmt.Errorf("unexpected status %.3s", status)
		case m.Header.Get(headerBefore) != before: // a message was lost
			return messages, 0, errUnanswered
		case status == "204":
			if pending, err = strconv.ParseUint(m.Header.Get(headerPending), 10, 64); err != nil {
				err = errUnanswered
			}
			return messages, pending, err
		}
		before = m.Header.Get(jetstream.SequenceHeader)
		seq, err := strconv.ParseUint(before, 10, 64)
		if err != nil {
			return messages, 0, errUnanswered
		}
		messages = append(messages, &jetstream.RawStreamMsg{
			Subject: m.Header.Get(jetstream.SubjectHeader), Sequence: seq, Header: m.Header, Data: m.Data,
			Time: stamp(m),
		})
	}
}
