// Package codex is the backend of the Codex CLI. It reads the output of
// `codex exec --json`, and the session logs that Codex keeps.
//
//	line ─▶ line.go: scan the allowed fields ─┬─▶ codex.go, rollout.go: events
//	                                          └─▶ facts.go: facts for the run record
//
// The mapping is an allow-list: each line is scanned once, and only the fields in
// line.go are kept. Events never contain arguments, queries, prompts, commands,
// outputs, paths or to-do lists, but may contain their lengths. The facts for the
// run record contain parts of commands, outputs, paths and to-do lists.
package codex

import (
	"cmp"
	"hash/fnv"
	"io"
	"strconv"
	"strings"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

const kind = "codex"

// Backend is the backend of the Codex CLI.
type Backend struct{}

// Agent returns "codex".
func (Backend) Agent() string { return kind }

// Dialect returns the dialect of a new run of the Codex CLI.
func (Backend) Dialect() normalizer.Dialect {
	return acp.Within(new(dialect), &live)
}

// dialect has the current thread and turn of a run. Codex does not number turns,
// so the dialect counts them.
type dialect struct {
	line line
	state
}

// Line implements [normalizer.Dialect].
func (d *dialect) Line(raw []byte, out *normalizer.Out) normalizer.Fault {
	fault := normalizer.Fault(d.line.scan(raw))
	if fault == normalizer.NoFault {
		fault = d.mapLine(out)
	}
	d.line.reset()
	return fault
}

// mapLine maps the scanned line to out.
func (d *dialect) mapLine(out *normalizer.Out) normalizer.Fault {
	l := &d.line
	if l.typ.Kind == scan.Absent && (d.Foreign || l.foreign()) {
		d.Foreign, out.Facts.Unknown = true, true
		out.Facts.Drift = []runs.Unknown{{What: runs.DriftProtocol, Name: "before 0.44"}} // one event says it for all lines
		return normalizer.NoFault
	}
	if !l.typ.IsString() {
		return normalizer.MissingType
	}
	fault := d.mapType(out)
	out.Facts.Drift = l.drift
	return fault
}

// mapType maps a line of the protocol since 0.44, by its type.
func (d *dialect) mapType(out *normalizer.Out) normalizer.Fault {
	l := &d.line
	switch l.typ.View() {
	case "thread.started", "thread.resumed", "session.created":
		return d.threadStarted(out)
	case "turn.started":
		d.updateThread(out)
		d.startTurn()
		// Codex 0.94 to 0.110 prints the lines of a sub-agent among those of its parent. It
		// begins a turn, and no line ends that.
		if d.Nested = d.Working; !d.Nested {
			d.Told = 0
			out.Facts.Turn, out.Facts.Doing.Phase = runs.TurnStarted, runs.Thinking
		}
		d.Working = true
		out.Event(normalizer.StatusMessage("turn started", nil))
	case "turn.completed":
		d.endTurn(out)
		out.Confirm()
		out.Facts.Turn = runs.TurnCompleted
		out.Facts.Used = account(&l.usage)
		out.Event(normalizer.StatusMessage("turn completed", wire.Usage(kind, &l.usage, "", scan.Value{})))
	case "turn.failed":
		d.endTurn(out)
		out.Facts.Turn = runs.TurnFailed
		turnError(l.errorMessage, out)
		out.Event(normalizer.StatusMessage("turn failed", nil))
		if l.errorMessage.IsString() && !d.told(l.errorMessage) {
			event, _ := normalizer.ErrorMessageOf(l.errorMessage)
			out.Event(event)
		}
	case "error":
		retry(l.message, out)
		d.Told = hash(l.message)
		return errorEvent(l.message, runs.ErrorTop, out)
	case "item.started", "item.created":
		return d.item(started, out)
	case "item.updated", "item.delta":
		return d.item(updated, out)
	case "item.completed":
		return d.item(completed, out)
	case "item.failed":
		return d.item(failed, out)
	case "session_meta", "event_msg", "response_item", "compacted", "turn_context", "world_state",
		"token_usage_record", "inter_agent_communication", "inter_agent_communication_metadata":
		return d.rollout(out)
	default:
		l.drift.Unknown(l.typ, "", out)
	}
	return normalizer.NoFault
}

func (d *dialect) endTurn(out *normalizer.Out) {
	d.updateThread(out)
	d.Turn, d.Working, d.Nested = "", false, false
}

// told reports whether the newest error line of this turn had the message: that of a failed turn
// usually repeats it.
func (d *dialect) told(message scan.Value) bool { return d.Told == hash(message) }

func hash(text scan.Value) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, text.View()) // never fails
	return h.Sum64()
}

