package acp

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// toolCall is a call of a tool, as its updates told it.
type toolCall struct {
	ID     string `json:"id"` // at most maxCallID bytes
	Kind   string `json:"kind"`
	Name   string `json:"name,omitempty"` // of the tool, at most maxName bytes
	Status string `json:"status"`
	Path   string `json:"path,omitempty"`  // of the first file that it changes, at most maxPath bytes
	Added  bool   `json:"added,omitempty"` // it creates that file
	More   int    `json:"more,omitempty"`  // files beside that

	Stdout int `json:"stdout,omitempty"` // lengths
	Stderr int `json:"stderr,omitempty"`
	Diff   int `json:"diff,omitempty"`
	Result int `json:"result,omitempty"`
	Shown  int `json:"shown,omitempty"` // Stdout and Result in the last event

	Input bool `json:"input,omitempty"` // a line has had the input of the call
	Tests bool `json:"tests,omitempty"` // it is a command that runs tests
	Asked bool `json:"asked,omitempty"` // only its question has told that it begins
	Ended bool `json:"ended,omitempty"`
}

// Limits of the remembered calls.
const (
	maxCalls  = 32
	maxCallID = 128
	maxName   = 64
	maxPath   = 256
	growth    = 4 << 10 // of the output, until an event tells it
)

// kinds are the kinds of tools.
var kinds = []string{
	"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode",
}

// find returns the call with an id; nil: it is not remembered.
func (d *dialect) find(id string) *toolCall {
	if i := slices.IndexFunc(d.Calls, func(c toolCall) bool { return c.ID == id }); i >= 0 {
		return &d.Calls[i]
	}
	return nil
}

// begins remembers a new call. The oldest one that has ended is forgotten, or else the oldest.
func (d *dialect) begins(id string) *toolCall {
	c := toolCall{ID: strings.Clone(id), Kind: "other", Status: "pending"}
	if id == "" || len(id) > maxCallID {
		c.ID = ""
		return &c
	}
	if i := slices.IndexFunc(d.Calls, func(c toolCall) bool { return c.ID == id }); i >= 0 {
		d.Calls = slices.Delete(d.Calls, i, i+1)
	}
	if len(d.Calls) == maxCalls {
		i := max(slices.IndexFunc(d.Calls, func(c toolCall) bool { return c.Ended }), 0)
		d.Calls = slices.Delete(d.Calls, i, i+1)
	}
	d.Calls = append(d.Calls, c)
	return &d.Calls[len(d.Calls)-1]
}

// call maps an update of a call. The first one may already be its end.
func (d *dialect) call(u map[string]scan.Value, session string, first bool, out *normalizer.Out) {
	id := wire.ID(u["toolCallId"])
	c := d.find(id)
	starts := c == nil || first && c.Ended
	switch {
	case starts:
		c = d.begins(id)
	case c.Ended:
		return
	}
	before := *c
	c.read(d, u, starts)
	d.Text.Goes = false
	f := normalizer.Facet{
		ThreadID: string(d.Session), TurnID: d.turnID(), Kind: c.Kind, Status: c.Status, ToolName: c.Name, UseID: id,
	}
	if session != "" {
		f.ThreadID = session
	}
	f.Bytes.Stdout, f.Bytes.Stderr, f.Bytes.Diff, f.Bytes.Result = c.Stdout, c.Stderr, c.Diff, c.Result
	switch {
	case c.Status == "completed", c.Status == "failed":
		d.returns(c, u, &f, out)
	case starts:
		f.Phase = "start"
		c.Shown = c.Stdout + c.Result
		out.Facts.Opened = runs.Call{ID: id, Kind: c.Kind, Name: c.Name}
		d.activity(c, u, out)
		d.flush(out)
		out.Tool(normalizer.ToolCall, &f)
	case before.Status != c.Status, before.Kind != c.Kind, before.Name != c.Name, before.Input != c.Input,
		c.Stdout+c.Result-c.Shown >= growth:
		f.Phase = "delta"
		c.Shown = c.Stdout + c.Result
		if c.Input != before.Input {
			d.activity(c, u, out)
		}
		d.flush(out)
		out.Tool(normalizer.ToolCall, &f)
	}
}

// read reads what an update tells.
func (c *toolCall) read(d *dialect, u map[string]scan.Value, first bool) {
	if v := u["kind"]; v.IsString() {
		d.drift.Status(v, "tool_call/kind/", append(kinds, "other")...)
		c.Kind = oneOf(v, "other", kinds...)
	}
	switch v := u["status"]; {
	case v.Equal("pending"), v.Equal("completed"), v.Equal("failed"):
		c.Status = v.Text()
	case v.Equal("in_progress"):
		c.Status = "running"
	default:
		d.drift.Status(v, "tool_call/")
	}
	if name := d.toolName(u, first); name != "" {
		c.Name = strings.Clone(name)
	}
	input := u["rawInput"]
	if len(input.Raw) > len("{}") && input.Kind == scan.Object {
		c.Input = true
		c.Tests = c.Tests || c.Kind == "execute" && wire.RunsTests(wire.At(input, "command"))
	}
	c.output(d.agent, u)
	c.files(u)
}

