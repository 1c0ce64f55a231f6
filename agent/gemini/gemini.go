// Package gemini is the Gemini CLI. It reads the output of
// `gemini --output-format stream-json`.
//
//	line ─▶ line.go: scan the allowed fields ─▶ gemini.go: events, and facts for the run record
//
// The mapping is an allow-list: each line is scanned once, and only the fields in
// line.go are kept. Events never contain prompts, parameters or outputs, but may
// contain their lengths. The facts for the run record contain parts of commands,
// outputs and paths.
package gemini

import (
	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

const kind = "gemini_cli"

// Backend is the backend of the Gemini CLI.
type Backend struct{}

// Agent returns "gemini_cli".
func (Backend) Agent() string { return kind }

// Dialect returns the dialect of a new run of the Gemini CLI.
func (Backend) Dialect() normalizer.Dialect {
	return acp.Within(new(dialect), &live)
}

// dialect has the session of a run, and what a later line needs of earlier ones.
type dialect struct {
	line line
	state
}

// state is saved.
type state struct {
	Session wire.Thread `json:"session,omitempty"`
	Calls   wire.Memory `json:"calls"`
	// Open: the last line was a part of a message, and the next one may continue it.
	Open bool `json:"open,omitempty"`
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
	return fault
}

func (d *dialect) mapLine(out *normalizer.Out) normalizer.Fault {
	l := &d.line
	if !l.typ.IsString() {
		return normalizer.MissingType
	}
	switch l.typ.View() {
	case "init":
		d.begin(out)
	case "message":
		if fault := d.message(out); fault != normalizer.NoFault {
			return fault
		}
	case "tool_use":
		d.toolUse(out)
	case "tool_result":
		d.toolResult(out)
	case "error":
		text := l.message.Text()
		if wire.Blank(text) {
			return normalizer.InvalidPayload
		}
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorTop
		out.Event(normalizer.ErrorMessage(text))
	case "result":
		d.result(out)
	default:
		l.drift.Unknown(l.typ, "", out)
	}
	out.Facts.Drift = l.drift
	return normalizer.NoFault
}

// begin maps init, the first line of a process.
func (d *dialect) begin(out *normalizer.Out) {
	d.Session.Told(d.line.session, out)
	d.Open = false
	out.NoFinal()
	out.Facts.Turn, out.Facts.MustEnd = runs.TurnStarted, true
	out.Facts.Doing.Phase, out.Facts.Model = runs.Thinking, d.line.model.Text()
	out.Event(normalizer.StatusMessage("init", nil))
}

// message maps a message of the user or a part of one of the assistant.
func (d *dialect) message(out *normalizer.Out) normalizer.Fault {
	l := &d.line
	switch {
	case l.role.Equal("assistant"):
		if !l.content.IsString() {
			return normalizer.InvalidPayload
		}
		text, part := l.content.Text(), wire.True(l.delta)
		if part {
			out.Facts.Doing.Phase = runs.Writing
		}
		if d.Open && part {
			out.More(text)
		} else {
			out.Draft(text)
			out.Facts.Step = true
		}
		d.Open = part
		out.Event(normalizer.AssistantTextOf(l.content))
	case l.role.Equal("user"):
		d.Open = false
		out.Event(normalizer.StatusMessage("user message", nil))
	default:
		d.Open = false
		l.drift.UnknownItem(l.role, "message/", out)
	}
	return normalizer.NoFault
}

func (d *dialect) toolUse(out *normalizer.Out) {
	l := &d.line
	d.Open = false
	call := wire.Call{ID: wire.ID(l.toolID), Name: wire.ID(l.toolName), Path: l.path.View()}
	if call.Name == shell && wire.RunsTests(l.command) {
		call.Path = wire.Tests
	}
	d.Calls.Add(call)
	f := d.facet("tool_use")
	f.ToolName, f.UseID, f.Phase, f.Status = call.Name, call.ID, "start", "running"
	out.Facts.Opened = runs.Call{ID: call.ID, Kind: "tool_use", Name: call.Name, Phase: during[call.Name]}
	out.Facts.Delegates = call.Name == "invoke_agent"
	wire.Activity(out, activities[call.Name], call.Name, l.command, l.path)
	out.Tool(normalizer.ToolCall, &f)
}

// activities is what the tools do, as far as the run record says it.
var activities = map[string]wire.Doing{
	shell: wire.Runs, "write_file": wire.Edits, "replace": wire.Edits, "google_web_search": wire.SearchesWeb,
	"web_fetch": wire.SearchesWeb,
}

const shell = "run_shell_command"

// during is what the agent is doing during the call of a tool, unless it runs the tool.
var during = map[string]runs.Phase{"invoke_agent": runs.AwaitingAgent, "ask_user": runs.AwaitingInput}

func (d *dialect) toolResult(out *normalizer.Out) {
	l := &d.line
	d.Open = false
	id := wire.ID(l.toolID)
	call := d.Calls.Take(id)
	f := d.facet("tool_result")
	f.ToolName, f.UseID, f.Bytes.Result = call.Name, id, l.output.Len
	switch {
	case l.status.Equal("success"):
		f.Phase, f.Status = "complete", "completed"
	case l.status.Equal("error"):
		f.Phase, f.Status = "fail", "failed"
	default:
		f.Phase, f.Status = "complete", "unknown"
		l.drift.Status(l.status, "tool_result/")
	}
	out.Facts.Closed = id
	switch ok := f.Status == "completed"; {
	case call.Name == shell: // its exit code is lost: "success" means that it ran
		wire.Output(out, l.output, !ok)
		out.Command.Totals = call.Path == wire.Tests
	case ok && activities[call.Name] == wire.Edits:
		wire.AddEdit(out, call.Path, runs.Modified)
	}
	out.Tool(normalizer.ToolResult, &f)
}

func (d *dialect) facet(kind string) normalizer.Facet {
	return normalizer.Facet{ThreadID: string(d.Session), Kind: kind}
}

func (d *dialect) result(out *normalizer.Out) {
	l := &d.line
	d.Open = false
	data := wire.Usage(kind, &l.usage, "", l.none)
	if l.usage.Any() {
		n := &l.usage.N
		// The rest of the total is of reasoning.
		rest := max(max(n[0], 0)-max(n[1], 0), 0)
		rest = max(rest-max(n[2], 0), 0)
		out.Facts.SpentAll = &runs.Usage{
			Input: n[1], Output: wire.Sum(n[2], rest), CachedInput: n[3], ReasoningOutput: rest,
		}
	}
	if l.status.Equal("success") {
		out.Confirm()
		out.Facts.Turn = runs.TurnCompleted
		out.Event(normalizer.StatusMessage("result success", data))
		return
	}
	l.drift.Status(l.status, "result/", "error")
	text, source := l.errorMessage.Text(), runs.ErrorTurn
	if wire.Blank(text) { // an error before it tells more
		text, source = "result error", runs.ErrorItem
	}
	out.NoFinal()
	out.Facts.Turn, out.Facts.Error, out.Facts.ErrorSource = runs.TurnFailed, text, source
	e := normalizer.ErrorMessage(text)
	e.Data = data
	out.Event(e)
}