// errorEvent maps an error message of the agent.
func errorEvent(message scan.Value, source runs.ErrorSource, out *normalizer.Out) normalizer.Fault {
	if !message.IsString() {
		return normalizer.InvalidPayload
	}
	event, head := normalizer.ErrorMessageOf(message)
	out.Facts.Error, out.Facts.ErrorSource = head, source
	out.Event(event)
	return normalizer.NoFault
}

func (d *dialect) threadStarted(out *normalizer.Out) normalizer.Fault {
	id := cmp.Or(d.line.lineThread(), wire.ID(d.line.sessionID), wire.ID(d.line.id))
	if id == "" {
		return normalizer.MissingThreadID
	}
	d.setThread(id, out)
	d.Turn, d.Working, d.Nested, d.Told = "", false, false, 0 // a process that did not end its turn may precede
	out.Event(normalizer.StatusMessage("thread started", nil))
	return normalizer.NoFault
}

// updateThread sets the thread to that of the line, if the line has a thread id.
func (d *dialect) updateThread(out *normalizer.Out) {
	if id := d.line.lineThread(); id != "" {
		d.setThread(id, out)
	}
}

func (d *dialect) setThread(id string, out *normalizer.Out) {
	id = strings.Clone(id)
	out.Session, out.Facts.Thread = id, id
	d.Thread.Set(id)
}

func (d *dialect) startTurn() {
	id := cmp.Or(wire.ID(d.line.turnID), wire.ID(d.line.id))
	if id == "" {
		d.Turns++
		id = "synthetic-turn-" + strconv.FormatInt(d.Turns, 10)
	}
	if d.Turn = wire.Thread(strings.Clone(id)); bounds.StringSize(id) > normalizer.MaxTurn {
		d.Turn = wire.Thread(normalizer.TooLong)
	}
}

// step is the state change of an item.
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
	typ := it.typ.View()
	if kind := toolKind(typ); kind != "" {
		d.tool(s, kind, out)
		return normalizer.NoFault
	}
	switch {
	case s == failed:
		message := it.errorMessage
		if !message.IsString() {
			message = l.errorMessage
		}
		return errorEvent(message, runs.ErrorItem, out)
	case typ == "agent_message", typ == "assistant_message":
		if !it.text.IsString() {
			return normalizer.InvalidPayload
		}
		out.Event(normalizer.AssistantTextOf(it.text))
		if s == completed {
			out.Facts.Step = true
			switch {
			case !d.Nested:
				out.FinalOf(it.text)
			case !wire.Blank(it.text.View()): // perhaps of the sub-agent: the last one counts once the turn has ended
				out.Draft(it.text.Text())
			}
		} else {
			out.Facts.Doing.Phase = runs.Writing
		}
	case typ == "reasoning":
		if !it.text.IsString() {
			return normalizer.InvalidPayload
		}
		out.Facts.Step = s == completed
		out.Event(normalizer.ReasoningTextOf(it.text))
	case typ == "todo_list":
		d.todo(s, out)
		out.Event(normalizer.StatusMessage(todoMessages[s], nil))
	case typ == "error":
		return errorEvent(it.message, runs.ErrorItem, out)
	default:
		l.drift.UnknownItem(it.typ, "item/", out)
	}
	return normalizer.NoFault
}

// toolKind returns the type of an item that is a tool call, not in the memory of the line, or "".
func toolKind(typ string) string {
	switch typ {
	case "command_execution":
		return "command_execution"
	case "file_change":
		return "file_change"
	case "mcp_tool_call":
		return "mcp_tool_call"
	case "web_search":
		return "web_search"
	case "collab_tool_call":
		return "collab_tool_call"
	}
	return ""
}

var todoMessages = [...]string{
	started: "todo list started", updated: "todo list updated", completed: "todo list completed",
}

