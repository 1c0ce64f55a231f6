// Package chaos breaks linesman on purpose, and has one checker that says
// afterwards whether its promises hold: those of docs/promises.md.
//
//	fault ──▶ linesman ──▶ streams ──▶ Gather ──▶ Evidence ─┐
//	agents ──▶ journals ──────────────────────▶ []Agent ────┴▶ Check ──▶ what is wrong
//
// Check is a function of what it is given: it reads no stream and knows no
// server, so each kind of damage is planted in its own test. What must be in
// EVENTS and RUNS it makes itself, from RAW, with the packages normalizer and
// runs; what must be in RAW it takes from the agents' journals.
package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// Evidence is all that the streams of a linesman hold, and what it has logged.
type Evidence struct {
	Names  bus.Names
	Raw    []Message          // the raw stream, in its order
	Events []Message          // the event stream, in its order
	Runs   map[string]Message // the last message of each run's key
	Work   []string           // subjects of the tasks that wait
	Others []Message          // what the other buckets hold
	Logs   map[string][]byte  // by the name of the file

	// Secrets are words that may be in no log: tokens, passwords, keys. Each is
	// under what it is.
	Secrets map[string]string
}

// Message is one stored message.
type Message struct {
	Seq     uint64
	Subject string
	Header  nats.Header
	Body    []byte
}

// Agent is what is known of a run from outside of linesman.
type Agent struct {
	Run    string
	Out    Written
	Err    Written
	In     []byte // lines that a live one has accepted
	Starts int    // how often the program was started
	Code   *int   // the exit code that it told its journal; nil: it came not so far

	// Ends are the reasons with which its run may have ended; none means that it
	// exited by itself, with Code.
	Ends []runs.Reason
	// Cut says that the run was cancelled: RAW need not hold all of its output.
	Cut bool
	// Failed says that who submitted the run was told that it failed, or nothing:
	// it may be queued in RAW and nowhere else, until somebody ends it as lost.
	Failed bool
}

// Written is what an agent wrote to one of its outputs.
type Written struct {
	Bytes []byte // what it wrote, and at the end what it was about to write
	Sure  int    // so many of them are known to have been written
}

// Sentinel begins each word that an agent writes where nothing may be copied
// from.
const Sentinel = fixture.Sentinel

// How much of an agent's stderr RAW keeps: its beginning, and its end.
const (
	errHead = 1 << 20
	errTail = 64 << 10
)

// MaxProblems bounds what Check tells.
const MaxProblems = 50

// Check says what is wrong, a sentence for each; nothing where all promises
// hold. Every run of RAW must be among the agents, and the other way round.
func Check(e Evidence, agents []Agent) []string {
	c := &checker{Evidence: e, agents: map[string]Agent{}, folds: map[string]*normalizer.Fold{},
		logs: map[string]*rawLog{}}
	for _, a := range agents {
		if _, twice := c.agents[a.Run]; twice {
			c.report(a.Run, "belongs to two agents")
		}
		c.agents[a.Run] = a
	}
	c.sequences("RAW", e.Raw)
	c.sequences("EVENTS", e.Events)
	events := c.raw()
	for _, run := range slices.Sorted(maps.Keys(c.agents)) {
		c.log(c.agents[run])
	}
	c.events(events)
	c.completions()
	c.records()
	for _, subject := range e.Work {
		c.report(subject[strings.LastIndexByte(subject, '.')+1:], "is still in WORK")
	}
	c.sentinels()
	return c.problems
}

type checker struct {
	Evidence
	agents   map[string]Agent
	folds    map[string]*normalizer.Fold
	logs     map[string]*rawLog
	problems []string
}

func (c *checker) report(run, format string, args ...any) {
	if len(c.problems) < MaxProblems {
		c.problems = append(c.problems, "run "+run+": "+fmt.Sprintf(format, args...))
	}
}

// sequences sees that a stream has lost none of its messages.
func (c *checker) sequences(stream string, all []Message) {
	for i, m := range all {
		if m.Seq != uint64(i)+1 {
			c.report("of any name", "%s has sequence %d in place %d", stream, m.Seq, i+1)
			return
		}
	}
}

