package claude

import (
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// doings is what the tools do, as far as the run record says it.
var doings = map[string]wire.Doing{
	"Bash": wire.Runs, "Write": wire.Edits, "Edit": wire.Edits, "MultiEdit": wire.Edits, "NotebookEdit": wire.Edits,
	"WebSearch": wire.SearchesWeb, "WebFetch": wire.SearchesWeb,
}

// begins sets the facts of a call of a tool, from its input.
func (d *dialect) begins(tool string, out *normalizer.Out) {
	var command, path, todos scan.Value
	s := &d.line.s
	s.Reset(d.block.input.Raw)
	for ok := d.block.input.Kind == scan.Object && s.Object(); ok && s.Next(); {
		switch string(s.Key()) {
		case "command":
			s.First(&command)
		case "file_path", "notebook_path":
			s.First(&path)
		case "todos":
			s.First(&todos)
		default:
			s.Skip()
		}
	}
	if tool == "TodoWrite" {
		out.Facts.Todo, out.Facts.Activity = wire.Todo(s, todos)
		return
	}
	out.Facts.Activity = wire.Activity(doings[tool], tool, command, path)
}

// done sets the facts of the result of a tool.
func (d *dialect) done(tool string, failed bool, out *normalizer.Out) {
	l := &d.line
	switch doings[tool] {
	case wire.Runs:
		out.Facts.Command = wire.Findings(d.block.content, failed)
	case wire.Edits:
		if !failed && l.path.IsString() {
			out.Facts.Edits, out.Facts.MoreEdits = wire.Edit(l.path, l.resultType.Equal("create"))
		}
	}
}

// spent sets the facts of the usage and the cost in a result. The usage is that of the
// turns since the last result, the cost that of the session.
func (d *dialect) spent(out *normalizer.Out) {
	l := &d.line
	if l.usage.Any() {
		n := &l.usage.N
		out.Facts.Spent = &runs.Usage{
			Input:  wire.Sum(n[0], n[2], n[3]), // the agent counts cached tokens apart
			Output: n[1], CachedInput: n[2], CacheWriteInput: n[3],
		}
	}
	if amount, ok := wire.Cost(l.cost); ok {
		out.Facts.Cost = &amount
	}
}
