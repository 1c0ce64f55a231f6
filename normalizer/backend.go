package normalizer

import (
	"strconv"

	"github.com/linesman/linesman/runs"
)

// Backend knows what one kind of agent prints.
type Backend interface {
	// Agent is the agent_kind of the events: ^[a-z][a-z0-9_]*$.
	Agent() string
	// Dialect is a fresh run's.
	Dialect() Dialect
}

// Dialect turns the lines of one run into events, in order. It keeps what
// little it must know of earlier lines, and nothing else: no clock, no I/O.
//
// It copies by allow-list: what it does not name in code does not leave the
// line. Package backendtest holds the contract as tests.
type Dialect interface {
	// Line maps a line, which is not blank and has no line ending, onto out.
	// What it does with a fault does not matter: out is then not used. It
	// keeps no part of line.
	Line(line []byte, out *Out) Fault
	// State is what the dialect knows, as JSON of at most MaxDialect bytes.
	State() ([]byte, error)
	// Restore makes a fresh dialect know what State told.
	Restore(state []byte) error
}

// MaxDialect bounds the saved state of a dialect, in bytes.
const MaxDialect = 76 << 10

// Out takes what a dialect makes of one line.
type Out struct {
	Facts   runs.Facts
	Session string // id of the session, if the line says it; any length

	events []Event
	final  *string
	end    bool
}

// Event adds an event.
func (o *Out) Event(e Event) { o.events = append(o.events, e) }

// Final notes the answer so far: the last one is the run's final text.
func (o *Out) Final(text string) { o.final = &text }

// End says that the line is the whole end of a run that has no process: the
// completion follows at once, without an exit entry.
func (o *Out) End() { o.end = true }

// reset forgets a line, of which nothing may be held until the next one
// comes: there are many runs, and they can be silent for hours.
func (o *Out) reset() {
	clear(o.events)
	events := o.events[:0]
	if cap(events) > 64 { // lines with so many are rare
		events = nil
	}
	*o = Out{events: events}
}

// Fault is why a line gives nothing but one Error event.
type Fault uint8

// The faults.
const (
	NoFault Fault = iota
	InvalidUTF8
	InvalidJSON
	InvalidPayload // a known type without what it must have
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

// message is the fault's message: a fixed text and the line's length.
func (f Fault) message(agent string, lineBytes int) string {
	return agent + " stream " + faults[f] + " (line_bytes=" + strconv.Itoa(lineBytes) + ")"
}
