package pipeline

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// lookAround notices streams that were made anew under the normalizer, and
// entries that were removed, so that no consumer will bring them, and a
// consumer that stands still. It keeps RAW below four fifths of its size: what
// is recorded can go, the oldest first.
func (s *session) lookAround(ctx context.Context) error {
	raw, err := s.Bus.JetStream().Stream(ctx, s.Bus.Raw())
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.Bus.Raw(), err)
	}
	events, err := s.Bus.PublicJetStream().Stream(ctx, s.Out.Events())
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.Out.Events(), err)
	}
	runs, err := s.Bus.JetStream().Stream(ctx, bucket.Stream(s.Out.Runs()))
	if err != nil {
		return fmt.Errorf("bucket %s: %w", s.Out.Runs(), err)
	}
	if s.Out == s.Bus.Names {
		if _, err := s.Bus.JetStream().Stream(ctx, s.Bus.Work()); err != nil { // it is made again at the beginning of a term
			return fmt.Errorf("stream %s: %w", s.Bus.Work(), err)
		}
	}
	info := raw.CachedInfo()
	if (identity{continued(s.streams.raw, info.Created), continued(s.streams.events, events.CachedInfo().Created), bus.StreamID(runs.CachedInfo().Created)}) != s.streams {
		return reader.ErrReplaced
	}
	if s.cut == nil { // else a checkpoint is being written
		if err := s.checkEnds(info, events.CachedInfo(), runs.CachedInfo()); err != nil {
			return err
		}
	}
	state := info.State
	if state.LastSeq > s.raw {
		more, err := reader.Holds(ctx, s.Bus.JetStream().Conn(), s.Bus.Raw(), s.Bus.RawSubjects(), s.raw+1, 0)
		if err != nil {
			return err
		}
		told := s.gone
		s.gone = absence{s.raw, state.LastSeq}
		switch {
		case more:
			s.gone = absence{}
			if s.still.At(s.raw) {
				return fmt.Errorf("read %s from %d: %w", s.Bus.Raw(), s.raw+1, reader.ErrStalled)
			}
		case !reader.Replicated(info): // the end of RAW was removed before it was read
			s.raw = state.LastSeq
		case told.behind == s.raw && told.upTo != 0:
			// Told twice, some seconds apart: of two leaders, while one does not know
			// that it is none any more, one tells of an end that the other has not.
			s.raw = told.upTo
		}
	}
	if s.cut != nil || s.Out != s.Bus.Names || info.Config.MaxBytes <= 0 || state.Msgs == 0 {
		return nil
	}
	if state.Bytes < uint64(info.Config.MaxBytes)/5*4 {
		return nil
	}
	recorded := s.last.Raw
	if state.Bytes >= uint64(info.Config.MaxBytes)/10*9 {
		// Better that one run lacks the beginning of its unfinished line after
		// a restart than that all wait until it is finished.
		recorded = max(recorded, s.last.CutRaw)
	}
	keep := state.FirstSeq + (state.LastSeq-state.FirstSeq)/4 // a quarter of the entries
	if keep = min(keep, recorded+1); keep <= state.FirstSeq {
		return nil // nothing that old is recorded yet: RAW refuses more, and the spools wait
	}
	if err := raw.Purge(ctx, jetstream.WithPurgeSequence(keep)); err != nil {
		return fmt.Errorf("purge %s: %w", s.Bus.Raw(), err)
	}
	s.log.Warn("the raw stream is nearly full: its oldest entries went before their time",
		zap.Uint64("first", keep), zap.Uint64("bytes", state.Bytes), zap.Int64("max_bytes", info.Config.MaxBytes))
	return nil
}

// checkEnds returns errLostEnd if a stream is shorter than the checkpoint says. The
// next term repairs what it can.
func (s *session) checkEnds(raw, events, runs *jetstream.StreamInfo) error {
	for _, c := range []struct {
		info *jetstream.StreamInfo
		had  uint64
	}{{raw, max(s.last.Raw, s.last.CutRaw)}, {events, s.last.CutEvents}, {runs, s.last.Runs}} {
		if c.info.State.LastSeq < c.had && reader.Followed(c.info) == nil {
			return fmt.Errorf("%s: %w", c.info.Config.Name, errLostEnd)
		}
	}
	return nil
}

// absence says that a stream had nothing behind one sequence, up to another;
// none was told where both are 0.
type absence struct{ behind, upTo uint64 }
