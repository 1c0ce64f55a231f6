// Package claude is Claude Code. It reads the output of
// `claude -p --output-format stream-json --verbose`, and the session logs that Claude Code
// keeps.
//
//	line ─▶ line.go: scan the allowed fields ─┬─▶ claude.go, log.go: events
//	                                          └─▶ facts.go: facts for the run record
//
// The mapping is an allow-list: each line is scanned once, the blocks of a message once
// more, and only the fields in line.go are kept. Events never contain prompts, inputs or
// outputs of tools, but may contain their lengths. The facts for the run record contain
// parts of commands, outputs, paths and to-do lists.
package claude

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

const kind = "claude_code"

// Backend is the backend of Claude Code.
type Backend struct{}

// Agent returns "claude_code".
func (Backend) Agent() string { return kind }

// Dialect returns the dialect of a new run of Claude Code.
func (Backend) Dialect() normalizer.Dialect {
	return acp.Within(new(dialect), &live)
}

// dialect has the session of a run, and what a later line needs of earlier ones.
type dialect struct {
	line  line
	block block
	state

	turn   string // id of the turn with the number turnOf
	turnOf int64
}

// state is saved.
type state struct {
	Session wire.Thread `json:"session,omitempty"`
	Turns   int64       `json:"turns,omitempty"` // system/init lines so far
	Calls   wire.Memory `json:"calls"`
	Replies replies     `json:"replies,omitempty"` // in a session log: the newest messages of the model
	Reasons bool        `json:"reasons,omitempty"` // in a session log: it tells why messages end
	Answers bool        `json:"answers,omitempty"` // in a session log: see [runs.Facts], Answered
	Named   bool        `json:"named,omitempty"`   // in a session log: its user gave it a name
	Foreign bool        `json:"foreign,omitempty"` // the lines are of Qwen Code, which has others under the same names

	// In a session log: the time of the newest line, Unix milliseconds; the session has an answer.
	Newest   int64 `json:"newest,omitempty"`
	Answered bool  `json:"answered,omitempty"`
	// A result has told what the session had used before this run.
	Accounted bool `json:"accounted,omitempty"`
}

// State implements [normalizer.Dialect].
func (d *dialect) State() ([]byte, error) { return bounds.Encode(d.state) }

// IsNew implements [acp.Own].
func (d *dialect) IsNew() bool { return wire.IsNew(&d.state) }

// Restore implements [normalizer.Dialect].
func (d *dialect) Restore(b []byte) error { return wire.Restore(kind, b, &d.state) }

// Line implements [normalizer.Dialect].
func (d *dialect) Line(raw []byte, out *normalizer.Out) normalizer.Fault {
	fault := normalizer.Fault(d.line.scan(raw))
	if fault == normalizer.NoFault {
		fault = d.mapLine(out)
	}
	d.line.reset()
	d.block = block{}
	return fault
}

func (d *dialect) mapLine(out *normalizer.Out) normalizer.Fault {
	l := &d.line
	if d.Foreign || l.qwen.IsString() {
		d.Foreign, out.Facts.Unknown = true, true
		out.Facts.Drift = []runs.Unknown{{What: runs.DriftProtocol, Name: "qwen"}} // one event says it for all lines
		return normalizer.NoFault
	}
	if !l.typ.IsString() {
		return normalizer.MissingType
	}
	typ := l.typ.View()
	if l.logged(typ) {
		return d.logLine(typ, out)
	}
	if (typ == "assistant" || typ == "user") && !d.readable(typ) {
		return normalizer.InvalidPayload
	}
	d.Session.Told(l.session, out)
	switch typ {
	case "system":
		d.system(out)
	case "assistant", "user":
		d.message(typ, out)
	case "result":
		d.result(out)
	case "stream_event": // its text comes again, whole
		d.part(out)
	case "rate_limit_event":
		d.limited(out)
		out.Event(normalizer.StatusMessage(typ, nil))
	case "control_request":
		d.asked(out)
		out.Event(normalizer.StatusMessage(typ, nil))
	case "control_cancel_request":
		out.Facts.Resumed = true
		out.Event(normalizer.StatusMessage(typ, nil))
	case "keep_alive":
	default:
		if types[typ] {
			out.Event(normalizer.StatusMessage(strings.Clone(typ), nil))
		} else {
			d.line.drift.Unknown(l.typ, "", out)
		}
	}
	out.Facts.Drift = l.drift
	return normalizer.NoFault
}

