// Package opencode is opencode. It reads the output of `opencode run --format json`.
//
//	line ─▶ line.go: scan the allowed fields ─▶ opencode.go: events, and facts for the run record
//
// The mapping is an allow-list: each line is scanned once, and only the fields in
// line.go are kept. Events never contain inputs, outputs, titles or errors of tools,
// but may contain their lengths. The facts for the run record contain parts of
// commands, outputs, paths and to-do lists.
package opencode

import (
	"cmp"

	"github.com/linesman/linesman/agent/acp"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

const kind = "opencode"

// Backend is the backend of opencode.
type Backend struct{}

// Agent returns "opencode".
func (Backend) Agent() string { return kind }

// Dialect returns the dialect of a new run of opencode.
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
	Texts   bool        `json:"texts,omitempty"` // the draft has a text of this step
	Working bool        `json:"working,omitempty"`
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
	typ := l.typ.View()
	if fault := l.check(typ); fault != normalizer.NoFault {
		return fault
	}
	d.Session.Told(l.session, out)
	switch typ {
	case "step_start":
		if !d.Working {
			out.Facts.Turn, out.Facts.MustEnd = runs.TurnStarted, true
		}
		d.Working, d.Texts = true, false
		out.Facts.Doing.Phase = runs.Thinking
		out.NoFinal()
		out.Event(normalizer.StatusMessage("step started", nil))
	case "text":
		if wire.True(l.synthetic) { // such as the prompt after a compaction
			out.Event(normalizer.StatusMessage("user message", nil))
			break
		}
		text := l.text.Text()
		if d.Texts {
			out.More("\n" + text)
		} else {
			out.Draft(text)
		}
		d.Texts, out.Facts.Step = true, true
		out.Facts.Doing.Phase = runs.Writing
		out.Event(normalizer.AssistantTextOf(l.text))
	case "reasoning":
		out.Facts.Step = true
		out.Event(normalizer.ReasoningTextOf(l.text))
	case "tool_use":
		d.tool(out)
	case "step_finish":
		d.stepFinish(out)
	case "error":
		text := l.failure()
		d.Texts = false
		out.NoFinal()
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorTop
		out.Event(normalizer.ErrorMessage(text))
	default:
		l.drift.Unknown(l.typ, "", out)
	}
	out.Facts.Drift = l.drift
	return normalizer.NoFault
}

// check returns a fault if a line of a known type lacks what its event is made of.
func (l *line) check(typ string) normalizer.Fault {
	switch typ {
	case "text", "reasoning":
		if l.text.IsString() {
			return normalizer.NoFault
		}
	case "tool_use":
		if l.hasPart {
			return normalizer.NoFault
		}
	case "error":
		if l.failure() != "" {
			return normalizer.NoFault
		}
	default:
		return normalizer.NoFault
	}
	return normalizer.InvalidPayload
}

// failure returns the message of an error line, or "".
func (l *line) failure() string {
	texts := []string{l.errorMessage.Text(), l.errorName.Text()}
	if l.errorType.IsString() && l.errorName.Kind == scan.Absent {
		texts = []string{l.errorText.Text(), l.errorType.Text()}
	}
	for _, text := range texts {
		if !wire.Blank(text) {
			return text
		}
	}
	return ""
}

// tool maps a tool call: opencode prints it once, when it has ended.
func (d *dialect) tool(out *normalizer.Out) {
	l := &d.line
	f := normalizer.Facet{
		ItemID: wire.ID(l.id), ThreadID: cmp.Or(wire.ID(l.session), string(d.Session)), TurnID: wire.ID(l.message),
		Kind:     "tool_use",
		ToolName: wire.ID(l.tool), UseID: wire.ID(l.call), Phase: "complete", Status: "unknown",
	}
	if part := wire.ID(l.partID); part != "" {
		f.ItemID, f.UseID = part, cmp.Or(f.UseID, f.ItemID)
	}
	switch {
	case f.ToolName == "invalid", l.status.Equal("error"):
		f.Phase, f.Status = "fail", "failed"
	case l.status.Equal("completed"):
		f.Status = "completed"
	default:
		l.drift.Status(l.status, "tool_use/")
	}
	ok := f.Status == "completed"
	f.Bytes.Diff = l.diff.Len
	switch f.ToolName {
	case "bash", "shell":
		if f.ExitCode = wire.Int32(l.exit, new(int32)); f.ExitCode != nil {
			ok = *f.ExitCode == 0
		}
		f.Bytes.Stdout = l.output.Len
		wire.Output(out, l.output, !ok)
		out.Command.Totals = wire.RunsTests(l.command)
	default:
		f.Bytes.Result = l.output.Len
	}
	switch f.ToolName {
	case "write", "edit", "patch", "multiedit", "apply_patch":
		switch {
		case ok && l.files.Kind == scan.Array:
			d.edits(&f, out)
		case ok:
			kind := runs.Modified
			if wire.False(l.exists) {
				kind = runs.Added
			}
			wire.AddEdit(out, l.path.View(), kind)
		}
	case "todowrite":
		wire.Todo(out, &l.s, l.todos, "content")
	}
	out.Facts.Closed = f.UseID
	out.Tool(normalizer.ToolResult, &f)
}

// edits sets the facts of changed files, and the bytes of their diffs unless those are counted.
func (d *dialect) edits(f *normalizer.Facet, out *normalizer.Out) {
	s, sum := &d.line.s, 0
	for list := wire.ElementsOf(d.line.files); ; {
		raw, more := list.NextObject(s)
		if !more {
			break
		}
		var c change
		c.scan(s, raw)
		sum += c.patch.Len
		if c.moved.Len > 0 {
			wire.AddEdit(out, c.path.View(), runs.Deleted)
			wire.AddEdit(out, c.moved.View(), runs.Added)
			continue
		}
		wire.AddEdit(out, c.path.View(), editKinds[c.kind.View()])
	}
	if f.Bytes.Diff == 0 {
		f.Bytes.Diff = sum
	}
}

// editKinds are the kinds of changed files, by the names of version 2 and of 1.x; else they are
// modified.
var editKinds = map[string]runs.EditKind{
	"added": runs.Added, "deleted": runs.Deleted, "add": runs.Added, "delete": runs.Deleted,
}

func (d *dialect) stepFinish(out *normalizer.Out) {
	l := &d.line
	if l.reason.Equal("stop") {
		out.Confirm()
		d.Working, out.Facts.Turn = false, runs.TurnCompleted
	} else {
		l.drift.Status(l.reason, "step_finish/", "tool-calls", "length", "content-filter", "error", "other", "unknown")
		out.NoFinal()
		d.Texts = false
	}
	out.Facts.Untold = true // the title of the session, and sub-agents
	if l.usage.Any() {
		n := &l.usage.N
		out.Facts.Spent = &runs.Usage{
			Input:  wire.Sum(n[0], n[3], n[4]), // the agent counts cached tokens apart, and those of reasoning
			Output: wire.Sum(n[1], n[2]), ReasoningOutput: n[2], CachedInput: n[3], CacheWriteInput: n[4],
		}
	}
	if amount, ok := wire.Cost(l.cost); ok {
		out.Facts.SpentCost = &amount
	}
	out.Event(normalizer.StatusMessage("step finished", wire.Usage(kind, &l.usage, "cost", l.cost)))
}
