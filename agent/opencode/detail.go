package opencode

import (
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Detail implements [normalizer.Detailer]. A line has the whole call: opencode prints it when
// it has ended.
func (d *dialect) Detail(raw []byte, out *normalizer.Details) {
	part := wire.At(wire.Root(raw), "part")
	id := wire.ID(wire.At(part, "id"))
	tool, ok := out.Tool(id)
	if !ok {
		return
	}
	detail, state := out.Call(id), wire.At(part, "state")
	output := wire.Excerpt(wire.Either(wire.At(state, "error"), wire.At(state, "output")))
	input := func(key string) scan.Value { return wire.At(state, "input", key) }
	switch tool {
	case "bash":
		detail.Command, detail.Output = wire.Command(input("command")), output
	case "write", "edit", "patch", "multiedit", "apply_patch":
		detail.Result = output
		if !wire.At(state, "status").Equal("error") {
			editDetail(detail, tool, state)
			detail.Result = nil
		}
	case "todowrite":
		wire.Plan(detail, wire.Either(wire.At(state, "metadata", "todos"), input("todos")), "content")
	case "task":
		detail.Prompt, detail.Text, detail.Result = wire.Excerpt(input("prompt")), wire.Excerpt(input("description")), output
	case "webfetch":
		detail.Arguments, detail.Result = wire.Excerpt(input("url")), output
	case "websearch":
		detail.Arguments, detail.Result = wire.Excerpt(input("query")), output
	default:
		detail.Arguments, detail.Result = wire.Excerpt(wire.At(state, "input")), output
	}
}

// editDetail adds the changed file of an edit.
func editDetail(d *runs.Detail, tool string, state scan.Value) {
	metadata := func(path ...string) scan.Value { return wire.At(wire.At(state, "metadata"), path...) }
	input := func(key string) scan.Value { return wire.At(state, "input", key) }
	path := wire.Either(metadata("filediff", "file"), metadata("filepath"), input("filePath"))
	f := runs.FileDetail{Path: wire.Text(path, runs.DetailWindow), Kind: "modified"}
	switch {
	case tool == "write":
		wire.Change(&f, scan.Value{}, input("content"))
		if wire.False(metadata("exists")) {
			f.Kind = "added"
		} else {
			f.Added, f.Removed = nil, nil // what the file was before is not in the line
		}
	case metadata("diff").Len > 0:
		wire.Diff(&f, metadata("diff"))
	case tool == "edit":
		wire.Change(&f, input("oldString"), input("newString"))
	}
	if f.Path != "" {
		d.AddFile(f)
		return
	}
	d.Arguments = wire.Excerpt(wire.At(state, "input"))
}
