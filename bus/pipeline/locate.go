package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
)

// identity identifies the streams, beyond their names.
type identity struct{ raw, events, runs string }

// continued returns the id of a stream: the known one, if the stream is still the same.
func continued(known string, created time.Time) string {
	if id := bus.StreamID(created); known != id && !strings.HasPrefix(known, id+".") {
		return id
	}
	return known
}

// shortened returns the new id of a stream that has lost its end, as after a power
// failure: what was derived from it, or refers to it, becomes invalid.
func shortened(id string) string {
	id, times, _ := strings.Cut(id, ".")
	n, _ := strconv.Atoi(times)
	return id + "." + strconv.Itoa(n+1)
}

// resume determines which events, of those derived again from RAW, EVENTS has already.
type resume struct {
	next   uint64         // sequence of the next event
	cursor normalizer.Pos // EVENTS has all up to this event; without a part: up to the end of this entry
	passed bool           // the event at the cursor was derived
	beyond uint64         // EVENTS has this many more events, which are still to be derived
	all    bool           // all earlier events are stored: what comes
}

// have reports whether EVENTS has the event at pos. It must be called once for every
// derived event, in order.
func (r *resume) have(pos normalizer.Pos) bool {
	switch {
	case r.all:
		return false
	case pos.Raw < r.cursor.Raw:
		return true
	case pos.Raw == r.cursor.Raw && !r.passed:
		r.passed = pos.Line == r.cursor.Line && pos.Part == r.cursor.Part
		return true
	case r.beyond > 0:
		r.beyond--
		return true
	}
	r.all = true
	return false
}

// past reports whether all events that EVENTS had at the beginning are derived from RAW up to a sequence.
func (r *resume) past(raw uint64) bool { return r.all || r.beyond == 0 && raw >= r.cursor.Raw }

// locate determines from the streams where to resume.
func (s *session) locate(ctx context.Context) error {
	_, infos, err := s.lookUp(ctx)
	if err != nil {
		return err
	}
	raw, events, runs := infos[0], infos[1], infos[2]
	s.canBurst = events.Config.AllowBatchPublish
	if s.last, s.lastRev, err = s.loadCheckpoint(ctx); err != nil {
		return err
	}
	last := events.State.LastSeq
	cursor, found, err := s.cursor(ctx, last)
	if err != nil {
		return err
	}
	known := s.last.RawID != ""
	if err := s.identify(raw, events, runs); err != nil {
		return err
	}
	if err := s.revise(ctx, raw, events, runs); err != nil {
		return err
	}
	if err := s.allOurs(ctx, max(s.last.CutEvents, s.last.Base), events); err != nil {
		return err
	}
	s.resume = resume{next: last + 1}
	switch {
	case last <= s.base: // no events of this RAW yet
		s.resume.all = true
	case found:
		s.resume.cursor = cursor
	case !known: // unknown what EVENTS had: rather duplicate events than lose some
		s.log.Warn("the event stream is empty and there is no checkpoint")
		s.resume.all = true
	default: // the last event is gone: only counts are known
		s.resume.cursor, s.resume.beyond = normalizer.Pos{Raw: s.last.CutRaw}, last-max(s.last.CutEvents, s.base)
		if pos, ok := bus.ParsePos(s.last.CutPos); ok {
			s.resume.cursor = pos
		}
	}
	s.log.Info("reading", zap.String("stream", s.Bus.Raw()), zap.Uint64("from", s.last.Raw+1), zap.Uint64("events", last))
	return nil
}

