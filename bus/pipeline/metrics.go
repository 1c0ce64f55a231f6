package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/telemetry/metrics"
)

// countFrom decides what is counted of a run: what its stored record, if it has one, does not have
// yet. Lines that are only folded again are not counted.
func (s *session) countFrom(r *run, agent string, stored *stored) {
	if s.tally == nil {
		return
	}
	r.tally = s.tally.Agent(agent)
	if stored != nil {
		r.counted = metrics.CountedOf(stored.Record)
	}
}

// observe lets the tally of a run observe its fold, once what is folded was not counted before.
func (r *run) observe() {
	if r.tally != nil && !r.counted.Covers(r.Record) {
		r.Observe(r.tally)
	}
}

// countCut counts a cut that was stored.
func (s *session) countCut() {
	s.lag.to, s.lag.recorded = s.last.CutRaw, s.cutAt
	if s.tally != nil {
		s.tally.Store()
		s.Metrics.Stored()
	}
}

// lag is how far the session is behind RAW.
type lag struct {
	unread   uint64    // entries after the last folded one
	at       time.Time // when that was stored
	none     time.Time // when unread was last 0
	to       uint64    // sequence of RAW up to which all is recorded
	recorded time.Time // when all that was folded was last recorded
}

// tellLag sets the metrics of the lag.
func (s *session) tellLag() {
	if s.tally == nil {
		return
	}
	now := time.Now()
	if s.lag.unread == 0 {
		s.lag.none = now
	}
	recording := s.raw - min(s.lag.to, s.raw)
	if recording == 0 {
		s.lag.recorded = now
	}
	since := s.lag.at
	if s.lag.none.After(since) {
		since = s.lag.none
	}
	if since.IsZero() { // of a term that has read nothing yet
		since = now
	}
	recorded := s.lag.recorded
	if recorded.IsZero() { // of one that has recorded nothing yet
		recorded = since
	}
	s.Metrics.Lag(metrics.Lag{
		Entries: s.lag.unread, Since: since, Recording: recording, Recorded: recorded, Events: s.events.unstored(),
	})
}

// tellStreams sets the metrics of RAW, EVENTS and RUNS.
func (s *session) tellStreams(infos [3]*jetstream.StreamInfo) {
	if s.tally == nil {
		return
	}
	for i, name := range [...]string{"raw", "events", "runs"} {
		s.Metrics.Stream(name, infos[i].State.Msgs, infos[i].State.Bytes, infos[i].Config.MaxBytes)
	}
	if last := infos[0].State.LastSeq; last > s.raw {
		s.lag.unread = max(s.lag.unread, last-s.raw)
	}
}

// causeOf returns the cause of a failed term in a word.
func causeOf(err error) string {
	switch {
	case errors.Is(err, errForeign):
		return "foreign"
	case bucket.Moved(err):
		return "refused"
	case errors.Is(err, reader.ErrStalled):
		return "stalled"
	case errors.Is(err, errLostEnd), errors.Is(err, reader.ErrReplaced):
		return "streams"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return "timeout"
	}
	return "other"
}
