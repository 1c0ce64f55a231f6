package normalizer

import (
	"encoding/json"
	"reflect"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

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

	calls []facetTool    // of events, by index; nil: not read so far
	index map[string]int // in events, by the ids of calls
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
	if i := d.find(id); i >= 0 {
		return d.At(i)
	}
	return d.Extra()
}

// Tool returns the name of the tool of the line's first event about the tool call with an id,
// and whether there is such an event.
func (d *Details) Tool(id string) (name string, ok bool) {
	i := d.find(id)
	if i < 0 {
		return "", false
	}
	return d.calls[i].ToolName, true
}

// find returns the index of the first event about the tool call with an id, or -1. An id is
// that of the item or that of the call.
func (d *Details) find(id string) int {
	if d.index == nil {
		d.index, d.calls = map[string]int{}, make([]facetTool, len(d.events))
		for i := range d.events {
			if e := &d.events[i]; e.Kind == ToolCall || e.Kind == ToolResult {
				d.calls[i] = toolOf(e)
				d.add(d.calls[i].ItemID, i)
				if use := d.calls[i].UseID; use != "" {
					d.add(use, i)
				}
			}
		}
	}
	if i, ok := d.index[id]; ok {
		return i
	}
	return -1
}

func (d *Details) add(id string, i int) {
	if _, ok := d.index[id]; !ok {
		d.index[id] = i
	}
}

// facetTool has the members of the facet of a tool call that details need.
type facetTool struct {
	ItemID   string `json:"backend_item_id"`
	UseID    string `json:"tool_use_id"`
	ToolName string `json:"tool_name"`
}

// toolOf reads the facet of a tool call.
func toolOf(e *Event) facetTool {
	var data struct {
		Tool facetTool `json:"tool"`
	}
	_ = json.Unmarshal(e.Data, &data) // the zero value is no call
	return data.Tool
}

// Extra returns a new detail that belongs to no event of the line, such as a prompt in the
// log of a session.
func (d *Details) Extra() *runs.Detail {
	d.extra = append(d.extra, new(runs.Detail))
	return d.extra[len(d.extra)-1]
}

// detailToken is the token of a message that has a detail and no event.
const detailToken = "detail"

// NewDetailFold is NewFold for messages with details: those of the events, and more
// messages with the token [detailToken], no body, and positions of their own. Prompt, which
// may be nil, returns the prompt in the command line of an agent, "" if there is none.
func NewDetailFold(b Backend, run string, maxLine int, prompt func(argv []string) string) *Fold {
	f := NewFold(b, run, maxLine)
	f.details = newDetailer(b, prompt)
	return f
}

// RestoreDetailFold is [Restore] for messages with details. Details are not part of the
// state: of stderr, the fold has what is applied to it, also what was applied to the saved one,
// see [Fold.Again].
func RestoreDetailFold(b Backend, record *runs.Record, state []byte, maxLine int,
	prompt func(argv []string) string) (*Fold, error) {
	f, err := Restore(b, record, state, maxLine)
	if err == nil {
		f.details = newDetailer(b, prompt)
	}
	return f, err
}

// detailer is the state of a fold with details.
type detailer struct {
	prompt func(argv []string) string
	scrub  func(string) string // of the backend; nil: none
	line   Details
	extra  []Message // of the line or the entry so far, without positions

	stderr    []byte // its end
	stderrEnd int64  // offset of the next new byte
}

// maxStderr is how many bytes of the end of stderr are kept for the detail of the completion.
const maxStderr = runs.DetailWindow

func newDetailer(b Backend, prompt func(argv []string) string) *detailer {
	return &detailer{prompt: prompt, scrub: scrubOf(b)}
}

// limited returns a detail with its limits enforced; nil: it is empty.
func (d *detailer) limited(detail *runs.Detail) *runs.Detail {
	if detail == nil {
		return nil
	}
	detail.Limit(d.scrub)
	if reflect.ValueOf(*detail).IsZero() {
		return nil
	}
	return detail
}

