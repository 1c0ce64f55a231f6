package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
)

// holdBytes is the maximum size of all unfinished lines in memory; one line is always
// allowed. At the limit the lines that have waited longest are dropped, and read again
// from RAW when they continue.
const holdBytes = 32 << 20

func (s *session) maxHeld() int {
	if s.hold != 0 {
		return s.hold
	}
	return max(holdBytes, 2*s.MaxLine)
}

// shed drops unfinished lines, except that of keep, until they take at most half of the
// limit.
func (s *session) shed(keep *run) {
	for s.held > s.maxHeld()/2 {
		var oldest *run
		for _, r := range s.runs {
			if r != keep && r.Pending() > 0 && (oldest == nil || r.Seen() < oldest.Seen()) {
				oldest = r
			}
		}
		if oldest == nil {
			return
		}
		s.held -= oldest.Pending()
		oldest.Drop()
		oldest.dropped = true
	}
}

// recall reads a run's unfinished line again, from its entries before seq.
func (s *session) recall(ctx context.Context, r *run, subject string, seq uint64, emit func(normalizer.Message)) error {
	stream, err := s.Bus.JetStream().Stream(ctx, s.Bus.Raw())
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.Bus.Raw(), err)
	}
	for at := r.from; at < seq; {
		m, err := stream.GetMsg(ctx, at, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return fmt.Errorf("run %s: read its line again: %w", r.Record.ID, err)
		}
		if m.Sequence >= seq {
			break
		}
		if e, ok := bus.DecodeEntry(m.Header, m.Data); ok {
			r.Apply(m.Sequence, e, emit)
		}
		at = m.Sequence + 1
	}
	s.held += r.Pending()
	r.dropped = false
	return nil
}
