package normalizer

import (
	"encoding/json"

	"github.com/linesman/linesman/runs"
)

// Conversation is a [Dialect] that also maps the entries of a live run that are not output. Their
// events are from no line.
type Conversation interface {
	// Sent maps a line to the agent. It has no line ending, and may be no JSON: then it is none for
	// the agent.
	Sent(line []byte, out *Out)
	// SentDetail adds to the events of the line what they omit, as [Detailer] does. It is called after
	// Sent for the same line.
	SentDetail(line []byte, d *Details)
	// Process maps the start or the end of a process.
	Process(p *runs.Process, out *Out)
	// Command maps what somebody asks of the run.
	Command(c *runs.Command, out *Out)
	// Forget says that the log was lost: it has the commands again.
	Forget()
	// Finish adds the events of what the last lines have left open, at the end of the run.
	Finish(out *Out)
}

// sentLine folds a line to the agent.
func (f *Fold) sentLine(line []byte) {
	f.converse(func(c Conversation, out *Out) { c.Sent(line, out) },
		func(c Conversation, d *Details) { c.SentDetail(line, d) })
}

// process folds the start or the end of a process. At both, no line goes on.
func (f *Fold) process(body []byte) {
	f.unfinished()
	f.state.In.give()
	var p runs.Process
	if json.Unmarshal(body, &p) != nil {
		f.unreadable("bad body")
		return
	}
	f.converse(func(c Conversation, out *Out) { c.Process(&p, out) }, nil)
}

func (f *Fold) command(body []byte) {
	var c runs.Command
	if json.Unmarshal(body, &c) != nil {
		f.unreadable("bad body")
		return
	}
	f.converse(func(d Conversation, out *Out) { d.Command(&c, out) }, nil)
}

// finish publishes what the last lines of a run have left open.
func (f *Fold) finish() {
	c, ok := f.dialect.(Conversation)
	if !ok {
		return
	}
	out := f.out()
	defer out.reset()
	c.Finish(out)
	for i := range out.events {
		f.publishEntryEvent(out.events[i])
	}
}

// converse folds what an entry, or a line to the agent, is mapped to; detail may be nil. A dialect
// that knows no conversation maps them to nothing.
func (f *Fold) converse(mapTo func(Conversation, *Out), detail func(Conversation, *Details)) {
	c, ok := f.dialect.(Conversation)
	if !ok {
		return
	}
	out := f.out()
	defer out.reset()
	mapTo(c, out)
	f.Record.Lines-- // Fold counts a line
	f.told(out)
	f.pos.Part = f.entryMessages
	if f.details != nil && detail != nil {
		f.publishDetailed(0, func(d *Details) { detail(c, d) })
	} else {
		f.publish(0, out.events)
	}
	f.entryMessages = f.pos.Part
}