func (d *dialect) system(out *normalizer.Out) {
	subtype := d.line.subtype.View()
	if !subtypes[subtype] {
		d.line.drift.Unknown(d.line.subtype, "system/", out)
		return
	}
	if subtype == "init" {
		d.Turns++
		out.Facts.Version, out.Facts.Model = wire.ID(d.line.version), wire.ID(d.line.doing.model)
		out.Facts.Turn, out.Facts.MustEnd = runs.TurnStarted, true
		for i := range d.line.drift { // a setting that is new
			d.line.drift[i].Name = runs.DriftSetting + d.line.drift[i].Name
		}
	}
	d.session(subtype, out)
	d.systemDoing(subtype, out)
	out.Event(normalizer.StatusMessage("system "+subtype, nil))
}

// asked sets the facts of a request to the host of the agent, which may be for a permission.
func (d *dialect) asked(out *normalizer.Out) {
	l := &d.line
	if l.request.Kind != scan.Object {
		return
	}
	if what, _ := wire.Pair(&l.s, l.request.Raw, "subtype", ""); what.Equal("can_use_tool") {
		out.Facts.Doing.Phase = runs.AwaitingInput
	}
}

// session sets the facts of a system line about the session.
func (d *dialect) session(subtype string, out *normalizer.Out) {
	l := &d.line
	switch subtype {
	case "model_fallback", "model_refusal_fallback", "model_consent_fallback":
		switch {
		case l.scope.Equal("local"): // of a sub-agent
		case l.direction.Equal("revert"):
			out.Facts.Model = wire.ID(l.original)
		default:
			out.Facts.Model = wire.ID(l.fallback)
		}
	case "session_title_changed":
		out.Facts.Title, out.Facts.Named = l.title.Text(), true
	case "session_state_changed":
		if l.state.Equal("requires_action") {
			out.Facts.Doing.Phase = runs.AwaitingInput
		}
		out.Facts.Resumed = l.state.Equal("running")
	}
}

// maxBlocks is the maximum number of blocks of one message with an event of their own. A
// message has a few; those beyond, or once [normalizer.Out.Full], give one Unknown event together.
const maxBlocks = 4096

// readable reports whether each text of a message is one.
func (d *dialect) readable(typ string) bool {
	for blocks := wire.ElementsOf(d.line.content); ; {
		v, more := blocks.Next(&d.line.s)
		if !more {
			return true
		}
		if v.Kind != scan.Object || typ != "assistant" {
			continue
		}
		d.block.scan(&d.line.s, v, nil)
		switch b := &d.block; {
		case b.typ.Equal("text") && !b.text.IsString(), b.typ.Equal("thinking") && !b.thinking.IsString():
			return false
		}
	}
}