// raw folds RAW, and returns the events that must come of it.
func (c *checker) raw() []Message {
	var want []Message
	for _, m := range c.Raw {
		part := strings.Split(m.Subject, ".")
		if len(part) != 4 {
			c.report("of any name", "RAW has a message on %s", m.Subject)
			continue
		}
		agent, run := part[2], part[3]
		if _, known := c.agents[run]; !known && c.logs[run] == nil {
			c.report(run, "is in RAW, and nobody started it")
		}
		if c.logs[run] == nil {
			c.logs[run] = &rawLog{}
			c.folds[run] = normalizer.NewFold(codex.Backend{}, run, 0)
		}
		entry, err := decode(m)
		if err != nil {
			c.report(run, "entry %d of RAW: %v", m.Seq, err)
			continue
		}
		if problem := c.logs[run].add(entry); problem != "" {
			c.report(run, "entry %d of RAW: %s", m.Seq, problem)
		}
		c.folds[run].Apply(m.Seq, entry, func(msg normalizer.Message) {
			h := nats.Header{}
			h.Set(bus.HeaderPos, fmt.Sprintf("%d %d %d %d", msg.Raw, msg.Line, msg.Part, msg.Time))
			want = append(want, Message{uint64(len(want)) + 1, c.Names.EventSubject(agent, run, msg.Token), h, msg.Body})
		})
	}
	return want
}

// decode reads an entry as docs/subjects.md describes it.
func decode(m Message) (e runs.Entry, err error) {
	e = runs.Entry{Kind: runs.Kind(m.Header.Get(bus.HeaderRecord)), Body: m.Body}
	if !e.Kind.Known() {
		return e, fmt.Errorf("has kind %.20q", e.Kind)
	}
	if e.Time, err = strconv.ParseInt(m.Header.Get(bus.HeaderTime), 10, 64); err != nil {
		return e, fmt.Errorf("has no time")
	}
	if e.Kind == runs.Out || e.Kind == runs.ErrOut || e.Kind == runs.Sent {
		e.Offset, err = strconv.ParseInt(m.Header.Get(bus.HeaderOffset), 10, 64)
	}
	return e, err
}

// rawLog is the raw log of one run, put together.
type rawLog struct {
	out       []byte
	err       []runs.Entry
	in        []byte
	started   int
	queued    int
	processes []talk // of a live run, that were to be started
	cancelled bool
	exit      *runs.Exit
}

// add takes the next entry, and says what is wrong with it.
func (l *rawLog) add(e runs.Entry) string {
	if l.exit != nil {
		return "comes behind the exit"
	}
	switch e.Kind {
	case runs.Queued:
		if l.queued++; l.queued > 1 || l.started > 0 {
			return "is a second beginning"
		}
	case runs.Started:
		if l.started++; l.started > 1 {
			return "is a second start"
		}
	case runs.Out:
		if at := int64(len(l.out)); e.Offset != at {
			return fmt.Sprintf("has offset %d, and %d bytes came before it", e.Offset, at)
		}
		if len(e.Body) == 0 || len(e.Body) > runs.MaxChunk {
			return fmt.Sprintf("has %d bytes", len(e.Body))
		}
		l.out = append(l.out, e.Body...)
		if n := len(l.processes); n > 0 {
			l.processes[n-1].lost = false
		}
	case runs.ErrOut:
		l.err = append(l.err, e)
	case runs.Sent:
		if at := int64(len(l.in)); e.Offset != at {
			return fmt.Sprintf("for the agent has offset %d, and %d bytes came before it", e.Offset, at)
		}
		l.in = append(l.in, e.Body...)
		if n := len(l.processes); n > 0 {
			l.processes[n-1].in = append(l.processes[n-1].in, e.Body...)
		}
	case runs.Proc:
		var p runs.Process
		switch n := len(l.processes); {
		case json.Unmarshal(e.Body, &p) != nil:
			return "is no process"
		case p.Do == runs.ProcessStart:
			l.processes = append(l.processes, talk{lost: true})
		case p.Do == runs.ProcessEnd && n > 0:
			last := &l.processes[n-1]
			last.lost, last.why = last.lost || p.Reason == runs.ReasonLost, p.Reason
		}
	case runs.Cancelled:
		l.cancelled = true
		if l.started == 0 { // then nobody starts it any more
			l.exit = &runs.Exit{Reason: runs.ReasonCancelled}
		}
	case runs.Exited:
		x := runs.DecodeExit(e.Body)
		l.exit = &x
	}
	return ""
}