// identify determines whether the streams are those of the checkpoint. A stream that
// lost its end counts as another one.
func (s *session) identify(raw, events, runs *jetstream.StreamInfo) error {
	c := s.last
	s.streams = identity{
		raw: continued(c.RawID, raw.Created), events: continued(c.EventsID, events.Created), runs: bus.StreamID(runs.Created),
	}
	for _, of := range []struct {
		info  *jetstream.StreamInfo
		id    *string
		known string // id in the checkpoint
		want  uint64 // last sequence in the checkpoint
		text  string
	}{
		{events, &s.streams.events, c.EventsID, c.CutEvents, "the event stream lost its end"},
		{raw, &s.streams.raw, c.RawID, max(c.Raw, c.CutRaw), "the raw stream lost its end"},
	} {
		if *of.id != of.known || of.info.State.LastSeq >= of.want {
			continue
		}
		if err := reader.Followed(of.info); err != nil {
			return err
		}
		s.log.Warn(of.text, zap.Uint64("last", of.info.State.LastSeq), zap.Uint64("want", of.want))
		*of.id = shortened(*of.id)
	}
	return nil
}

// revise removes from the checkpoint what does not apply to the current streams.
func (s *session) revise(ctx context.Context, raw, events, runs *jetstream.StreamInfo) error {
	c, last := &s.last, events.State.LastSeq
	known := c.RawID != ""
	otherRaw := known && c.RawID != s.streams.raw
	if !known { // was it lost together with RAW?
		otherRaw = last > 0 && events.State.LastTime.Before(raw.Created)
	}
	otherEvents := c.EventsID != s.streams.events
	switch {
	case otherRaw: // EVENTS has the events of the former RAW
		s.log.Warn("the raw stream is another one")
		*c = bus.Checkpoint{Base: last}
	case otherEvents: // derive all events from RAW
		*c = bus.Checkpoint{Base: c.Base}
	case c.RunsID != "" && c.RunsID != s.streams.runs: // derive all records from RAW
		s.log.Warn("the run records were recreated")
		c.Raw, c.Runs, c.Known = 0, 0, 0
	case runs.State.LastSeq < c.Runs: // some records are older than the checkpoint says, or lost: update all
		if err := reader.Followed(runs); err != nil {
			return err
		}
		s.log.Warn("the run records lost their end", zap.Uint64("last", runs.State.LastSeq), zap.Uint64("want", c.Runs))
		c.Raw, c.Runs, c.Known = 0, runs.State.LastSeq, 0
	}
	c.RawID, c.EventsID, c.RunsID = s.streams.raw, s.streams.events, s.streams.runs
	if otherRaw || known && otherEvents {
		if err := s.saveCheckpoint(ctx, *c); err != nil {
			return err
		}
	}
	c.Base = min(c.Base, last)
	s.base, s.raw = c.Base, c.Raw
	return nil
}

// lookUp returns RAW, and the current state of RAW, EVENTS and RUNS. The error is that of a
// missing stream, or of one that a newer version of linesman wrote.
func (s *session) lookUp(ctx context.Context) (raw jetstream.Stream, infos [3]*jetstream.StreamInfo, err error) {
	names := []string{s.Bus.Raw(), s.Out.Events(), bucket.Stream(s.Out.Runs())}
	if s.Out == s.Bus.Names {
		names = append(names, s.Bus.Work()) // the next term creates it
	}
	for i, name := range names {
		stream, err := s.out.Stream(ctx, name)
		if err != nil {
			return nil, infos, err
		}
		if err := bus.CheckFormat(stream.CachedInfo().Config.Metadata); err != nil {
			return nil, infos, fmt.Errorf("stream %s: %w", name, err)
		}
		if i == 0 {
			raw = stream
		}
		if i < len(infos) {
			infos[i] = stream.CachedInfo()
		}
	}
	return raw, infos, nil
}

// cursor returns the position of the event at sequence last, if it is still there.
func (s *session) cursor(ctx context.Context, last uint64) (normalizer.Pos, bool, error) {
	if last == 0 {
		return normalizer.Pos{}, false, nil
	}
	_, header, err := reader.AskLeader(
		ctx,
		s.Bus.PublicJetStream().Conn(),
		s.Out.Events(),
		fmt.Appendf(nil, `{"seq":%d}`, last),
	)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return normalizer.Pos{}, false, nil
	}
	if err != nil {
		return normalizer.Pos{}, false, fmt.Errorf("read the last event: %w", err)
	}
	pos, ok := bus.ParsePos(header.Get(bus.HeaderPos))
	if !ok {
		return pos, false, foreign(s.Out.Events(), last)
	}
	return pos, true, nil
}

