package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Tally collects what happened in runs since the last cut of a normalizer. It is counted when
// the records of the cut are stored, which happens once however often a normalizer folds the
// same lines. Its methods and those of its agents are for one goroutine. They do not allocate
// for a line, and use no lock.
type Tally struct {
	n      *Normalizer
	agents map[string]*Agent
}

// Agent is the tally of the runs of an agent kind. It is the observer of their folds.
type Agent struct {
	tools    *agent.Tools
	n        *Normalizer
	name     string // value of the label agent
	now, cut *sums
}

// sums are the numbers of a cut. Those with a version are by the value of its label.
type sums struct {
	turns [len(turnStatuses)]ends
	calls [agent.Classes][len(callStatuses)]ends

	started  map[string]int64
	ended    map[[2]string]ends // by state and reason
	waited   ends
	versions map[string]versioned
	tokens   [len(tokenTypes)]int64
	thought  int64
	events   map[string]int64
	output   [5]int64

	asked    map[string]int64   // by kind
	settled  map[[3]string]ends // by kind, outcome and decider
	messages map[string]int64   // by status
}

// versioned are the numbers that have the label version.
type versioned struct{ lines, malformed, unknown, drift int64 }

// ends are things that ended, and how long they took, in milliseconds, where that is known. Of
// more than maxTaken in a cut, only the number is counted.
type ends struct {
	n    int64
	took []int64
}

const maxTaken = 1 << 16

func (e *ends) add(took int64) {
	e.n++
	if took >= 0 && len(e.took) < maxTaken {
		e.took = append(e.took, took)
	}
}

// observe adds how long they took to a histogram.
func (e *ends) observe(v *prometheus.HistogramVec, labels ...string) {
	if len(e.took) == 0 {
		return
	}
	h := v.WithLabelValues(labels...)
	for _, ms := range e.took {
		h.Observe(float64(ms) / 1e3)
	}
}

func (e *ends) reset() { e.n, e.took = 0, e.took[:0] }

func newSums() *sums {
	return &sums{started: map[string]int64{}, ended: map[[2]string]ends{}, versions: map[string]versioned{},
		events: map[string]int64{}, asked: map[string]int64{}, settled: map[[3]string]ends{},
		messages: map[string]int64{}}
}

func (s *sums) reset() {
	for i := range s.turns {
		s.turns[i].reset()
	}
	for i := range s.calls {
		for j := range s.calls[i] {
			s.calls[i][j].reset()
		}
	}
	clear(s.started)
	clear(s.ended)
	clear(s.versions)
	clear(s.events)
	clear(s.asked)
	clear(s.settled)
	clear(s.messages)
	s.waited.reset()
	s.tokens, s.thought, s.output = [len(tokenTypes)]int64{}, 0, [5]int64{}
}

// NewTally returns the tally of a term, nil for a nil n.
func (n *Normalizer) NewTally() *Tally {
	if n == nil {
		return nil
	}
	return &Tally{n: n, agents: map[string]*Agent{}}
}

// Agent returns the tally of an agent kind. Kinds that are not known have one together.
func (t *Tally) Agent(kind string) *Agent {
	name := oneOf(kind, t.n.known)
	a := t.agents[name]
	if a == nil {
		known, _ := t.n.agents.Find(name) // else its tools are not known
		a = &Agent{n: t.n, name: name, tools: &known.Tools, now: newSums(), cut: newSums()}
		t.agents[name] = a
	}
	return a
}

// Cut ends what the next Store counts. It must not be called again before that.
func (t *Tally) Cut() {
	for _, a := range t.agents {
		a.now, a.cut = a.cut, a.now
	}
}

// Store counts what Cut ended.
func (t *Tally) Store() {
	for _, a := range t.agents {
		a.store()
		a.cut.reset()
	}
}

// TurnEnded implements [normalizer.Observer].
func (a *Agent) TurnEnded(how runs.Turn, took int64) { a.now.turns[how].add(took) }

// CallEnded implements [normalizer.Observer].
func (a *Agent) CallEnded(kind, name, status string, took int64) {
	a.now.calls[a.tools.Class(kind, name)][callStatus(status)].add(took)
}

// Asked implements [normalizer.Observer].
func (a *Agent) Asked(kind string) { a.now.asked[oneOf(kind, questionKinds)]++ }

// Settled implements [normalizer.Observer]. Only people take time that matters.
func (a *Agent) Settled(kind, outcome, by string, took int64) {
	how := [3]string{oneOf(kind, questionKinds), oneOf(outcome, outcomes), oneOf(by, deciders)}
	if how[2] != "person" {
		took = -1
	}
	e := a.now.settled[how]
	e.add(took)
	a.now.settled[how] = e
}

// Message implements [normalizer.Observer].
func (a *Agent) Message(status string) { a.now.messages[oneOf(status, messageStatuses)]++ }

// Counted is how much of a run was counted.
type Counted struct {
	seq                                        uint64 // in RAW, of the last entry; 0: it is of another RAW
	started, ended                             bool
	lines, malformed, unknown, drift           int64
	bytes, errBytes, dropped, gaps, unreadable int64
	thought                                    int64
	tokens                                     [len(tokenTypes)]int64
	events                                     [8]int64 // by eventTokens
}

// eventTokens are the tokens of all kinds of events but the completion.
var eventTokens = normalizer.Tokens()[:len(normalizer.Tokens())-1]

