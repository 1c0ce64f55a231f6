package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/runs"
)

// A nearly full RUNS removes the records that were stored first. Those of open runs that have been silent since must
// stay: a run without a record is in no list, and would start again at its next line. So from keepFrom of the limits
// of RUNS on they are stored again, while they are in the oldest keepPart of its sequences.
const (
	keepFrom  = 7. / 8
	keepPart  = 8
	keepMany  = 1024                   // records that are looked at before those of open runs are stored
	keepPause = 500 * time.Millisecond // between looks at all that is new there
	keepTime  = 250 * time.Millisecond // for storing, at a time
)

// keeper looks for the records of open runs that RUNS would remove next.
type keeper struct {
	looked uint64         // sequence of RUNS up to which it has looked
	looks  chan oldRuns   // receives what it finds; nil: it does not look
	open   []bucket.Entry // what it has found, without values
}

// oldRuns are the open runs of a part of RUNS.
type oldRuns struct {
	open []bucket.Entry        // without values
	upTo uint64                // the end of the part
	full *jetstream.StreamInfo // of RUNS; nil: it is not nearly full
	more bool                  // there is another part
	err  error
}

// keepOpen begins to look for open runs if RUNS is nearly full. Info is that of RUNS; nil: it is asked for after a
// pause.
func (s *session) keepOpen(ctx context.Context, info *jetstream.StreamInfo) {
	if s.keep.looks != nil || info != nil && !nearlyFull(info) {
		return
	}
	s.keep.looks = make(chan oldRuns, 1)
	go func(looks chan<- oldRuns, looked uint64) {
		looks <- s.findOpen(ctx, looked, info)
	}(s.keep.looks, s.keep.looked)
}

func nearlyFull(info *jetstream.StreamInfo) bool {
	have, limits := info.State, info.Config
	full := limits.MaxBytes > 0 && float64(have.Bytes) >= keepFrom*float64(limits.MaxBytes)
	old := limits.MaxAge > 0 && float64(info.TimeStamp.Sub(have.FirstTime)) >= keepFrom*float64(limits.MaxAge)
	return have.Msgs > 0 && (full || old)
}

// findOpen finds open runs in the next records of RUNS.
func (s *session) findOpen(ctx context.Context, looked uint64, info *jetstream.StreamInfo) (found oldRuns) {
	found.upTo = looked
	if info == nil {
		select {
		case <-ctx.Done():
			return found
		case <-time.After(keepPause):
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 4*reader.AnswerTimeout)
	defer cancel()
	stream, err := s.Bus.JetStream().Stream(ctx, bucket.Stream(s.Out.Runs()))
	if err != nil {
		found.err = err
		return found
	}
	if info == nil {
		info = stream.CachedInfo()
	}
	if !nearlyFull(info) {
		return found
	}
	have := info.State
	end := have.FirstSeq + (have.LastSeq-have.FirstSeq)/keepPart
	found.full, found.upTo = info, max(looked, have.FirstSeq-1)
	for n := 0; n < keepMany && found.upTo < end; n++ {
		m, err := stream.GetMsg(ctx, found.upTo+1, jetstream.WithGetMsgSubject(bucket.Subject(s.Out.Runs(), ">")))
		if err != nil {
			if !errors.Is(err, jetstream.ErrMsgNotFound) {
				found.err = err
			}
			return found
		}
		found.upTo = m.Sequence
		h, err := runs.ParseHeader(m.Header.Get(bus.HeaderRun), nil) // a removed record has none
		if err == nil && !h.State.Final() && !h.Waits() {
			found.open = append(found.open, bucket.Entry{Key: h.ID, Revision: m.Sequence})
		}
	}
	found.more = found.upTo < end
	return found
}

// hasLooked takes what was found, and looks further while RUNS is nearly full.
func (s *session) hasLooked(ctx context.Context, found oldRuns) error {
	s.keep.looks, s.keep.looked = nil, found.upTo
	s.keep.open = append(s.keep.open, found.open...)
	switch {
	case found.err != nil: // it looks again with the next upkeep
		s.log.Warn("RUNS is nearly full, and cannot be read: it may remove open runs", zap.Error(found.err))
	case found.more:
		s.keepOpen(ctx, found.full)
	case found.full != nil:
		s.keepOpen(ctx, nil)
	}
	return s.storeAgain(ctx)
}

// recordAgain makes the next cut store a run.
func (s *session) recordAgain(r *run) {
	if !r.dirty {
		r.dirty, r.due = true, true
		s.dirty++
	}
}

// storeAgain stores the records of open runs that were found, unless they have changed since. While a cut is in
// progress, it leaves that for its end.
func (s *session) storeAgain(ctx context.Context) error {
	if s.cut != nil || len(s.keep.open) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reader.AnswerTimeout)
	defer cancel()
	records := bucket.New(s.Bus.JetStream(), s.Out.Runs())
	for began := time.Now(); len(s.keep.open) > 0 && time.Since(began) < keepTime; {
		e := s.keep.open[0]
		s.keep.open = s.keep.open[1:]
		if r := s.runs[e.Key]; r != nil {
			if r.revision == e.Revision {
				s.recordAgain(r)
			}
			continue
		}
		have, err := records.Get(ctx, e.Key)
		if err == nil && have.Revision == e.Revision {
			header := nats.Header{bus.HeaderRun: {have.Header.Get(bus.HeaderRun)}}
			var revision uint64
			revision, err = records.Put(ctx, e.Key, have.Value, header, bucket.If(e.Revision))
			s.last.Runs = max(s.last.Runs, revision)
		}
		if err != nil && !bucket.Moved(err) {
			return err
		}
	}
	return nil
}
