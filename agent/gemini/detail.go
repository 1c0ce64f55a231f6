package gemini

import (
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Detail implements [normalizer.Detailer].
func (d *dialect) Detail(raw []byte, out *normalizer.Details) {
	line := wire.Object(wire.Root(raw))
	id := wire.ID(line["tool_id"])
	tool, isCall := out.Tool("")
	switch typ := line["type"]; {
	case typ.Equal("message") && line["role"].Equal("user") && len(out.Events()) > 0:
		out.At(0).Prompt = wire.Excerpt(line["content"])
	case typ.Equal("tool_use") && isCall:
		callDetail(out.Call(id), tool, line["parameters"])
	case typ.Equal("tool_result") && isCall:
		d := out.Call(id)
		output := wire.Excerpt(wire.Either(line["output"], wire.At(line["error"], "message")))
		if tool == shell {
			d.Output = output
		} else {
			d.Result = output
		}
	}
}

// callDetail adds the parameters of a tool.
func callDetail(d *runs.Detail, tool string, parameters scan.Value) {
	at := wire.Object(parameters)
	file := runs.FileDetail{Path: wire.Text(at["file_path"], runs.DetailWindow), Kind: "modified"}
	switch tool {
	case shell:
		d.Command = wire.Command(at["command"])
	case "write_file":
		wire.Change(&file, scan.Value{}, at["content"])
		file.Added, file.Removed = nil, nil // no line tells what the file was before
	case "replace":
		wire.Change(&file, at["old_string"], at["new_string"])
	case "write_todos":
		wire.Plan(d, at["todos"], "description")
	case "invoke_agent":
		d.Prompt, d.Text = wire.Excerpt(at["prompt"]), wire.Excerpt(at["agent_name"])
	case "google_web_search":
		d.Arguments = wire.Excerpt(at["query"])
	default:
		d.Arguments = wire.Excerpt(parameters)
	}
	if activities[tool] == wire.Edits {
		d.AddFile(file)
	}
}