// CountedOf returns a run that was counted completely. Its record is of the same RAW, or of another one.
func CountedOf(r *runs.Record, same bool) Counted {
	c := Counted{
		started: r.StartedAt != 0, ended: r.State.Final(),
		lines: r.Lines, malformed: r.Malformed, unknown: r.Unknown,
		bytes: r.Bytes, errBytes: r.ErrBytes, dropped: r.Dropped, gaps: r.Gaps, unreadable: r.Bad,
	}
	if same {
		c.seq = r.Seq
	}
	if s := r.Spent(); s.Total != nil && !s.Earlier {
		c.tokens, c.thought = tokens(s.Total), s.Total.ReasoningOutput
	}
	if r.Drift != nil {
		c.drift = r.Drift.Count
	}
	for i, token := range eventTokens {
		c.events[i] = r.Events[token]
	}
	return c
}

// Covers reports whether the entry after those of a record was counted. In another RAW only lines tell
// that: what was behind the last one is counted again.
func (c *Counted) Covers(r *runs.Record) bool {
	if c.ended || c.seq == 0 {
		return c.ended || r.Lines < c.lines
	}
	return r.Seq < c.seq
}

// Record adds what a record has beyond what was counted of its run. Nothing is counted twice: what
// is smaller than before counts again once it is larger.
func (a *Agent) Record(c *Counted, r *runs.Record) {
	to, now := a.now, CountedOf(r, true)
	if now.started && !c.started {
		to.started[oneOf(r.Source, sources)]++
		if r.QueuedAt != 0 {
			to.waited.add(max(r.StartedAt-r.QueuedAt, 0))
		}
	}
	if now.ended && !c.ended {
		how := [2]string{string(r.State), reason(r.Reason)}
		ended := to.ended[how]
		took := int64(-1)
		if r.StartedAt != 0 {
			took = max(r.EndedAt-r.StartedAt, 0)
		}
		ended.add(took)
		to.ended[how] = ended
		to.events[normalizer.CompletionToken]++
	}
	now.seq, now.started, now.ended = c.seq, now.started || c.started, now.ended || c.ended
	if v := (versioned{
		more(&now.lines, c.lines), more(&now.malformed, c.malformed), more(&now.unknown, c.unknown),
		more(&now.drift, c.drift),
	}); v != (versioned{}) {
		label := a.n.version(a.name, r.Version)
		sum := to.versions[label]
		to.versions[label] = versioned{
			sum.lines + v.lines, sum.malformed + v.malformed, sum.unknown + v.unknown, sum.drift + v.drift,
		}
	}
	for i := range tokenTypes {
		to.tokens[i] = plus(to.tokens[i], more(&now.tokens[i], c.tokens[i]))
	}
	to.thought = plus(to.thought, more(&now.thought, c.thought))
	for i, token := range eventTokens {
		if n := more(&now.events[i], c.events[i]); n > 0 {
			to.events[token] += n
		}
	}
	for i, n := range [len(to.output)]int64{
		more(&now.bytes, c.bytes), more(&now.errBytes, c.errBytes), more(&now.dropped, c.dropped), more(&now.gaps, c.gaps),
		more(&now.unreadable, c.unreadable),
	} {
		to.output[i] = plus(to.output[i], n)
	}
	*c = now
}

// more returns how much more is than before, at least 0, and keeps the larger one in now.
func more(now *int64, before int64) int64 {
	*now = max(*now, before, 0)
	return *now - max(before, 0)
}

// plus returns the sum of numbers that are not negative, or the largest number: an agent may
// print any number of tokens.
func plus(a, b int64) int64 { return a + min(b, math.MaxInt64-a) }

// store counts the cut of an agent.
func (a *Agent) store() {
	n, s := a.n, a.cut
	for i, status := range turnStatuses {
		if status != "" {
			n.turns.WithLabelValues(a.name, status).Add(float64(s.turns[i].n))
			s.turns[i].observe(n.turnTime, a.name, status)
		}
	}
	for i := range s.calls {
		kind := agent.Class(i).String()
		for j, status := range callStatuses {
			if e := s.calls[i][j]; e.n > 0 {
				n.calls.WithLabelValues(a.name, kind, status).Add(float64(e.n))
				e.observe(n.callTime, a.name, kind, status)
			}
		}
	}
	for source, started := range s.started {
		n.started.WithLabelValues(a.name, source).Add(float64(started))
	}
	for how, e := range s.ended {
		n.ended.WithLabelValues(a.name, how[0], how[1]).Add(float64(e.n))
		e.observe(n.runTime, a.name, how[0])
	}
	s.waited.observe(n.wait)
	for version, v := range s.versions {
		n.lines.WithLabelValues(a.name, version).Add(float64(v.lines))
		n.malformed.WithLabelValues(a.name, version).Add(float64(v.malformed))
		n.unknown.WithLabelValues(a.name, version).Add(float64(v.unknown))
		n.drift.WithLabelValues(a.name, version).Add(float64(v.drift))
	}
	for i, kind := range tokenTypes {
		n.tokens.WithLabelValues(a.name, kind).Add(float64(s.tokens[i]))
	}
	n.thought.WithLabelValues(a.name).Add(float64(s.thought))
	for token, events := range s.events {
		n.events.WithLabelValues(a.name, token).Add(float64(events))
	}
	for kind, asked := range s.asked {
		n.asked.WithLabelValues(a.name, kind).Add(float64(asked))
	}
	for how, e := range s.settled {
		n.settled.WithLabelValues(a.name, how[0], how[1], how[2]).Add(float64(e.n))
		e.observe(n.answerTime, a.name, how[0])
	}
	for status, messages := range s.messages {
		n.messages.WithLabelValues(a.name, status).Add(float64(messages))
	}
	for i, c := range n.output {
		c.WithLabelValues(a.name).Add(float64(s.output[i]))
	}
}
