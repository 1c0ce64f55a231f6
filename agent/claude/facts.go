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
		wire.Todo(out, s, todos, "content")
		return
	}
	wire.Activity(out, doings[tool], tool, command, path)
}

// done sets the facts of the result of a tool.
func (d *dialect) done(tool string, failed bool, out *normalizer.Out) {
	l := &d.line
	switch doings[tool] {
	case wire.Runs:
		wire.Output(out, d.block.content, failed)
	case wire.Edits:
		if !failed && l.path.IsString() {
			out.Facts.Edits, out.Facts.MoreEdits = wire.Edit(l.path, l.resultType.Equal("create"))
		}
	}
}

// spent sets the facts of the usage and the cost in a result. The usage is that of the
// turns since the last result; the cost, and the parts of the models, are those of the session.
func (d *dialect) spent(out *normalizer.Out) {
	l := &d.line
	if l.usage.Any() {
		out.Facts.Spent = spent(&l.usage.N)
	}
	if amount, ok := wire.Cost(l.cost); ok {
		out.Facts.Cost = &amount
	}
	out.Facts.Models = d.models()
}

// spent returns the usage in counters. The agent counts cached tokens apart.
func spent(n *[8]int64) *runs.Usage {
	return &runs.Usage{
		Input: wire.Sum(n[0], n[2], n[3]), Output: n[1], CachedInput: n[2], CacheWriteInput: n[3],
	}
}

// modelCounters are the keys of the usage of a model that are recorded.
var modelCounters = []string{
	"inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "thinkingTokens",
}

// models returns what each model has used. An object without a known key is none.
func (d *dialect) models() (all []runs.Model) {
	s := &d.line.s
	s.Reset(d.line.models.Raw)
	for ok := d.line.models.Kind == scan.Object && s.Object(); ok && s.Next(); {
		if len(all) == runs.MaxModels {
			s.Skip()
			continue
		}
		name, seen := string(s.Key()), false
		used, cost := wire.Counters{Names: modelCounters}, scan.Value{}
		wire.Members(s, &seen, func(key []byte) bool {
			if string(key) == "costUSD" {
				s.First(&cost)
				return true
			}
			return used.Read(s, key)
		})
		amount, hasCost := wire.Cost(cost)
		if !used.Any() && !hasCost {
			continue
		}
		n := &used.N
		m := runs.Model{Name: name, Usage: runs.Usage{
			Input: wire.Sum(n[0], n[2], n[3]), Output: n[1], CachedInput: n[2], CacheWriteInput: n[3], ReasoningOutput: n[4],
		}}
		if hasCost {
			m.Cost = &amount
		}
		all = append(all, m)
	}
	return all
}