// log compares a run's raw log with what its agent wrote.
func (c *checker) log(a Agent) {
	l := c.logs[a.Run]
	switch {
	case l == nil:
		c.report(a.Run, "is not in RAW")
	case a.Starts > max(1, len(l.processes)):
		c.report(a.Run, "its agent was started %d times", a.Starts)
	case l.exit == nil && !l.waits(a):
		c.report(a.Run, "has no exit in RAW")
	}
	if l == nil || l.exit == nil {
		return
	}
	c.end(a, *l.exit)
	n := min(len(l.out), len(a.Out.Bytes))
	if at := different(l.out[:n], a.Out.Bytes[:n]); at < n {
		c.report(a.Run, "byte %d of stdout is another one in RAW", at)
	} else if len(l.out) > len(a.Out.Bytes) {
		c.report(a.Run, "RAW has %d bytes of stdout, and the agent wrote %d", len(l.out), len(a.Out.Bytes))
	} else if len(l.out) < a.Out.Sure && !(a.Cut && l.cancelled) {
		c.report(a.Run, "RAW has %d bytes of stdout, and the agent wrote %d", len(l.out), a.Out.Sure)
	}
	killed := slices.Contains(a.Ends, runs.ReasonLost) // somewhere in what it was sent
	if killed && !bytes.HasPrefix(l.in, a.In) || !killed && !took(l.processes, a.In) {
		c.report(a.Run, "RAW has %d bytes for the agent, and it took others, which are %d: %s", len(l.in), len(a.In),
			untaken(l.processes, a.In))
	}
	c.stderr(a, l)
}

// waits reports whether a run has not begun, and need not.
func (l *rawLog) waits(a Agent) bool {
	return a.Failed && l.queued == 1 && l.started == 0 && l.exit == nil
}

// end compares how a run ended with how it must have.
func (c *checker) end(a Agent, x runs.Exit) {
	allowed := a.Ends
	if len(allowed) == 0 {
		allowed = []runs.Reason{runs.ReasonExited}
	}
	switch {
	case !slices.Contains(allowed, x.Reason):
		c.report(a.Run, "ended as %s, and may as %v%s", x.Reason, allowed, strings.TrimSuffix(": "+x.Why, ": "))
	case len(a.Ends) == 0 && (a.Starts != 1 || a.Code == nil):
		c.report(a.Run, "exited, and its agent was started %d times and did not end", a.Starts)
	case len(a.Ends) == 0 && (x.Code == nil || *x.Code != *a.Code):
		c.report(a.Run, "exited with %d, and RAW says %s", *a.Code, runs.Encode(x))
	}
}

// stderr compares what is kept of stderr: its first part whole, and its end.
func (c *checker) stderr(a Agent, l *rawLog) {
	var next int64
	for _, e := range l.err {
		end := e.Offset + int64(len(e.Body))
		switch {
		case end > int64(len(a.Err.Bytes)) || !bytes.Equal(e.Body, a.Err.Bytes[e.Offset:end]):
			c.report(a.Run, "stderr at %d is not what the agent wrote", e.Offset)
			return
		case e.Offset < next:
			c.report(a.Run, "stderr at %d is there twice", e.Offset)
			return
		case e.Offset > next && (next < errHead || end < int64(a.Err.Sure)-errTail):
			c.report(a.Run, "stderr from %d to %d is missing", next, e.Offset)
			return
		}
		next = end
	}
	if next < int64(a.Err.Sure) && !(a.Cut && l.cancelled) {
		c.report(a.Run, "stderr ends at %d in RAW, and the agent wrote %d", next, a.Err.Sure)
	}
}