// foreign returns ErrForeign for a message without a position.
func foreign(stream string, seq uint64) error {
	return fmt.Errorf("%w: %s, sequence %d, has no %s header", errForeign, stream, seq, bus.HeaderPos)
}

// maxChecked is the maximum number of events to check when a normalizer starts: more
// than are in flight.
const maxChecked = 100_000

// allOurs returns ErrForeign if another program has written an event after a sequence.
// A foreign message among ours takes the sequence of one that is then refused, and the
// fences of those after it match: so the last event is ours, and an earlier one is
// missing.
func (s *session) allOurs(ctx context.Context, after uint64, info *jetstream.StreamInfo) error {
	if last := info.State.LastSeq; last > maxChecked {
		after = max(after, last-maxChecked)
	}
	return s.out.ReadEvents(s.Out.EventSubjects(), after+1).
		UpTo(ctx, info, info.State.LastSeq, func(m *jetstream.RawStreamMsg) error {
			if _, ours := bus.ParsePos(m.Header.Get(bus.HeaderPos)); !ours {
				return foreign(s.Out.Events(), m.Sequence)
			}
			return nil
		})
}

// surplus returns how many events of a former RAW EVENTS has of the run, after the
// sequence that the run's record covers.
func (s *session) surplus(ctx context.Context, agent, id string, covers uint64) (n uint64, err error) {
	if s.base <= covers {
		return 0, nil
	}
	events, err := s.out.Stream(ctx, s.Out.Events())
	if err != nil {
		return 0, err
	}
	err = s.out.ReadEvents(s.Out.EventSubject(agent, id, "*"), covers+1).
		UpTo(ctx, events.CachedInfo(), s.base, func(*jetstream.RawStreamMsg) error {
			n++
			return nil
		})
	if err != nil {
		return 0, fmt.Errorf("count the events of run %s: %w", id, err)
	}
	return n, nil
}

// upkeep detects streams that were recreated while the normalizer runs, entries that
// were removed before they were read, and a stalled consumer. It keeps RAW below four
// fifths of its size, and open runs in RUNS.
func (s *session) upkeep(ctx context.Context, consumer *reader.Ordered) error {
	asked := time.Now()
	raw, records, err := s.checkStreams(ctx)
	if err != nil {
		return err
	}
	s.raw, err = consumer.Check(ctx, raw.CachedInfo(), asked, s.raw)
	if errors.Is(err, reader.ErrStalled) {
		err = fmt.Errorf("read %s from %d: %w", s.Bus.Raw(), s.raw+1, err)
	}
	if err == nil {
		if s.raw >= raw.CachedInfo().State.LastSeq { // what was unread may have expired
			s.lag.unread = 0
		}
		s.keepOpen(ctx, records)
		err = s.storeAgain(ctx)
	}
	if err != nil || s.cut != nil || s.Out != s.Bus.Names {
		return err
	}
	return s.trim(ctx, raw)
}

// checkStreams returns RAW and what RUNS has, or an error if a stream is missing, was recreated, or lost
// its end.
func (s *session) checkStreams(ctx context.Context) (jetstream.Stream, *jetstream.StreamInfo, error) {
	raw, infos, err := s.lookUp(ctx)
	if err != nil {
		return nil, nil, err
	}
	current := identity{
		raw:    continued(s.streams.raw, infos[0].Created),
		events: continued(s.streams.events, infos[1].Created),
		runs:   bus.StreamID(infos[2].Created),
	}
	if current != s.streams {
		return nil, nil, reader.ErrReplaced
	}
	s.tellStreams(infos)
	if s.cut != nil { // a checkpoint is being written
		return raw, infos[2], nil
	}
	return raw, infos[2], s.checkEnds(infos[0], infos[1], infos[2])
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
		recorded = max(recorded, s.last.Recorded())
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
