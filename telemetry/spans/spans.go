// Package spans turns the events of a run into the spans of its trace. It is pure: the same
// events always give the same spans with the same ids.
//
//	run ─┬─ turn ─┬─ tool
//	     │        ├─ question
//	     │        └─ tool (begins a sub-agent) ── agent ── tool
//	     └─ turn
//
// A span is returned with the event that ends it. A [Run] holds what is open: to recover it,
// feed the events of the run again, and ignore the spans that end in them. Its size does not
// grow with the length of the run.
package spans

import (
	"slices"
	"strconv"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// kind is the kind of a span.
type kind uint8

// The kinds of spans.
const (
	Whole    kind = iota // a run
	Turn                 // of the agent
	Tool                 // a call of a tool
	Agent                // a sub-agent, whose parent is the call that began it
	Question             // of the agent, from when it is asked until it is settled
)

// Place is the place of an event in the output of its run, or of one of no line in its raw log.
type Place struct {
	Raw  uint64 // of its entry, if Line is 0
	Line uint64
	Part int
}

func placeOf(e runs.Event) Place {
	p := Place{Line: e.Line, Part: e.Part}
	if e.Line == 0 { // counted by entry of the raw log
		p.Raw = e.Raw
	}
	return p
}

// id identifies the event in its run.
func (p Place) id() string {
	s := strconv.FormatUint(p.Line, 10) + "." + strconv.Itoa(p.Part)
	if p.Line == 0 {
		s += "@" + strconv.FormatUint(p.Raw, 10)
	}
	return s
}

// Span is a span that has ended.
type Span struct {
	Kind       kind
	Run, Agent string
	ID, Parent [8]byte // the parent of a run is the span of its submitter
	Start, End int64   // Unix milliseconds
	Begin      Place   // of the first event
	Last       Place   // of the event that ended it
	Raw, Seq   uint64  // of that event, in RAW and in EVENTS
	After      Place   // of the event that ended the turn before; zero: there was none

	Thread     string // if known
	Error      string // class of the error; "": none
	Incomplete bool   // no event said how it ended

	// Only of a turn.
	Tokens  *runs.Usage // nil: unknown
	Total   bool        // Tokens include those of the thread before this run
	Ended   bool        // the agent ended it
	Message *Place      // of the last text for the user

	// Only of a call.
	Tool, ToolKind, Call string
	Code                 *int // exit code, also of a run

	// Only of a question.
	Asked       string // permission or form
	Outcome, By string // as in the event of its answer; "": no event told
}

// MaxOpen is the maximum number of open calls of a run. A further one has a span without a
// duration.
const MaxOpen = 256

// Limits of what a run keeps.
const (
	maxClosed = 64   // ids of calls that have ended
	maxName   = 256  // bytes
	maxThread = 1024 // bytes, as in a session handle
)

// Run folds the events of a run.
type Run struct {
	run, agent string
	of         agent.Agent

	begun  bool
	start  int64
	last   int64 // time of the last event
	begin  Place
	thread string
	turn   *turn
	before Place // of the event that ended the turn before
	calls  []*call
	closed []string // ids of calls that ended last
	asked  []*call  // questions that are open, at most runs.MaxQuestions; their key is that of the call

	total   runs.Usage // of the thread, where an agent counts that
	counted bool       // total is known
}

type turn struct {
	start   int64
	begin   Place
	id      [8]byte
	tokens  *runs.Usage
	total   bool
	message *Place
	settled bool // nothing followed the end of a step
}

type call struct {
	key, name, kind string
	start           int64
	begin           Place
	id, parent      [8]byte
	question        string // its id
	sub             bool   // begins a sub-agent
	running         bool   // the sub-agent works
}

// New returns a run of an agent without events. Kind is that of the agent, which may not be known.
func New(run, kind string, of agent.Agent) *Run {
	return &Run{run: run, agent: kind, of: of}
}

// Size is about how many bytes of memory the run takes.
func (r *Run) Size() int {
	return 512 + len(r.thread) + 384*len(r.calls) + 64*len(r.closed) + 384*len(r.asked)
}

// Apply folds the next event, and returns the spans that it ends: those of calls, then those
// of turns, and that of the run after its completion.
func (r *Run) Apply(e runs.Event) []Span {
	at := placeOf(e)
	if !r.begun {
		r.begun, r.start, r.begin = true, e.Time, at
	}
	e.Time = max(e.Time, r.last)
	r.last = e.Time
	var out []Span
	m := read(e, &r.of)
	settled := r.turn != nil && r.turn.settled
	if r.turn != nil {
		r.turn.settled = m.text == "step finished"
	}
	switch {
	case m.completion:
		out = r.complete(e, m, settled || m.success)
	case e.Token == "tool_call":
		r.open(e)
		r.called(e, m)
	case e.Token == "tool_result":
		r.open(e)
		out = r.answered(e, m)
	case e.Token == "text_output":
		r.open(e)
		if m.channel == "assistant" {
			r.turn.message = &at
		}
	default:
		out = r.status(e, m)
	}
	return out
}

// open begins a turn unless one is open.
func (r *Run) open(e runs.Event) {
	if r.turn == nil {
		at := placeOf(e)
		r.turn = &turn{start: e.Time, begin: at, id: runs.SpanID(r.run, "turn "+at.id())}
	}
}

// status folds a status or an error.
func (r *Run) status(e runs.Event, m message) (out []Span) {
	if m.session != "" {
		r.thread = cut(m.session, maxThread)
	}
	out = r.ask(e, m)
	begins, restarts, ends, failure := boundary(e.Token, m)
	if restarts && r.turn != nil {
		out = append(out, r.end(e, false, "")...)
	}
	if begins {
		r.open(e)
	}
	if m.usage != nil {
		r.count(e, m)
	}
	if workOfAgent(m.text) {
		for _, c := range r.calls {
			c.running = c.running || c.sub
		}
	}
	if ends && r.turn != nil {
		out = append(out, r.end(e, true, failure)...)
	}
	return out
}

// ask folds a question, or how one was settled.
func (r *Run) ask(e runs.Event, m message) []Span {
	if m.asked.ID != "" && len(r.asked) < runs.MaxQuestions {
		parent := runs.SpanID(r.run, "run")
		if r.turn != nil {
			parent = r.turn.id
		}
		r.asked = append(r.asked, &call{
			key: cut(m.asked.Call, maxName), question: cut(m.asked.ID, maxName), kind: cut(m.asked.Kind, maxName),
			start: e.Time, begin: placeOf(e), id: runs.SpanID(r.run, "question "+placeOf(e).id()), parent: parent,
		})
	}
	return r.settle(e, m.settled, func(q *call) bool { return m.settled.ID != "" && q.question == m.settled.ID })
}

// settle returns the spans of the questions that are over.
func (r *Run) settle(e runs.Event, how decision, over func(q *call) bool) (out []Span) {
	r.asked = slices.DeleteFunc(r.asked, func(q *call) bool {
		is := over(q)
		if is {
			s := r.span(Question, e, q.id, q.parent, q.start, q.begin)
			s.Asked, s.Outcome, s.By, s.Incomplete = q.kind, how.Outcome, how.By, how.Outcome == ""
			out = append(out, s)
		}
		return is
	})
	return out
}

// count adds a usage to the turn, and begins one for tokens outside of any: early versions of
// Codex log no turns.
func (r *Run) count(e runs.Event, m message) {
	used := *m.usage
	first := false
	if m.thread {
		used, r.total = m.usage.Minus(r.total), *m.usage
		first, r.counted = !r.counted, true
	}
	if r.turn == nil && used == (runs.Usage{}) {
		return
	}
	r.open(e)
	used = used.Plus(r.turn.tokens)
	r.turn.tokens, r.turn.total = &used, r.turn.total || first
}

// called folds the begin of a call, or news of it.
func (r *Run) called(e runs.Event, m message) {
	key := m.key()
	if r.find(key) >= 0 || len(r.calls) == MaxOpen || m.phase == "delta" && slices.Contains(r.closed, key) {
		return
	}
	r.closed = slices.DeleteFunc(r.closed, func(other string) bool { return other == key })
	c := r.newCall(e, m)
	r.calls = append(r.calls, c)
}

func (r *Run) newCall(e runs.Event, m message) *call {
	if m.tool.Thread != "" {
		r.thread = cut(m.tool.Thread, maxThread)
	}
	return &call{
		key: m.key(), name: cut(m.tool.Name, maxName), kind: cut(m.tool.Kind, maxName), start: e.Time,
		begin: placeOf(e), id: runs.SpanID(r.run, "tool "+placeOf(e).id()), parent: r.parent(),
		sub: slices.Contains(r.of.Tools.Inner, m.tool.Name),
	}
}

// parent is the span of the sub-agent that works, if there is exactly one, else of the turn.
func (r *Run) parent() [8]byte {
	var found *call
	for _, c := range r.calls {
		if !c.running {
			continue
		}
		own := c.agent(r.run)
		if slices.ContainsFunc(r.calls, func(other *call) bool { return other.running && other.parent == own }) {
			continue
		}
		if found != nil {
			return r.turn.id
		}
		found = c
	}
	if found == nil {
		return r.turn.id
	}
	return found.agent(r.run)
}

// agent is the span of the sub-agent that a call began.
func (c *call) agent(run string) [8]byte { return runs.SpanID(run, "agent of "+string(c.id[:])) }

func (r *Run) find(key string) int {
	return slices.IndexFunc(r.calls, func(c *call) bool { return c.key == key })
}

// answered folds the result of a call.
func (r *Run) answered(e runs.Event, m message) []Span {
	key := m.key()
	i := r.find(key)
	var c *call
	switch {
	case i >= 0:
		c = r.calls[i]
		r.calls = slices.Delete(r.calls, i, i+1)
	case key != "" && slices.Contains(r.closed, key):
		return nil // a second result
	default:
		c = r.newCall(e, m) // a result without a call
	}
	if key != "" {
		r.closed = append(r.closed, key)
		r.closed = r.closed[max(len(r.closed)-maxClosed, 0):]
	}
	failure := ""
	if m.phase == "fail" || m.tool.Status == "failed" {
		failure = "tool_error"
	}
	out := r.settle(e, decision{}, func(q *call) bool { return key != "" && q.key == key }) // it ran without an answer
	return append(out, r.ended(c, e, failure, m.tool.Code, false)...)
}

// ended returns the spans of a call that has ended.
func (r *Run) ended(c *call, e runs.Event, failure string, code *int, incomplete bool) []Span {
	s := r.span(Tool, e, c.id, c.parent, c.start, c.begin)
	s.Tool, s.ToolKind, s.Call, s.Code = c.name, c.kind, c.key, code
	s.Error, s.Incomplete = failure, incomplete
	if !c.sub {
		return []Span{s}
	}
	a := r.span(Agent, e, c.agent(r.run), c.id, c.start, c.begin)
	a.Error, a.Incomplete = failure, incomplete
	return []Span{a, s}
}

func (r *Run) span(kind kind, e runs.Event, id, parent [8]byte, start int64, begin Place) Span {
	return Span{
		Kind: kind, Run: r.run, Agent: r.agent, ID: id, Parent: parent, Start: start, End: max(e.Time, start),
		Begin: begin, Last: placeOf(e), Raw: e.Raw, Seq: e.Seq, After: r.before, Thread: r.thread,
	}
}

// end returns the spans of the open calls and of the turn. Ended means that the agent ended
// the turn.
func (r *Run) end(e runs.Event, ended bool, failure string) (out []Span) {
	out = r.settle(e, decision{}, func(q *call) bool { return q.parent == r.turn.id })
	for _, c := range slices.Backward(r.calls) { // a nested one before its parent
		out = append(out, r.ended(c, e, "", nil, true)...)
		if c.key != "" {
			r.closed = append(r.closed, c.key)
		}
	}
	r.calls, r.closed = nil, r.closed[max(len(r.closed)-maxClosed, 0):]
	t := r.turn
	r.turn = nil
	s := r.span(Turn, e, t.id, runs.SpanID(r.run, "run"), t.start, t.begin)
	s.Tokens, s.Total, s.Ended, s.Message = t.tokens, t.total, ended, t.message
	s.Error, s.Incomplete = failure, !ended && failure == ""
	r.before = s.Last
	return append(out, s)
}

// complete returns the last spans of the run. Ended means that its end is that of the turn.
func (r *Run) complete(e runs.Event, m message, ended bool) (out []Span) {
	if m.session != "" {
		r.thread = cut(m.session, maxThread)
	}
	if r.turn != nil {
		out = r.end(e, ended && m.failure == "", m.failure)
	}
	out = append(out, r.settle(e, decision{}, func(*call) bool { return true })...)
	s := r.span(Whole, e, runs.SpanID(r.run, "run"), [8]byte{}, r.start, r.begin)
	s.Error, s.Code = m.failure, m.exit
	return append(out, s)
}