// message maps each block of a message to an event.
func (d *dialect) message(typ string, out *normalizer.Out) {
	l, n := &d.line, 0
	if l.content.IsString() {
		d.block = block{text: l.content}
		d.text(typ, out)
		return
	}
	results := 0
	if typ == "user" {
		results = d.results()
	}
	if l.nested() {
		out.Facts.Doing.Phase, out.Facts.Delegates = runs.AwaitingAgent, true
	}
	more := true
	for blocks := wire.ElementsOf(l.content); ; n++ {
		var v scan.Value
		if v, more = blocks.Next(&l.s); !more || n == maxBlocks || out.Full() {
			break
		}
		if v.Kind != scan.Object {
			l.drift.UnknownItem(scan.Value{}, typ+"/", out)
			continue
		}
		b := &d.block
		b.scan(&l.s, v, &l.drift)
		switch {
		case b.typ.Equal("text"):
			d.text(typ, out)
		case b.typ.Equal("thinking") && typ == "assistant":
			out.Event(l.says(normalizer.ReasoningTextOf(b.thinking), out))
		case b.typ.Equal("redacted_thinking") && typ == "assistant": // only the provider can read it
			out.Event(normalizer.StatusMessage("redacted thinking", nil))
		case b.typ.Equal("tool_use") && typ == "assistant":
			d.toolUse("tool_use", out)
		case typ == "assistant" && serverCalls[b.typ.View()]:
			d.toolUse(b.typ.Text(), out)
		case typ == "assistant" && serverResults[b.typ.View()]:
			d.toolResult(b.typ.Text(), false, out)
		case b.typ.Equal("tool_result") && typ == "user":
			d.toolResult("tool_result", results == 1, out)
		default:
			l.drift.UnknownItem(b.typ, typ+"/", out)
		}
	}
	if n == 0 || more {
		out.Unknown()
	}
}

// results returns the number of results of tools in a message.
func (d *dialect) results() (n int) {
	for blocks := wire.ElementsOf(d.line.content); ; {
		v, more := blocks.Next(&d.line.s)
		if !more {
			return n
		}
		if v.Kind == scan.Object {
			d.block.scan(&d.line.s, v, nil)
			if d.block.typ.Equal("tool_result") {
				n++
			}
		}
	}
}

// text maps a block of text: the agent's words, the message of a failed request, or words
// of the user, which stay in the raw log.
func (d *dialect) text(typ string, out *normalizer.Out) {
	l := &d.line
	switch {
	case typ == "user":
		out.Event(normalizer.StatusMessage("user message", nil))
	case wire.True(l.apiError) || filled(l.error):
		text := d.block.text.Text()
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorTop
		out.Event(normalizer.ErrorMessage(text))
	default:
		out.Event(l.says(normalizer.AssistantTextOf(d.block.text), out))
	}
}

var channelSubagent = "subagent"

// says returns the event of a text, in the channel of sub-agents if one of them said it.
func (l *line) says(e normalizer.Event, out *normalizer.Out) normalizer.Event {
	if filled(l.parent) {
		e.Channel = &channelSubagent
	} else {
		out.Facts.Step = true
	}
	return e
}

func (d *dialect) facet(kind string) normalizer.Facet {
	f := normalizer.Facet{ItemID: wire.ID(d.line.uuid), ThreadID: cmp.Or(wire.ID(d.line.session), string(d.Session)),
		Kind: kind}
	if d.Turns > 0 {
		if d.turnOf != d.Turns {
			d.turn, d.turnOf = "synthetic-turn-"+strconv.FormatInt(d.Turns, 10), d.Turns
		}
		f.TurnID = d.turn
	}
	return f
}

func (d *dialect) toolUse(kind string, out *normalizer.Out) {
	b := &d.block
	f := d.facet(kind)
	f.ToolName, f.UseID, f.Phase, f.Status = wire.ID(b.name), wire.ID(b.id), "start", "running"
	call := wire.Call{ID: f.UseID, Name: f.ToolName}
	out.Facts.Open(runs.Call{ID: f.UseID, Kind: f.Kind, Name: f.ToolName, Phase: d.line.during(f.ToolName)})
	if wire.RunsTests(d.begins(f.ToolName, out)) {
		call.Path = wire.Tests
	}
	d.Calls.Add(call)
	out.Tool(normalizer.ToolCall, &f)
}

