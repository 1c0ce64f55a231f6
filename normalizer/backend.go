package normalizer

import (
	"strconv"

	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Backend reads the output of one kind of agent.
type Backend interface {
	// Agent returns the agent_kind of the events: ^[a-z][a-z0-9_]*$.
	Agent() string
	// Dialect returns the dialect of a new run.
	Dialect() Dialect
}

// Dialect maps the lines of one run to events, in order. It keeps only the state
// from earlier lines that it needs, and uses no clock and no I/O.
//
// It copies by allow-list: only values that its code names leave the line.
// Package test/fixture/backendtest tests this contract.
type Dialect interface {
	// Line maps one line to out. The line is not blank and has no line ending.
	// If Line returns a fault, out is ignored. Line keeps no reference to line.
	Line(line []byte, out *Out) Fault
	// State returns the state as JSON of at most MaxDialect bytes; nil: no state.
	State() ([]byte, error)
	// Restore sets the state of a new dialect to a result of State.
	Restore(state []byte) error
}

// Stateless is the state of a dialect without one.
type Stateless struct{}

// State implements [Dialect].
func (Stateless) State() ([]byte, error) { return nil, nil }

// Restore implements [Dialect].
func (Stateless) Restore([]byte) error { return nil }

// MaxDialect is the maximum length of the saved state of a dialect, in bytes.
const MaxDialect = 160 << 10

// Out collects the result of one line.
type Out struct {
	Facts   runs.Facts
	Session string // session id, if the line has one; of any length

	events []Event
	final  finalStep
	text   string // of the final step
	end    bool
}

// finalStep is what a line does to the final text of a run.
type finalStep uint8

const (
	keepFinal finalStep = iota
	setFinal
	setDraft
	addDraft
	confirmDraft
	dropFinal
)

// Event adds an event.
func (o *Out) Event(e Event) { o.events = append(o.events, e) }

// Final sets the final text of the run so far. Of one line, only the last call of
// Final, Draft, More, Confirm and NoFinal counts.
func (o *Out) Final(text string) { o.final, o.text = setFinal, text }

// Draft sets a text that becomes the final text only when a later line confirms it.
// Until then the run has no final text.
func (o *Out) Draft(text string) { o.final, o.text = setDraft, text }

// More appends to the draft, or to a confirmed text, which becomes a draft again.
func (o *Out) More(text string) { o.final, o.text = addDraft, text }

// Confirm makes the draft, if there is one, the final text.
func (o *Out) Confirm() { o.final = confirmDraft }

// NoFinal removes the final text and the draft.
func (o *Out) NoFinal() { o.final = dropFinal }

// End ends a run without a process: the completion follows immediately, without
// an exit entry.
func (o *Out) End() { o.end = true }

// Unknown marks the line as one of an unknown type, and adds an event for it.
func (o *Out) Unknown() {
	o.Facts.Unknown = true
	o.Event(Event{Kind: Unknown})
}

// reset clears o after a line. It keeps no reference to the line, because there
// can be many runs without output for hours.
func (o *Out) reset() {
	clear(o.events)
	events := o.events[:0]
	if cap(events) > 64 { // so many are rare
		events = nil
	}
	*o = Out{events: events}
}

// Fault is the reason why a line results in only one Error event.
type Fault uint8

// The faults.
const (
	NoFault     = Fault(scan.OK)
	InvalidUTF8 = Fault(scan.InvalidUTF8)
	InvalidJSON = Fault(scan.InvalidJSON)

	InvalidPayload Fault = iota // a known type without a required field
	MissingType
	MissingThreadID
)

var faults = [...]string{
	InvalidUTF8:     "parse error (redacted): invalid UTF-8",
	InvalidJSON:     "parse error (redacted): invalid JSON",
	InvalidPayload:  "parse error (redacted): invalid payload",
	MissingType:     "normalize error (redacted): missing type",
	MissingThreadID: "normalize error (redacted): missing thread_id",
}

// message returns the message of the Error event: a fixed text and the length of
// the line.
func (f Fault) message(agent string, lineBytes int) string {
	return agent + " stream " + faults[f] + " (line_bytes=" + strconv.Itoa(lineBytes) + ")"
}

// Opaque returns a backend for an agent of an unknown kind. It counts lines, and
// publishes none of their content.
func Opaque(agent string) Backend { return opaque(agent) }

type opaque string

func (o opaque) Agent() string  { return string(o) }
func (opaque) Dialect() Dialect { return opaqueDialect{} }

type opaqueDialect struct{ Stateless }

func (opaqueDialect) Line(line []byte, out *Out) Fault {
	if fault := Fault(scan.Fields(line, nil)); fault != NoFault {
		return fault
	}
	out.Unknown()
	return NoFault
}

// Scrubbed returns a backend that applies scrub to the texts and messages of all
// events, to the final text, and to details. Other texts in the run record are always
// redacted. Scrub must be deterministic, so that a replay results in the same
// events.
func Scrubbed(b Backend, scrub func(string) string) Backend { return scrubbed{b, scrub} }

type scrubbed struct {
	Backend
	scrub func(string) string
}

func (s scrubbed) Dialect() Dialect { return scrubbedDialect{s.Backend.Dialect(), s.scrub} }

type scrubbedDialect struct {
	Dialect
	scrub func(string) string
}

// Detail implements [Detailer]. The fold applies scrub to the details.
func (d scrubbedDialect) Detail(line []byte, details *Details) {
	if from, ok := d.Dialect.(Detailer); ok {
		from.Detail(line, details)
	}
}

func (d scrubbedDialect) Line(line []byte, out *Out) Fault {
	fault := d.Dialect.Line(line, out)
	if fault != NoFault {
		return fault
	}
	scrubbed := func(s *string) *string {
		if s == nil {
			return nil
		}
		if c := d.scrub(*s); c != *s {
			return &c
		}
		return s
	}
	for i := range out.events {
		e := &out.events[i]
		e.Text, e.Message = scrubbed(e.Text), scrubbed(e.Message)
	}
	out.text = d.scrub(out.text)
	return NoFault
}
