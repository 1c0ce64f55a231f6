// Package codex reads what `codex exec --json` prints.
//
// The mapping is an allow-list: a line is scanned once, the fields named in
// line.go are kept, all else is skipped. Arguments, queries and prompts are
// measured at most, never copied. Commands, outputs, paths and to-do lists go
// into the facts for the run record (facts.go), never into an event.
package codex

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Backend is the Codex CLI.
type Backend struct{}

// Agent is "codex".
func (Backend) Agent() string { return "codex" }

// Dialect reads one run of the Codex CLI.
func (Backend) Dialect() normalizer.Dialect { return new(dialect) }

// dialect keeps the context of a run: which thread and which turn its lines
// belong to. Codex numbers no turns, so they are counted here.
type dialect struct {
	line   line
	thread string
	turn   string
	turns  int64 // synthetic turn ids given so far
}

// Line implements [normalizer.Dialect].
func (d *dialect) Line(raw []byte, out *normalizer.Out) normalizer.Fault {
	fault := normalizer.InvalidJSON
	switch d.line.scan(raw) {
	case scan.OK:
		fault = d.mean(out)
	case scan.InvalidUTF8:
		fault = normalizer.InvalidUTF8
	}
	d.line.forget()
	return fault
}

// mean says what the line means that was scanned.
func (d *dialect) mean(out *normalizer.Out) normalizer.Fault {
	l := &d.line
	if !l.typ.IsString() {
		return normalizer.MissingType
	}
	kind := l.typ.Raw
	if l.typ.Escaped {
		kind = l.typ.Append(nil)
	}
	switch string(kind) {
	case "thread.started", "thread.resumed":
		return d.threadStarted(out)
	case "turn.started":
		d.adoptThread(out)
		d.startTurn()
		out.Facts.Turn = runs.TurnStarted
		out.Event(normalizer.StatusMessage("turn started", nil))
	case "turn.completed":
		d.adoptThread(out)
		d.turn = ""
		out.Facts.Turn = runs.TurnCompleted
		out.Facts.Usage = l.usage.totals()
		out.Event(normalizer.StatusMessage("turn completed", l.usage.data()))
	case "turn.failed":
		d.adoptThread(out)
		d.turn = ""
		out.Facts.Turn = runs.TurnFailed
		complain(l.errorMessage, runs.ErrorTurn, out)
		out.Event(normalizer.StatusMessage("turn failed", nil))
	case "error":
		if !l.message.IsString() {
			return normalizer.InvalidPayload
		}
		text := l.message.Text()
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorTop
		out.Event(normalizer.ErrorMessage(text))
	case "item.started", "item.created":
		return d.item(started, out)
	case "item.updated", "item.delta":
		return d.item(updated, out)
	case "item.completed":
		return d.item(completed, out)
	case "item.failed":
		return d.item(failed, out)
	default:
		unknown(out)
	}
	return normalizer.NoFault
}

func (d *dialect) threadStarted(out *normalizer.Out) normalizer.Fault {
	l := &d.line
	id := name(l.threadID)
	if id == "" {
		id = name(l.conversationID)
	}
	if id == "" {
		id = name(l.id)
	}
	if id == "" {
		return normalizer.MissingThreadID
	}
	d.setThread(id, out)
	d.turn = ""
	out.Event(normalizer.StatusMessage("thread started", nil))
	return normalizer.NoFault
}

// adoptThread takes the thread that a turn's line names, if it names one.
func (d *dialect) adoptThread(out *normalizer.Out) {
	if id := d.line.ownThread(); id != "" {
		d.setThread(id, out)
	}
}

func (d *dialect) setThread(id string, out *normalizer.Out) {
	out.Session, out.Facts.Thread = id, id
	d.thread = id
	if bounds.StringSize(id) > normalizer.MaxThread {
		d.thread = normalizer.TooLong
	}
}

func (d *dialect) startTurn() {
	l := &d.line
	id := name(l.turnID)
	if id == "" {
		id = name(l.id)
	}
	switch {
	case id == "":
		d.turns++
		id = "synthetic-turn-" + strconv.FormatInt(d.turns, 10)
	case bounds.StringSize(id) > normalizer.MaxTurn:
		id = normalizer.TooLong
	}
	d.turn = id
}

// step is what a line says of an item.
type step uint8

const (
	started step = iota
	updated
	completed
	failed
)

func (d *dialect) item(s step, out *normalizer.Out) normalizer.Fault {
	l := &d.line
	if !l.hasItem && (s != failed || l.badItem) {
		return normalizer.InvalidPayload
	}
	it := &l.item
	switch {
	case it.typ.Equal("command_execution"):
		d.tool(s, "command_execution", out)
	case it.typ.Equal("file_change"):
		d.tool(s, "file_change", out)
	case it.typ.Equal("mcp_tool_call"):
		d.tool(s, "mcp_tool_call", out)
	case it.typ.Equal("web_search"):
		d.tool(s, "web_search", out)
	case it.typ.Equal("collab_tool_call"):
		d.tool(s, "collab_tool_call", out)
	case s == failed:
		message := it.errorMessage
		if !message.IsString() {
			message = l.errorMessage
		}
		if !message.IsString() {
			return normalizer.InvalidPayload
		}
		text := message.Text()
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorItem
		out.Event(normalizer.ErrorMessage(text))
	case it.typ.Equal("agent_message"):
		if !it.text.IsString() {
			return normalizer.InvalidPayload
		}
		text := it.text.Text()
		out.Event(normalizer.AssistantText(text))
		if s == completed {
			out.Facts.Step = true
			out.Final(text)
		}
	case it.typ.Equal("reasoning"):
		if !it.text.IsString() {
			return normalizer.InvalidPayload
		}
		out.Facts.Step = s == completed
		out.Event(normalizer.ReasoningText(it.text.Text()))
	case it.typ.Equal("todo_list"):
		d.todo(s, out)
		out.Event(normalizer.StatusMessage(todo[s], nil))
	case it.typ.Equal("error"):
		if !it.message.IsString() {
			return normalizer.InvalidPayload
		}
		text := it.message.Text()
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorItem
		out.Event(normalizer.ErrorMessage(text))
	default:
		unknown(out)
	}
	return normalizer.NoFault
}