// tool maps a step of a tool call. A field that is missing or has another type
// becomes null or 0.
func (d *dialect) tool(s step, kind string, out *normalizer.Out) {
	l, it := &d.line, &d.line.item
	f := normalizer.Facet{
		ItemID: wire.ID(it.id), ThreadID: cmp.Or(l.lineThread(), string(d.Thread)),
		TurnID: cmp.Or(wire.ID(l.turnID), string(d.Turn)), Kind: kind,
	}
	word := statusWord(&it.status)
	if f.Phase, f.Status = phase(s, word); word == "unknown" {
		l.drift.Add(runs.DriftStatus, kind+"/", it.status)
	}
	if kind == "mcp_tool_call" || kind == "collab_tool_call" {
		f.ToolName = it.tool.View()
	}
	if s != failed {
		setSizes(&f, it)
	}
	out.Facts.Delegates = kind == "collab_tool_call"
	event := normalizer.ToolCall
	switch s {
	case started:
		out.Facts.Opened = runs.Call{ID: f.ItemID, Kind: kind, Name: f.ToolName}
		show(&out.Facts.Opened, cmp.Or(f.ToolName, kind))
		d.activity(kind, out)
	case completed, failed:
		event = normalizer.ToolResult
		out.Facts.Closed = f.ItemID
		bad := f.Status == "failed"
		if f.ExitCode != nil {
			bad = *f.ExitCode != 0
		}
		if kind == "collab_tool_call" && f.ToolName == "wait" {
			d.Nested = false
		}
		// Some versions abandon a command that runs at the end of a turn, as completed (0.101 to 0.110) or in
		// progress: no verdict.
		if abandoned := kind == "command_execution" && f.ExitCode == nil && f.Status != "failed"; !abandoned {
			d.result(kind, bad, out)
		}
	}
	out.Tool(event, &f)
}

// setSizes sets the fields that depend on the kind of the tool.
func setSizes(f *normalizer.Facet, it *item) {
	switch f.Kind {
	case "command_execution":
		f.ExitCode = wire.Int32(it.exitCode, &it.exit)
		f.Bytes.Stdout, f.Bytes.Stderr = it.stdout.Len, it.stderr.Len
	case "file_change":
		f.ExitCode = wire.Int32(it.exitCode, &it.exit)
		f.Bytes.Diff = it.diff.Len
	case "mcp_tool_call":
		f.Bytes.Result = size(it.result)
	case "web_search":
		f.Bytes.Result = size(it.results)
	}
}

// phase returns the phase and the status of a step. The status of the item, word, takes
// precedence over the type of the line, because Codex completes failed items.
func phase(s step, word string) (phase, status string) {
	switch {
	case s == failed:
		return "fail", "failed"
	case s == started:
		return "start", cmp.Or(word, "running")
	case s == updated:
		return "delta", cmp.Or(word, "running")
	case word == "failed":
		return "fail", word
	case word == "running", word == "pending":
		return "complete", "unknown"
	}
	return "complete", cmp.Or(word, "completed")
}

// statusWord returns the status of an item as it is published, or "" if it has none.
func statusWord(status *scan.Value) string {
	switch status.View() {
	case "in_progress", "running":
		return "running"
	case "pending":
		return "pending"
	case "completed":
		return "completed"
	case "failed", "declined":
		return "failed"
	}
	if status.IsString() {
		return "unknown"
	}
	return ""
}

// size returns the length of v as compact JSON, or 0 if v is absent or null.
func size(v scan.Value) int {
	switch {
	case v.Kind <= scan.Null:
		return 0
	case v.IsString() && v.Odd: // Raw has no quotes
		return bounds.StringSize(v.Text())
	case v.IsString():
		return len(v.Raw) + len(`""`)
	case !v.Odd:
		return len(v.Raw)
	}
	n, _ := bounds.ValueSize(v.Raw) // the scanner has validated it
	return n
}

// state is the part of a dialect that is saved.
type state struct {
	Thread  wire.Thread `json:"thread,omitempty"`
	Turn    wire.Thread `json:"turn,omitempty"`    // its id, at most as long as [normalizer.MaxTurn]
	Turns   int64       `json:"turns,omitempty"`   // number of synthetic turn ids so far
	Working bool        `json:"working,omitempty"` // a turn has started and not ended
	Nested  bool        `json:"nested,omitempty"`  // a sub-agent has begun a turn in it
	Foreign bool        `json:"foreign,omitempty"` // the lines are of the protocol before 0.44

	Told uint64 `json:"told,omitempty"` // hash of the message of the newest error line in this turn

	// Of a session log: the calls without a result, and the ids of those with one.
	Calls wire.Memory `json:"calls,omitzero"`
	Done  []string    `json:"done,omitempty"`
	// What the log of a fork begins with.
	Fork fork `json:"fork,omitzero"`
	// The model has answered; a line has told what the thread had used before.
	Answered bool `json:"answered,omitempty"`
	Counted  bool `json:"counted,omitempty"`
	// The log tells of no turns, and its newest text may end one.
	Answers bool `json:"answers,omitempty"`
}

// State implements [normalizer.Dialect].
func (d *dialect) State() ([]byte, error) { return bounds.Encode(d.state) }

// IsNew implements [acp.Own].
func (d *dialect) IsNew() bool { return wire.IsNew(&d.state) }

// Restore implements [normalizer.Dialect].
func (d *dialect) Restore(b []byte) error { return wire.Restore(kind, b, &d.state) }
