package opencode

import (
	"cmp"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Detail implements [normalizer.Detailer]. A line has the whole call: opencode prints it when
// it has ended.
func (d *dialect) Detail(raw []byte, out *normalizer.Details) {
	part := wire.Object(wire.At(wire.Root(raw), "part"))
	id := cmp.Or(wire.ID(part["partID"]), wire.ID(part["id"]))
	tool, ok := out.Tool(id)
	if !ok {
		return
	}
	detail, state := out.Call(id), wire.Object(part["state"])
	output := wire.Excerpt(wire.Either(state["error"], state["output"]))
	input := wire.Object(state["input"])
	switch tool {
	case "bash", "shell":
		detail.Command, detail.Output = wire.Command(input["command"]), output
	case "write", "edit", "patch", "multiedit", "apply_patch":
		detail.Result = output
		if !state["status"].Equal("error") {
			editDetail(detail, tool, state)
			detail.Result = nil
		}
	case "todowrite":
		wire.Plan(detail, wire.Either(wire.At(state["metadata"], "todos"), input["todos"]), "content")
	case "task", "subagent":
		detail.Prompt, detail.Text = wire.Excerpt(input["prompt"]), wire.Excerpt(input["description"])
		detail.Result = output
	case "webfetch":
		detail.Arguments, detail.Result = wire.Excerpt(input["url"]), output
	case "websearch":
		detail.Arguments, detail.Result = wire.Excerpt(input["query"]), output
	default:
		detail.Arguments, detail.Result = wire.Excerpt(state["input"]), output
	}
}

// editDetail adds the changed file of an edit.
func editDetail(d *runs.Detail, tool string, state map[string]scan.Value) {
	metadata := wire.Object(state["metadata"])
	input := wire.Object(state["input"])
	if files := wire.Either(wire.At(metadata["metadata"], "files"), metadata["files"]); files.Kind == scan.Array {
		wire.Each(files, func(file scan.Value) { fileDetail(d, file) })
		return
	}
	path := wire.Either(wire.At(metadata["filediff"], "file"), metadata["filepath"], input["filePath"], input["path"])
	f := runs.FileDetail{Path: wire.Text(path, runs.DetailWindow), Kind: "modified"}
	switch {
	case tool == "write":
		wire.Change(&f, scan.Value{}, input["content"])
		if wire.False(metadata["exists"]) {
			f.Kind = "added"
		} else {
			f.Added, f.Removed = nil, nil // what the file was before is not in the line
		}
	case metadata["diff"].Len > 0:
		wire.Diff(&f, metadata["diff"])
	case tool == "edit":
		wire.Change(&f, input["oldString"], input["newString"])
	}
	if d.AddFile(f); f.Path == "" {
		d.Arguments = wire.Excerpt(state["input"])
	}
}

// fileNames are the names of the kinds of edits.
var fileNames = [...]string{runs.Modified: "modified", runs.Added: "added", runs.Deleted: "deleted"}

// fileDetail adds one of the files that an edit lists.
func fileDetail(d *runs.Detail, file scan.Value) {
	if file.Kind != scan.Object {
		return
	}
	var c change
	c.scan(new(scan.Scanner), file.Raw)
	f := runs.FileDetail{Path: wire.Text(c.path, runs.DetailWindow), Kind: fileNames[editKinds[c.kind.Text()]]}
	if moved := wire.Text(c.moved, runs.DetailWindow); moved != "" {
		f.Kind = "deleted"
		d.AddFile(f)
		f.Path, f.Kind = moved, "added"
	}
	wire.Diff(&f, c.patch)
	d.AddFile(f)
}
