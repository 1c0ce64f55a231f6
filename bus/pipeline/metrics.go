package pipeline

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/telemetry/metrics"
)

// countFrom decides what is counted of a run: what its stored record, if it has one, does not have
// yet. Entries that are only folded again are not counted.
func (s *session) countFrom(r *run, agent string, stored *stored) {
	if s.tally == nil {
		return
	}
	r.tally = s.tally.Agent(agent)
	if stored != nil {
		r.counted = metrics.CountedOf(stored.Record, stored.Raw == s.streams.raw)
	}
}

// observe lets a run collect what its fold observes, once what is folded was not counted before.
func (r *run) observe() {
	if r.tally != nil && !r.counted.Covers(r.Record) {
		r.Observe(&r.observed)
	}
}

// count counts what a run's record, which is about to be stored, has beyond the one before.
func (r *run) count() {
	if r.tally != nil {
		r.observed.tell(r.tally)
		r.tally.Record(&r.counted, r.Record)
	}
}

// observations are what the fold of a run observed since its last record. They are counted with the next one: what no
// record has is folded again after a failure.
type observations []observation

// maxObserved is how many there are before a run is due to be recorded.
const maxObserved = 256

type observation struct {
	of    byte // one of those below
	turn  runs.Turn
	texts [3]string
	took  int64
}

const (
	ofTurn = iota
	ofCall
	ofAsked
	ofSettled
	ofMessage
)

// TurnEnded implements [normalizer.Observer], as do the others.
func (o *observations) TurnEnded(how runs.Turn, took int64) {
	*o = append(*o, observation{of: ofTurn, turn: how, took: took})
}

// CallEnded is for a tool call.
func (o *observations) CallEnded(kind, name, status string, took int64) {
	*o = append(*o, observation{of: ofCall, texts: [3]string{kind, name, status}, took: took})
}

// Asked is for a question.
func (o *observations) Asked(kind string) {
	*o = append(*o, observation{of: ofAsked, texts: [3]string{kind}})
}

// Settled is for the end of a question.
func (o *observations) Settled(kind, outcome, by string, took int64) {
	*o = append(*o, observation{of: ofSettled, texts: [3]string{kind, outcome, by}, took: took})
}

// Message is for a message of a conversation.
func (o *observations) Message(status string) {
	*o = append(*o, observation{of: ofMessage, texts: [3]string{status}})
}

// tell reports the observations to an observer, and empties the list.
func (o *observations) tell(to normalizer.Observer) {
	for _, e := range *o {
		switch e.of {
		case ofTurn:
			to.TurnEnded(e.turn, e.took)
		case ofCall:
			to.CallEnded(e.texts[0], e.texts[1], e.texts[2], e.took)
		case ofAsked:
			to.Asked(e.texts[0])
		case ofSettled:
			to.Settled(e.texts[0], e.texts[1], e.texts[2], e.took)
		case ofMessage:
			to.Message(e.texts[0])
		}
	}
	if len(*o) > maxObserved { // what one burst took is not kept
		*o = nil
	}
	clear(*o)
	*o = (*o)[:0]
}

// countCut counts a cut that was stored.
func (s *session) countCut() {
	s.lag.to, s.lag.recorded = s.last.Recorded(), s.cutAt
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
	case reader.IsAway(err): // also without a leader
		return "timeout"
	}
	return "other"
}
