package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
)

// upkeep detects streams that were recreated while the normalizer runs, entries that
// were removed before they were read, and a stalled consumer. It keeps RAW below four
// fifths of its size.
func (s *session) upkeep(ctx context.Context) error {
	asked := time.Now()
	raw, err := s.checkStreams(ctx)
	if err != nil {
		return err
	}
	s.raw, err = s.progress.Check(ctx, s.Bus.JetStream(), raw.CachedInfo(), asked, s.Bus.RawSubjects(), s.raw)
	if errors.Is(err, reader.ErrStalled) {
		err = fmt.Errorf("read %s from %d: %w", s.Bus.Raw(), s.raw+1, err)
	}
	if err != nil || s.cut != nil || s.Out != s.Bus.Names {
		return err
	}
	return s.trim(ctx, raw)
}

// checkStreams returns RAW, or an error if a stream is missing, was recreated, or lost
// its end.
func (s *session) checkStreams(ctx context.Context) (jetstream.Stream, error) {
	raw, err := s.Bus.JetStream().Stream(ctx, s.Bus.Raw())
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.Bus.Raw(), err)
	}
	events, err := s.Bus.PublicJetStream().Stream(ctx, s.Out.Events())
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", s.Out.Events(), err)
	}
	runs, err := s.Bus.JetStream().Stream(ctx, bucket.Stream(s.Out.Runs()))
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", s.Out.Runs(), err)
	}
	if s.Out == s.Bus.Names {
		if _, err := s.Bus.JetStream().Stream(ctx, s.Bus.Work()); err != nil { // the next term creates it
			return nil, fmt.Errorf("stream %s: %w", s.Bus.Work(), err)
		}
	}
	current := identity{
		raw:    continued(s.streams.raw, raw.CachedInfo().Created),
		events: continued(s.streams.events, events.CachedInfo().Created),
		runs:   bus.StreamID(runs.CachedInfo().Created),
	}
	if current != s.streams {
		return nil, reader.ErrReplaced
	}
	if s.cut == nil { // otherwise a checkpoint is being written
		err = s.checkEnds(raw.CachedInfo(), events.CachedInfo(), runs.CachedInfo())
	}
	return raw, err
}

// trim removes the oldest quarter of a nearly full RAW, as far as it is recorded.
func (s *session) trim(ctx context.Context, raw jetstream.Stream) error {
	info := raw.CachedInfo()
	state := info.State
	if info.Config.MaxBytes <= 0 || state.Msgs == 0 || state.Bytes < uint64(info.Config.MaxBytes)/5*4 {
		return nil
	}
	recorded := s.last.Raw
	if state.Bytes >= uint64(info.Config.MaxBytes)/10*9 {
		// Rather lose the beginning of one unfinished line after a restart than
		// block all runs until the line is finished.
		recorded = max(recorded, s.last.CutRaw)
	}
	keep := state.FirstSeq + (state.LastSeq-state.FirstSeq)/4 // the first entry to keep
	if keep = min(keep, recorded+1); keep <= state.FirstSeq {
		return nil // nothing of it is recorded yet: RAW refuses entries, and the spools hold them
	}
	if err := raw.Purge(ctx, jetstream.WithPurgeSequence(keep)); err != nil {
		return fmt.Errorf("purge %s: %w", s.Bus.Raw(), err)
	}
	s.log.Warn("the raw stream is nearly full: its oldest entries were removed early",
		zap.Uint64("first", keep), zap.Uint64("bytes", state.Bytes), zap.Int64("max_bytes", info.Config.MaxBytes))
	return nil
}

// checkEnds returns errLostEnd if a stream is shorter than the checkpoint says. The
// next term repairs what is possible.
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
