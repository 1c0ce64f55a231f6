package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

var errOtherStream = errors.New("a stream was made anew")

// lookAround notices streams that were made anew under the normalizer, and
// keeps RAW below four fifths of its size: what is recorded can go, the oldest first.
func (s *session) lookAround(ctx context.Context) error {
	raw, err := s.Bus.js.Stream(ctx, s.Bus.Raw())
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.Bus.Raw(), err)
	}
	events, err := s.Bus.jsPub.Stream(ctx, s.Out.Events())
	if err != nil {
		return fmt.Errorf("stream %s: %w", s.Out.Events(), err)
	}
	info := raw.CachedInfo()
	if streamID(info.Created) != s.streams.raw || streamID(events.CachedInfo().Created) != s.streams.events {
		return errOtherStream
	}
	state := info.State
	if s.cut != nil || s.Out != s.Bus.Names || info.Config.MaxBytes <= 0 || state.Msgs == 0 {
		return nil
	}
	if state.Bytes < uint64(info.Config.MaxBytes)/5*4 {
		return nil
	}
	keep := state.FirstSeq + (state.LastSeq-state.FirstSeq)/4 // a quarter of the entries
	if keep = min(keep, s.last.Raw+1); keep <= state.FirstSeq {
		return nil // nothing that old is recorded yet: RAW refuses more, and the spools wait
	}
	if err := raw.Purge(ctx, jetstream.WithPurgeSequence(keep)); err != nil {
		return fmt.Errorf("purge %s: %w", s.Bus.Raw(), err)
	}
	s.log.Warn("the raw stream is nearly full: its oldest entries went before their time",
		zap.Uint64("first", keep), zap.Uint64("bytes", state.Bytes), zap.Int64("max_bytes", info.Config.MaxBytes))
	return nil
}