// different is the first place where two texts of one length differ.
func different(a, b []byte) int {
	if bytes.Equal(a, b) {
		return len(a)
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

// events compares EVENTS with what RAW gives, message by message.
func (c *checker) events(want []Message) {
	for i := range max(len(want), len(c.Events)) {
		switch {
		case i >= len(c.Events):
			c.report(runOf(want[i]), "event %d, on %s, is missing: EVENTS ends before it", i+1, want[i].Subject)
			return
		case i >= len(want):
			c.report(runOf(c.Events[i]), "event %d, on %s, is one that RAW does not give", i+1, c.Events[i].Subject)
			return
		}
		have, want := c.Events[i], want[i]
		switch pos, wantPos := have.Header.Get(bus.HeaderPos), want.Header.Get(bus.HeaderPos); {
		case have.Subject != want.Subject:
			c.report(runOf(want), "event %d is on %s, and must be on %s", i+1, have.Subject, want.Subject)
			return
		case pos != wantPos:
			c.report(runOf(want), "event %d has position %q, and must have %q", i+1, pos, wantPos)
			return
		case !bytes.Equal(have.Body, want.Body):
			c.report(runOf(want), "event %d, on %s, has another body than RAW gives", i+1, have.Subject)
			return
		}
	}
}

// completions sees that every run has one, behind all its other events: what
// readers rely on.
func (c *checker) completions() {
	done := map[string]bool{}
	for _, m := range c.Events {
		run := runOf(m)
		if done[run] {
			c.report(run, "has an event behind its completion, at %d", m.Seq)
		}
		done[run] = done[run] || strings.HasSuffix(m.Subject, "."+normalizer.CompletionToken)
	}
	for run, l := range c.logs {
		if !done[run] && !l.waits(c.agents[run]) {
			c.report(run, "has no completion")
		}
	}
}

// runOf is the run that a message belongs to, by its subject.
func runOf(m Message) string {
	part := strings.Split(m.Subject, ".")
	switch {
	case part[0] == "$KV":
		return part[len(part)-1]
	case len(part) < 4:
		return m.Subject
	}
	return part[3]
}

// records compares RUNS with the records that RAW gives.
func (c *checker) records() {
	for run := range c.Runs {
		if c.folds[run] == nil {
			c.report(run, "has a record, and is not in RAW")
		}
	}
	for _, run := range slices.Sorted(maps.Keys(c.folds)) {
		m, ok := c.Runs[run]
		var have struct {
			Record *runs.Record    `json:"record"`
			State  json.RawMessage `json:"state"`
		}
		if !ok || json.Unmarshal(m.Body, &have) != nil || have.Record == nil {
			c.report(run, "has no record")
			continue
		}
		want := c.folds[run].Record
		if got, want := plain(have.Record), plain(want); !bytes.Equal(got, want) {
			c.report(run, "its record is not what RAW gives: %s", firstDifference(got, want))
			continue
		}
		if got := m.Header.Get(bus.HeaderRun); got != want.Header().Text() {
			c.report(run, "its row is not that of its record")
		}
		if want.State.Final() && len(have.State) > 0 {
			c.report(run, "has ended, and its record has the state of an open one")
		}
	}
}

// plain is a record as text, without what other runs of its thread had used.
func plain(r *runs.Record) []byte {
	c := *r
	c.Before, c.Own, c.All = nil, nil, nil
	return c.JSON()
}

// firstDifference names the first field in which two records differ.
func firstDifference(got, want []byte) string {
	var g, w map[string]json.RawMessage
	if json.Unmarshal(got, &g) != nil || json.Unmarshal(want, &w) != nil {
		return "it is no JSON"
	}
	for _, key := range slices.Sorted(maps.Keys(w)) {
		if !bytes.Equal(g[key], w[key]) {
			return fmt.Sprintf("%s is %.80s, and must be %.80s", key, g[key], w[key])
		}
	}
	return "it has more fields"
}

// sentinels sees that what may be in RAW alone is nowhere else.
func (c *checker) sentinels() {
	found := false
	for _, m := range c.Raw {
		found = found || bytes.Contains(m.Body, []byte(Sentinel))
	}
	if !found && len(c.Raw) > 0 {
		c.report("of any name", "RAW has no sentinel: nothing can be said of leaks")
	}
	leak := func(where string, run string, b ...[]byte) {
		for _, b := range b {
			if bytes.Contains(b, []byte(Sentinel)) {
				c.report(run, "%s has bytes that may be in RAW alone", where)
				return
			}
		}
	}
	all := func(where string, messages []Message) {
		for _, m := range messages {
			leak(where, runOf(m), m.Body, []byte(m.Subject), []byte(fmt.Sprint(m.Header)))
		}
	}
	all("EVENTS", c.Events)
	all("RUNS", slices.Collect(maps.Values(c.Runs)))
	all("another bucket", c.Others)
	for name, text := range c.Logs {
		for _, leak := range fixture.Leaks(text, c.Secrets) {
			c.report("of any name", "log %s: %s", name, leak)
		}
	}
}
