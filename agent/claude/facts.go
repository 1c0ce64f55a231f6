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

// begins sets the facts of a call of a tool, from its input. It returns the command, if the input has
// one.
func (d *dialect) begins(tool string, out *normalizer.Out) (command scan.Value) {
	out.Facts.Delegates = out.Facts.Delegates || tool == "Agent" || tool == "Task"
	var path, todos scan.Value
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
		return scan.Value{}
	}
	wire.Activity(out, doings[tool], tool, command, path)
	return command
}

// done sets the facts of the result of a call.
func (d *dialect) done(call wire.Call, failed bool, out *normalizer.Out) {
	l := &d.line
	switch doings[call.Name] {
	case wire.Runs:
		wire.Output(out, d.block.content, failed)
		out.Command.Totals = call.Path == wire.Tests
	case wire.Edits:
		if !failed && l.path.IsString() {
			kind := runs.Modified
			if l.resultType.Equal("create") {
				kind = runs.Added
			}
			wire.AddEdit(out, l.path.View(), kind)
		}
	}
}

// spent sets the facts of the usage and the cost in a result. The usage is that of the turns
// since the last result, without sub-agents. The account is that of the session so far, with
// sub-agents, compactions, and the processes before a resumed one; newer versions tell what of
// it is new since the last result.
func (d *dialect) spent(out *normalizer.Out) {
	l := &d.line
	if l.usage.Any() {
		out.Facts.Spent = spent(&l.usage.N)
	}
	d.account(l.cost, out)
	if l.since.Kind != scan.Object || out.Facts.Used == nil {
		return
	}
	since := d.models(l.since)
	out.Facts.SpentAll, out.Facts.Counts = &since.Usage, runs.CountsMore
	if !d.Accounted && out.Facts.Used.Usage != (runs.Usage{}) {
		d.Accounted, out.Facts.Before = true, new(out.Facts.Used.Since(&since))
	}
}

// account sets the facts of what the session has used so far.
func (d *dialect) account(cost scan.Value, out *normalizer.Out) {
	used := d.models(d.line.models)
	if len(used.Models) == 0 {
		used.Cost = nil // not told
	}
	if amount, ok := wire.Cost(cost); ok {
		used.Cost = &amount
	}
	if used.Cost != nil || len(used.Models) > 0 {
		out.Facts.Used, out.Facts.Counts = &used, runs.CountsAll
	}
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

// models returns what models have used, and their sum. An object without a known key is none. The
// cost is nil if that of a model is not told.
func (d *dialect) models(v scan.Value) (all runs.Account) {
	s := &d.line.s
	s.Reset(v.Raw)
	sum, priced := 0.0, true
	for ok := v.Kind == scan.Object && s.Object(); ok && s.Next(); {
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
		m := runs.Model{Name: name, Usage: *spent(&used.N)}
		m.ReasoningOutput = used.N[4]
		all.Usage = m.Plus(&all.Usage)
		if sum += amount; hasCost {
			m.Cost = &amount
		} else {
			priced = false
		}
		if len(all.Models) < runs.MaxModels {
			all.Models = append(all.Models, m)
		}
	}
	if priced {
		all.Cost = &sum
	}
	return all
}
