package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// A nearly full RUNS removes the records that were stored first. Those of open runs that have been silent since must
// stay: a run without a record is in no list, and would begin anew with its next line.
const (
	keepAt   = 8 // from seven eighths of the limits of RUNS on; the oldest eighth of its sequences is looked at
	keepTime = 250 * time.Millisecond
)

// keepOpen looks for keepTime at the records that RUNS would remove next, and stores those of open runs again. It does
// nothing if it is not due, or while a cut is in progress.
func (s *session) keepOpen(ctx context.Context) error {
	if s.unkept == nil || s.cut != nil {
		return nil
	}
	have, limits, now := s.unkept.State, s.unkept.Config, s.unkept.TimeStamp
	s.unkept = nil
	full := limits.MaxBytes > 0 && have.Bytes >= uint64(limits.MaxBytes)/keepAt*(keepAt-1)
	old := limits.MaxAge > 0 && now.Sub(have.FirstTime) >= limits.MaxAge/keepAt*(keepAt-1)
	if have.Msgs == 0 || !full && !old {
		return nil
	}
	s.kept = max(s.kept, have.FirstSeq-1)
	end := have.FirstSeq + (have.LastSeq-have.FirstSeq)/keepAt
	ctx, cancel := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer cancel()
	stream, err := s.out.Stream(ctx, limits.Name)
	for began := time.Now(); err == nil && s.kept < end && time.Since(began) < keepTime; {
		var m *jetstream.RawStreamMsg
		m, err = stream.GetMsg(ctx, s.kept+1, jetstream.WithGetMsgSubject(bucket.Subject(s.Out.Runs(), ">")))
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			s.kept = end
			return nil
		case err == nil:
			if err = s.storeAgain(ctx, m); err == nil {
				s.kept = m.Sequence
			}
		}
	}
	if err != nil {
		return fmt.Errorf("keep open runs in %s, from %d on: %w", limits.Name, s.kept+1, err)
	}
	return nil
}

// storeAgain stores the record of an open run as it is, unless another one was stored since m was.
func (s *session) storeAgain(ctx context.Context, m *jetstream.RawStreamMsg) error {
	text := m.Header.Get(bus.HeaderRun)
	h, err := runs.ParseHeader(text, nil)
	if err != nil || h.State.Final() || h.Waits() { // a removed record has no header
		return nil
	}
	if r := s.runs[h.ID]; r != nil {
		if r.revision == m.Sequence && !r.dirty { // the next cut stores it
			r.dirty, r.due = true, true
			s.dirty++
		}
		return nil
	}
	_, err = bucket.New(s.Bus.JetStream(), s.Out.Runs()).Put(ctx, h.ID, m.Data, nats.Header{bus.HeaderRun: {text}},
		bucket.If(m.Sequence))
	if bucket.Moved(err) {
		return nil
	}
	return err
}
