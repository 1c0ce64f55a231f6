package normalizer

import (
	"strconv"
	"strings"
	"unicode/utf8"

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
	// Activity takes the place of Facts.Activity, if it is not empty.
	Activity Activity
	// Command is the output of a command that ended, if the line has one: it is read for the
	// run record unless a later one makes that unnecessary.
	Command Output

	agent  string
	events []Event
	data   []byte // envelopes of the tool events of the line
	final  finalStep
	text   string     // of the final step
	value  scan.Value // string of the line, in place of text
	end    bool

	observed bool        // ended is used
	ended    []endedCall // by the line
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

// Final sets the final text of the run so far, unless the text is blank. Of one line, only
// the last call of Final, Draft, More, Confirm and NoFinal counts.
func (o *Out) Final(text string) {
	if strings.TrimSpace(text) != "" {
		o.final, o.text, o.value = setFinal, text, scan.Value{}
	}
}

// FinalOf is Final for a string of the line.
func (o *Out) FinalOf(text scan.Value) {
	if !isBlank(text) {
		o.final, o.text, o.value = setFinal, "", text
	}
}

func isBlank(text scan.Value) bool {
	if text.Len > 0 && ' ' < text.Raw[0] && text.Raw[0] < utf8.RuneSelf && text.Raw[0] != '\\' {
		return false // as most
	}
	return strings.TrimSpace(text.Text()) == ""
}

// Draft sets a text that becomes the final text only when a later line confirms it.
// Until then the run has no final text.
func (o *Out) Draft(text string) { o.final, o.text, o.value = setDraft, text, scan.Value{} }

// More appends to the draft, or to a confirmed text, which becomes a draft again.
func (o *Out) More(text string) { o.final, o.text, o.value = addDraft, text, scan.Value{} }

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
	o.Event(Event{Kind: unknownLine})
}

// reset clears o for the next line. It keeps memory for it.
func (o *Out) reset() {
	clear(o.events)
	o.events, o.data, o.Activity = kept(o.events, 64), kept(o.data, 8<<10), Activity{}
	clear(o.Facts.Edits)
	o.Facts, o.Command, o.Session = runs.Facts{Edits: kept(o.Facts.Edits, runs.MaxEdits)}, Output{}, ""
	o.final, o.text, o.value, o.end = keepFinal, "", scan.Value{}, false
	if len(o.ended) > 0 {
		clear(o.ended)
		o.ended = kept(o.ended, 64)
	}
}

// kept returns b without its elements, or nil if it has room for more than limit of them: so many
// are rare.
func kept[T any](b []T, limit int) []T {
	if cap(b) > limit {
		return nil
	}
	return b[:0]
}

// Fault is the reason why a line results in only one Error event.
type Fault uint8

// The faults.
const (
	NoFault     = Fault(scan.OK)
	invalidUTF8 = Fault(scan.InvalidUTF8)
	invalidJSON = Fault(scan.InvalidJSON)

	InvalidPayload Fault = iota // a known type without a required field
	MissingType
	MissingThreadID
)

var faults = [...]string{
	invalidUTF8:     "parse error (redacted): invalid UTF-8",
	invalidJSON:     "parse error (redacted): invalid JSON",
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

// scrubOf returns what a backend applies to texts; nil: nothing.
func scrubOf(b Backend) (scrub func(string) string) {
	for {
		s, ok := b.(scrubbed)
		if !ok {
			return scrub
		}
		outer := scrub
		if b, scrub = s.Backend, s.scrub; outer != nil {
			scrub = func(text string) string { return outer(s.scrub(text)) }
		}
	}
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
	if fault == NoFault {
		d.clean(out)
	}
	return fault
}

// converse maps an entry, if the dialect knows a conversation. The methods of [Conversation] use it.
func (d scrubbedDialect) converse(out *Out, mapTo func(Conversation)) {
	if c, ok := d.Dialect.(Conversation); ok {
		mapTo(c)
		d.clean(out)
	}
}

// Sent implements [Conversation].
func (d scrubbedDialect) Sent(line []byte, out *Out) {
	d.converse(out, func(c Conversation) { c.Sent(line, out) })
}

// SentDetail implements [Conversation]. The fold applies scrub to the details.
func (d scrubbedDialect) SentDetail(line []byte, details *Details) {
	if c, ok := d.Dialect.(Conversation); ok {
		c.SentDetail(line, details)
	}
}

// Process implements [Conversation].
func (d scrubbedDialect) Process(p *runs.Process, out *Out) {
	d.converse(out, func(c Conversation) { c.Process(p, out) })
}

// Command implements [Conversation].
func (d scrubbedDialect) Command(command *runs.Command, out *Out) {
	d.converse(out, func(c Conversation) { c.Command(command, out) })
}

// Forget implements [Conversation].
func (d scrubbedDialect) Forget() {
	if c, ok := d.Dialect.(Conversation); ok {
		c.Forget()
	}
}

// Finish implements [Conversation].
func (d scrubbedDialect) Finish(out *Out) { d.converse(out, func(c Conversation) { c.Finish(out) }) }

// clean scrubs the texts of a line or an entry.
func (d scrubbedDialect) clean(out *Out) {
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
		if e.text.IsString() {
			text := e.text.Text()
			if e.Message != nil {
				e.Message = &text
			} else {
				e.Text = &text
			}
			e.text = scan.Value{}
		}
		e.Text, e.Message = scrubbed(e.Text), scrubbed(e.Message)
	}
	out.text, out.value = out.text+out.value.Text(), scan.Value{}
	if (out.final == setDraft || out.final == addDraft) && len(out.text) <= maxKept {
		return // it is scrubbed with the parts that follow, see [Fold.final]
	}
	out.text = d.scrub(out.text)
}