var todo = [...]string{started: "todo list started", updated: "todo list updated", completed: "todo list completed"}

func unknown(out *normalizer.Out) {
	out.Facts.Unknown = true
	out.Event(normalizer.Event{Kind: normalizer.Unknown})
}

// tool makes the event of a tool call's step. It takes whatever is there: a
// field that is missing or of another type is null or 0.
func (d *dialect) tool(s step, kind string, out *normalizer.Out) {
	l, it := &d.line, &d.line.item
	f := normalizer.Facet{
		ItemID: name(it.id), ThreadID: l.ownThread(), TurnID: name(l.turnID), Kind: kind,
	}
	if f.ThreadID == "" {
		f.ThreadID = d.thread
	}
	if f.TurnID == "" {
		f.TurnID = d.turn
	}
	f.Phase, f.Status = phase(s, it.status)
	if kind == "mcp_tool_call" || kind == "collab_tool_call" {
		f.ToolName = it.tool.Text()
	}
	if s != failed {
		measure(&f, it)
	}
	event := normalizer.ToolCall
	switch s {
	case started:
		out.Facts.Opened = runs.Call{ID: f.ItemID, Kind: kind, Name: f.ToolName}
		out.Facts.Activity = d.activity(kind)
	case completed, failed:
		event = normalizer.ToolResult
		out.Facts.Closed = f.ItemID
		if f.ExitCode == nil {
			d.result(kind, f.Status == "failed", out)
		} else {
			d.result(kind, *f.ExitCode != 0, out)
		}
	}
	out.Event(normalizer.ToolEvent(event, f))
}

// measure fills in what the kinds of tools differ in.
func measure(f *normalizer.Facet, it *item) {
	switch f.Kind {
	case "command_execution":
		f.ExitCode = it.code()
		f.Bytes.Stdout, f.Bytes.Stderr = it.stdout.Len, it.stderr.Len
	case "file_change":
		f.ExitCode = it.code()
		f.Bytes.Diff = it.diff.Len
	case "mcp_tool_call":
		f.Bytes.Result = size(it.result)
	case "web_search":
		f.Bytes.Result = size(it.results)
	}
}

// phase gives a step's phase and status. What the item says of itself goes
// before what the line's type says: Codex completes items that failed.
func phase(s step, status scan.Value) (string, string) {
	if s == failed {
		return "fail", "failed"
	}
	word := ""
	switch {
	case status.Equal("in_progress"), status.Equal("running"):
		word = "running"
	case status.Equal("pending"):
		word = "pending"
	case status.Equal("completed"):
		word = "completed"
	case status.Equal("failed"), status.Equal("declined"):
		word = "failed"
	case status.IsString():
		word = "unknown"
	}
	switch {
	case s == started && word == "":
		return "start", "running"
	case s == started:
		return "start", word
	case s == updated && word == "":
		return "delta", "running"
	case s == updated:
		return "delta", word
	case word == "failed":
		return "fail", word
	case word == "":
		return "complete", "completed"
	case word == "running", word == "pending":
		return "complete", "unknown"
	}
	return "complete", word
}

// size is how long v is as compact JSON, 0 where it is absent or null.
func size(v scan.Value) int {
	switch v.Kind {
	case scan.Absent, scan.Null:
		return 0
	case scan.String: // Raw is without its quotes
		return bounds.StringSize(v.Text())
	}
	n, err := bounds.ValueSize(v.Raw)
	if err != nil { // the scanner took the line; what only the other refuses has no size
		return 0
	}
	return n
}

// name is an id: a string that is not blank, trimmed; else "".
func name(v scan.Value) string {
	if v.Len == 0 {
		return ""
	}
	return strings.TrimSpace(v.Text())
}

func (it *item) code() *int32 {
	n, ok := it.exitCode.Int()
	if !ok || n < math.MinInt32 || n > math.MaxInt32 {
		return nil
	}
	code := int32(n)
	return &code
}

// state is what a dialect saves. Long marks stand for ids that were too long.
type state struct {
	Thread     string `json:"thread,omitempty"`
	ThreadLong bool   `json:"thread_long,omitempty"`
	Turn       string `json:"turn,omitempty"`
	TurnLong   bool   `json:"turn_long,omitempty"`
	Turns      int64  `json:"turns,omitempty"`
}

// State implements [normalizer.Dialect].
func (d *dialect) State() ([]byte, error) {
	s := state{Thread: d.thread, Turn: d.turn, Turns: d.turns}
	if len(s.Thread) == len(normalizer.TooLong) {
		s.Thread, s.ThreadLong = "", true
	}
	if len(s.Turn) == len(normalizer.TooLong) {
		s.Turn, s.TurnLong = "", true
	}
	return bounds.Encode(s)
}

// Restore implements [normalizer.Dialect].
func (d *dialect) Restore(b []byte) error {
	var s state
	if json.Unmarshal(b, &s) != nil {
		return errors.New("codex: the state is no JSON of the known form")
	}
	d.thread, d.turn, d.turns = s.Thread, s.Turn, s.Turns
	if s.ThreadLong {
		d.thread = normalizer.TooLong
	}
	if s.TurnLong {
		d.turn = normalizer.TooLong
	}
	return nil
}
