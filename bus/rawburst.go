package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// maxBurst is the maximum number of entries of one run in flight.
const maxBurst = 256

// While other runs write, a burst begins only after a number of entries of the run that
// directly follow each other. Each burst that fails doubles that number, and each complete one
// of at least longBurst entries halves it: a slow server never gets one of maxBurst.
const (
	minPatience = 4
	maxPatience = 512
	longBurst   = 64
)

// AppendAll stores entries in order, as [RawLog.Append] does, but with several of them
// in flight if the stream has allow_batched and no other run writes at the same time.
// After [runs.ErrMoved], Mark shows how many of them are stored; after another error, more
// may be. The caller limits their total size.
func (l *RawLog) AppendAll(ctx context.Context, entries []runs.Entry) error {
	for len(entries) > 0 {
		n := l.burst(ctx, entries[:min(max(l.window, 1), len(entries))])
		if n == 0 { // whatever happened to a burst, Append finds out what is stored
			if err := l.Append(ctx, entries[0]); err != nil {
				return err
			}
			n = 1
		}
		entries = entries[n:]
	}
	return nil
}

// burst sends entries without waiting for an acknowledgement in between. It returns how
// many are known to be stored, always the first ones: 0 if there is only one, or if the
// outcome is unknown.
func (l *RawLog) burst(ctx context.Context, entries []runs.Entry) int {
	if len(entries) < 2 || l.news || l.since != l.bus.since.Load() || !l.stream.CachedInfo().Config.AllowBatchPublish {
		return 0
	}
	n, err := l.publishAll(ctx, entries)
	for _, e := range entries[:n] {
		l.stored(e, l.fence+1)
	}
	switch {
	case err != nil:
		l.patience = min(2*max(l.patience, minPatience), maxPatience)
		l.window = -l.patience
	case n >= longBurst:
		l.patience /= 2
	}
	return n
}

// stored updates the log after e was stored at sequence seq. The number of entries in
// flight grows as long as no other run writes.
func (l *RawLog) stored(e runs.Entry, seq uint64) {
	if seq == l.fence+1 {
		l.window = min(l.window+1, maxBurst)
	} else {
		l.window = -max(l.patience, minPatience)
	}
	l.advance(e, seq)
	l.fence = seq
}

// publishAll publishes at least two entries by fast ingest, and returns how many are
// stored. Each has the expected last sequence of the whole stream, so nothing is between
// them, and the server ends the burst at the first message that is refused or missing.
func (l *RawLog) publishAll(ctx context.Context, entries []runs.Entry) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer cancel()
	conn := l.bus.inside
	inbox := conn.NewInbox()
	answers, err := conn.SubscribeSync(inbox + ".>")
	if err != nil {
		return 0, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	for i, e := range entries {
		if err := conn.PublishMsg(l.burstMsg(entries, i, e, inbox)); err != nil {
			return 0, err
		}
	}
	for {
		m, err := answers.NextMsgWithContext(ctx)
		if err != nil {
			return 0, err
		}
		// All but the last answer have a type: they are for flow control, or say why the
		// burst ends early.
		var answer struct {
			Type  string              `json:"type"`
			Error *jetstream.APIError `json:"error"`
			Seq   uint64              `json:"seq"`   // of the last stored entry
			Count int                 `json:"count"` // of stored entries
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return 0, fmt.Errorf("answer to a burst: %w", err)
		}
		switch n := answer.Count; {
		case answer.Type != "":
		case answer.Error != nil: // the first entry was refused, or RAW is full
			return 0, answer.Error
		case n < 1 || n > len(entries) || answer.Seq != l.fence+uint64(n):
			return 0, fmt.Errorf("answer to a burst: %d entries up to sequence %d", n, answer.Seq)
		case n < len(entries):
			return n, errAgain
		default:
			return n, nil
		}
	}
}

// burstMsg returns the message of the i-th entry of a burst. Its reply subject tells the
// server the place in the burst: INBOX.FLOW.GAP.PLACE.OPERATION.$FI.
func (l *RawLog) burstMsg(entries []runs.Entry, i int, e runs.Entry, inbox string) *nats.Msg {
	const start, add, commit = 0, 1, 2
	m, operation := encodeEntry(l.subject, e), add
	expected := []string{strconv.FormatUint(l.fence+uint64(i), 10)}
	m.Header[jetstream.ExpectedLastSeqHeader] = expected
	switch i {
	case 0:
		m.Header[jetstream.ExpectedLastSubjSeqHeader], operation = expected, start
	case len(entries) - 1:
		operation = commit
	}
	m.Reply = fmt.Sprintf("%s.%d.fail.%d.%d.$FI", inbox, maxBurst, i+1, operation)
	return m
}
