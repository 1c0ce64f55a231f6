package normalizer

import "github.com/linesman/linesman/runs"

// Detailer is a [Dialect] that can tell what the events of a line omit, for the owner of
// the run. Package test/fixture/backendtest tests this contract.
type Detailer interface {
	// Detail adds to d what the events of the line omit. It is called after Line returned
	// NoFault for the same line. It changes no state, and keeps no reference to line.
	Detail(line []byte, d *Details)
}

// Details collects the details of one line.
type Details struct {
	events []Event
	of     []*runs.Detail // of events, by index
	extra  []*runs.Detail
}

// Events returns the events of the line. They must not be changed.
func (d *Details) Events() []Event { return d.events }

// At returns the detail of the event with an index, for the dialect to fill in.
func (d *Details) At(i int) *runs.Detail {
	for len(d.of) < len(d.events) {
		d.of = append(d.of, nil)
	}
	if i >= len(d.of) {
		return d.Extra()
	}
	if d.of[i] == nil {
		d.of[i] = new(runs.Detail)
	}
	return d.of[i]
}

// Call returns the detail of the line's first event about the tool call with an id, which
// may be "".
func (d *Details) Call(id string) *runs.Detail {
	for i := range d.events {
		if e := &d.events[i]; (e.Kind == ToolCall || e.Kind == ToolResult) && e.item == id {
			return d.At(i)
		}
	}
	return d.Extra()
}

// Extra returns a new detail that belongs to no event of the line, such as a prompt in the
// log of a session.
func (d *Details) Extra() *runs.Detail {
	d.extra = append(d.extra, new(runs.Detail))
	return d.extra[len(d.extra)-1]
}

// DetailToken is the token of a message that has a detail and no event.
const DetailToken = "detail"

// NewDetailFold is NewFold for messages with details: those of the events, and more
// messages with the token [DetailToken], no body, and positions of their own. Prompt, which
// may be nil, returns the prompt in the command line of an agent, "" if there is none.
func NewDetailFold(b Backend, run string, maxLine int, prompt func(argv []string) string) *Fold {
	f := NewFold(b, run, maxLine)
	f.details = &detailer{prompt: prompt}
	return f
}

// detailer is the state of a fold with details.
type detailer struct {
	prompt func(argv []string) string
	line   Details
	stderr []byte // end of stderr
}