// of returns the detail of the event with an index; nil: none. A nil detailer has none.
func (d *detailer) of(i int) *runs.Detail {
	if d == nil || i >= len(d.line.of) {
		return nil
	}
	return d.limited(d.line.of[i])
}

// publishDetailed publishes the events of a record or an entry with the details that add adds. Those that
// belong to no event are kept for publishExtra.
func (f *Fold) publishDetailed(line uint64, add func(*Details)) {
	d := f.details
	defer func() { d.line = Details{} }()
	if !f.Record.Cancel {
		d.line.events = f.work.out.events
		add(&d.line)
	}
	f.publish(line, f.work.out.events)
	for _, detail := range d.line.extra {
		if detail = d.limited(detail); detail != nil {
			d.extra = append(d.extra, Message{Pos: f.pos, Token: detailToken, Detail: detail})
		}
	}
}

// publishExtra publishes the details that belong to no event, behind all events of a line, which can be of several
// records, or of an entry: they change no position of an event.
func (f *Fold) publishExtra(line uint64) {
	if f.details == nil {
		return
	}
	for _, m := range f.details.extra {
		f.pos.Part++
		m.Line, m.Part = line, f.pos.Part
		f.emit(m)
	}
	f.details.extra = nil
}

// publishPrompt publishes the prompt of the first start entry, or in its command line.
func (f *Fold) publishPrompt(e runs.Entry) {
	start, err := runs.DecodeStart(e.Body)
	if f.Record.Cancel || err != nil {
		return
	}
	var prompt *runs.Detail
	switch {
	case start.Prompt != "":
		head := start.Prompt[:bounds.Cut(start.Prompt, runs.DetailWindow)]
		prompt = &runs.Detail{
			Prompt: &runs.Excerpted{Head: head, Omitted: max(start.PromptBytes-len(head), 0)}, Live: start.Live,
		}
	case f.details.prompt != nil && len(start.Argv) > 0:
		prompt = &runs.Detail{Prompt: runs.Whole(f.details.prompt(start.Argv))}
	}
	prompt = f.details.limited(prompt)
	if prompt != nil {
		f.pos.Line, f.pos.Part = 0, 0
		f.emit(Message{Pos: f.pos, Token: detailToken, Detail: prompt})
	}
}

// errOut keeps the end of stderr. It has duplicates if the agent's worker was restarted.
func (d *detailer) errOut(offset int64, b []byte) {
	if offset < 0 || offset+int64(len(b)) <= d.stderrEnd {
		return
	}
	if offset > d.stderrEnd {
		d.stderr = nil
	} else {
		b = b[d.stderrEnd-offset:]
	}
	d.stderrEnd = max(offset, d.stderrEnd) + int64(len(b))
	d.stderr = append(d.stderr, b[max(len(b)-maxStderr, 0):]...)
	d.stderr = append(d.stderr[:0], d.stderr[max(len(d.stderr)-maxStderr, 0):]...)
}

// completion returns the detail of the completion of a run that linesman ended, or whose agent
// did not start: why, and the end of stderr; nil: none. A nil detailer has none.
func (d *detailer) completion(r *runs.Record, reason runs.Reason) *runs.Detail {
	if d == nil {
		return nil
	}
	var why *runs.Excerpted
	switch reason {
	case runs.ReasonSpawn, runs.ReasonIdle, runs.ReasonHard, runs.ReasonSpool, runs.ReasonLost:
		if r.State != runs.StateCancelled {
			why = runs.Whole(r.Why())
		}
	}
	all := &runs.Detail{Text: why, Changed: r.Changed()}
	if len(d.stderr) == 0 {
		return d.limited(all)
	}
	stderr := runs.Whole(string(d.stderr))
	if omitted := d.stderrEnd - int64(len(d.stderr)); omitted > 0 {
		stderr = &runs.Excerpted{Tail: stderr.Head, Omitted: int(omitted)}
	}
	all.Stderr = stderr
	return d.limited(all)
}