// toolResult maps the result of a tool. Alone in its line, it is what the line's
// tool_use_result tells more of.
func (d *dialect) toolResult(kind string, alone bool, out *normalizer.Out) {
	l, b := &d.line, &d.block
	f := d.facet(kind)
	f.UseID, f.Phase, f.Status = wire.ID(b.useID), "complete", "completed"
	call := d.Calls.Take(f.UseID)
	f.ToolName = call.Name
	failed := wire.True(b.isError) || kind != "tool_result" && b.content.Kind == scan.Object && b.failed(&l.s)
	if failed {
		f.Phase, f.Status = "fail", "failed"
	}
	if alone {
		f.Bytes.Stdout, f.Bytes.Stderr = l.stdout.Len, l.stderr.Len
		d.done(call, failed, out)
	}
	f.Bytes.Result = d.resultBytes()
	out.Facts.Close(f.UseID)
	out.Tool(normalizer.ToolResult, &f)
}

// resultBytes returns the length of the content of a result: its text, or that of its
// blocks of text.
func (d *dialect) resultBytes() (n int) {
	content := d.block.content
	if content.IsString() {
		return content.Len
	}
	for blocks := wire.ElementsOf(content); ; {
		v, more := blocks.Next(&d.line.s)
		if !more {
			return n
		}
		if v.Kind == scan.Object {
			var b block
			b.scan(&d.line.s, v, nil)
			if b.typ.Equal("text") {
				n += b.text.Len
			}
		}
	}
}

// result maps the end of a turn. There can be several in a run: sub-agents and commands in
// the background work on after the answer.
func (d *dialect) result(out *normalizer.Out) {
	l := &d.line
	data := wire.Usage(kind, &l.usage, "total_cost_usd", l.cost)
	d.spent(out)
	text := l.result.Text()
	if l.subtype.Equal("success") && !wire.True(l.isError) {
		d.succeeded(text, data, out)
		return
	}
	l.drift.Status(l.subtype, "result/", "success", "error_max_turns", "error_max_budget_usd", "error_during_execution",
		"error_max_structured_output_retries")
	if wire.Blank(text) {
		text = d.errors()
	}
	filled := wire.Blank(text)
	if filled {
		text = "result error"
	}
	if n, ok := l.turns.Int(); !ok || n > 0 { // else it has no answer of its own, and one before it stays
		out.NoFinal()
	}
	turnFailed(text, data, out)
	if filled { // an error before it tells more
		out.Facts.ErrorSource = runs.ErrorItem
	}
}

func turnFailed(text string, data []byte, out *normalizer.Out) {
	out.Facts.Turn, out.Facts.Error, out.Facts.ErrorSource = runs.TurnFailed, text, runs.ErrorTurn
	e := normalizer.ErrorMessage(text)
	e.Data = data
	out.Event(e)
}

// succeeded maps a result that says that it is a success. It is none where the model still wanted
// to call a tool, or was cut off, and said nothing.
func (d *dialect) succeeded(text string, data []byte, out *normalizer.Out) {
	cut := d.line.terminal.Equal("aborted_streaming")
	unanswered := wire.Blank(text) && d.line.structured.Kind <= scan.Null
	stop := d.line.stopReason
	if unanswered && (cut || stop.Equal("tool_use") || stop.Equal("tool_deferred")) {
		out.NoFinal()
		turnFailed("the agent did not finish its turn", data, out)
		return
	}
	out.Final(text)
	out.Facts.Turn = runs.TurnCompleted
	out.Event(normalizer.StatusMessage("result success", data))
	if cut {
		out.Event(normalizer.ErrorMessage("the answer may lack its end: the agent was interrupted"))
	}
}

// errors returns the strings of the errors of a result, a line each: at most as much as
// a message can have.
func (d *dialect) errors() string {
	var texts []string
	n := 0
	for list := wire.ElementsOf(d.line.errors); n <= bounds.MaxMessage; {
		v, more := list.Next(&d.line.s)
		if !more {
			break
		}
		if v.IsString() {
			texts = append(texts, v.Text())
			n += v.Len + 1
		}
	}
	return strings.Join(texts, "\n")
}