// word matches the names of tools.
var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]*$`)

// toolName returns the name of the tool in an update, or "".
func (d *dialect) toolName(u map[string]scan.Value, first bool) string {
	name := u["name"]
	titled := first && u["sessionUpdate"].Equal("tool_call") && u["status"].Equal("pending") // later ones are of the call
	if path := d.agent.ToolName; !name.IsString() && len(path) > 0 && (titled || path[0] != "title") {
		if name = u[path[0]]; len(path) > 1 {
			name = wire.At(name, path[1:]...)
		}
	}
	if id := wire.ID(name); len(id) <= maxName && word.MatchString(id) {
		return id
	}
	return ""
}

// output counts what the call has printed.
func (c *toolCall) output(a *Agent, u map[string]scan.Value) {
	texts := 0
	wire.Each(u["content"], func(v scan.Value) { texts += wire.At(v, "content", "text").Len })
	stdout, stderr := wire.At(u["_meta"], below(a.Stdout)...), wire.At(u["_meta"], below(a.Stderr)...)
	switch {
	case a.Stdout == nil || c.Kind != "execute":
		if u["content"].Kind == scan.Array {
			c.Result = texts
		}
	case a.Parts && stdout.IsString():
		c.Stdout = min(c.Stdout+stdout.Len, math.MaxInt32)
	case stdout.IsString():
		c.Stdout, c.Stderr = stdout.Len, stderr.Len
	}
}

// below returns a path without `_meta`, at which it begins.
func below(path []string) []string {
	if len(path) == 0 {
		return []string{""}
	}
	return path[1:]
}

// diffs calls each with the files that the content of an update changes.
func diffs(u map[string]scan.Value, each func(path, old, replacement scan.Value)) {
	wire.Each(u["content"], func(v scan.Value) {
		if wire.At(v, "type").Equal("diff") {
			each(wire.At(v, "path"), wire.At(v, "oldText"), wire.At(v, "newText"))
		}
	})
}

// files keeps which files the call changes.
func (c *toolCall) files(u map[string]scan.Value) {
	n, size := 0, 0
	keep := func(path scan.Value, added bool) {
		if n == 0 && path.Len <= maxPath {
			c.Path, c.Added = path.Text(), added
		}
		n++
	}
	diffs(u, func(path, old, replacement scan.Value) {
		keep(path, !old.IsString())
		size += replacement.Len
	})
	if n > 0 {
		c.Diff = size
	} else if c.edits() && c.Path == "" {
		wire.Each(u["locations"], func(v scan.Value) { keep(wire.At(v, "path"), false) })
	}
	if n > 0 {
		if c.More = n; c.Path != "" {
			c.More--
		}
	}
}

// edits reports whether the tool changes files.
func (c *toolCall) edits() bool { return c.Kind == "edit" || c.Kind == "delete" || c.Kind == "move" }

// activity sets the activity of the run to a call that has begun.
func (d *dialect) activity(c *toolCall, u map[string]scan.Value, out *normalizer.Out) {
	command, title := wire.At(u["rawInput"], "command"), u["title"]
	switch {
	case c.Kind == "execute" && command.IsString():
		wire.Activity(out, wire.Runs, "", command, scan.Value{})
	case title.Len > 0:
		out.Activity = normalizer.Activity{Rest: title}
	case c.Name != "":
		wire.Activity(out, wire.Calls, c.Name, scan.Value{}, scan.Value{})
	}
}

// returns maps the end of a call.
func (d *dialect) returns(c *toolCall, u map[string]scan.Value, f *normalizer.Facet, out *normalizer.Out) {
	c.Ended = true
	f.Phase = "complete"
	if f.Status == "failed" {
		f.Phase = "fail"
	}
	f.ExitCode = wire.Int32(exitCode(u, d.agent.ExitCode), new(int32))
	output := outputOf(d.agent, u)
	if f.Bytes.Stdout == 0 && f.Bytes.Result == 0 {
		f.Bytes.Result = output.Len
	}
	out.Facts.Closed = strings.Clone(f.UseID)
	failed := f.Status == "failed" || f.ExitCode != nil && *f.ExitCode != 0
	switch {
	case c.Kind == "execute":
		wire.Output(out, output, failed)
		out.Command.Totals = c.Tests
	case failed:
	case c.edits() || c.Path != "" || c.More > 0:
		d.edited(c, u, out)
	}
	d.proceeds(c, out)
	d.flush(out)
	out.Tool(normalizer.ToolResult, f)
}

// edited sets the files that a call has changed: those in its last update, or else those before.
func (d *dialect) edited(c *toolCall, u map[string]scan.Value, out *normalizer.Out) {
	listed := false
	diffs(u, func(path, old, _ scan.Value) {
		listed = true
		kind := runs.Modified
		if !old.IsString() {
			kind = runs.Added
		}
		wire.AddEdit(out, path.View(), kind)
	})
	if listed {
		return
	}
	kind := runs.Modified
	switch {
	case c.Kind == "delete":
		kind = runs.Deleted
	case c.Added:
		kind = runs.Added
	}
	if out.Facts.MoreEdits = c.More; c.Path != "" {
		wire.AddEdit(out, c.Path, kind)
	}
}

// outputOf returns the output in an update that ends a call.
func outputOf(a *Agent, u map[string]scan.Value) (output scan.Value) {
	raw := u["rawOutput"]
	meta := wire.At(u["_meta"], below(a.Stdout)...)
	for _, v := range []scan.Value{meta, raw, wire.At(raw, "output"), wire.At(raw, "content")} {
		if v.IsString() && v.Len > 0 {
			return v
		}
	}
	wire.Each(u["content"], func(v scan.Value) {
		if text := wire.At(v, "content", "text"); text.Len > 0 {
			output = text
		}
	})
	return output
}

// exitCode returns the value at a path, through the first element of each list that has the rest.
func exitCode(u map[string]scan.Value, path []string) (found scan.Value) {
	if len(path) == 0 {
		return found
	}
	found = u[path[0]]
	for i, key := range path[1:] {
		if found.Kind == scan.Array {
			list := found
			found = scan.Value{}
			wire.Each(list, func(v scan.Value) {
				if found.Kind == scan.Absent {
					found = wire.At(v, path[1+i:]...)
				}
			})
			return found
		}
		found = wire.At(found, key)
	}
	return found
}
