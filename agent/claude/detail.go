package claude

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Detail implements [normalizer.Detailer].
func (d *dialect) Detail(raw []byte, out *normalizer.Details) {
	line := wire.Object(wire.Root(raw))
	logged := line["sessionId"].IsString()
	content := wire.At(line["message"], "content")
	switch line["type"].Text() {
	case "assistant":
		wire.Each(content, func(block scan.Value) {
			id := wire.ID(wire.At(block, "id"))
			typ := wire.At(block, "type")
			if tool, ok := out.Tool(id); ok && (typ.Equal("tool_use") || serverCalls[typ.Text()]) {
				callDetail(out.Call(id), tool, wire.At(block, "input"))
			}
		})
	case "user":
		results := resultDetails(line, content, out)
		switch {
		case results > 0:
		case !logged:
			userDetail(content, out)
		case prompted(line):
			out.Extra().Prompt = texts(content)
		}
	case "system":
		if len(out.Events()) > 0 && !logged {
			systemDetail(line, out.At(0))
		}
	}
}

// prompted reports whether a line of a session log has a prompt: of the user, or as the first
// message of the log of a sub-agent.
func prompted(line map[string]scan.Value) bool {
	source := line["promptSource"]
	if source.Kind == scan.Absent {
		return line["parentUuid"].Kind == scan.Null && !wire.True(line["isMeta"])
	}
	return source.IsString() && !source.Equal("system")
}

// systemDetail adds the prompt of a sub-agent that starts, or the summary of what ended in
// the background.
func systemDetail(line map[string]scan.Value, d *runs.Detail) {
	switch line["subtype"].Text() {
	case "task_started":
		d.Prompt = wire.Excerpt(line["prompt"])
		if d.Prompt == nil {
			d.Text = wire.Excerpt(line["description"])
		}
	case "task_progress":
		d.Text = wire.Excerpt(line["description"])
	case "task_notification":
		d.Text = wire.Excerpt(line["summary"])
	}
}

// userDetail adds what a user, or an agent to its sub-agent, wrote. Each block has its own
// event.
func userDetail(content scan.Value, out *normalizer.Details) {
	events := out.Events()
	if content.IsString() && len(events) > 0 {
		out.At(0).Prompt = wire.Excerpt(content)
	}
	i := 0
	wire.Each(content, func(block scan.Value) {
		if i < len(events) && wire.At(block, "type").Equal("text") {
			out.At(i).Prompt = wire.Excerpt(wire.At(block, "text"))
		}
		i++
	})
}

// texts returns a text, or those of some blocks, a line each.
func texts(content scan.Value) *runs.Excerpted {
	if content.Kind != scan.Array {
		return wire.Excerpt(content)
	}
	var all []string
	wire.Each(content, func(block scan.Value) {
		if text := wire.At(block, "text").Text(); text != "" {
			all = append(all, text)
		}
	})
	return runs.Whole(strings.Join(all, "\n"))
}

// mcpServer returns the server of a tool: mcp__SERVER__TOOL.
func mcpServer(tool string) string {
	name, ok := strings.CutPrefix(tool, "mcp__")
	server, _, found := strings.Cut(name, "__")
	if !ok || !found {
		return ""
	}
	return server
}

// callDetail adds the input of a tool.
func callDetail(d *runs.Detail, tool string, input scan.Value) {
	at := wire.Object(input)
	path := wire.Either(at["file_path"], at["notebook_path"])
	file := runs.FileDetail{Path: wire.Text(path, runs.DetailWindow), Kind: "modified"}
	switch tool {
	case "Bash":
		d.Command = wire.Command(at["command"])
	case "Write":
		wire.Change(&file, scan.Value{}, at["content"])
		file.Added, file.Removed = nil, nil // the result tells what the file was before
	case "Edit":
		wire.Change(&file, at["old_string"], at["new_string"])
		if wire.True(at["replace_all"]) {
			file.Added, file.Removed = nil, nil
		}
	case "MultiEdit":
		counted := true
		wire.Each(at["edits"], func(edit scan.Value) {
			wire.Change(&file, wire.At(edit, "old_string"), wire.At(edit, "new_string"))
			counted = counted && file.Added != nil && !wire.True(wire.At(edit, "replace_all"))
		})
		if !counted {
			file.Added, file.Removed = nil, nil
		}
	case "NotebookEdit":
		wire.Change(&file, scan.Value{}, at["new_source"])
		file.Added, file.Removed = nil, nil
	case "TodoWrite":
		wire.Plan(d, at["todos"], "content")
	case "Task", "Agent":
		d.Prompt, d.Text = wire.Excerpt(at["prompt"]), wire.Excerpt(at["description"])
	case "WebSearch", "web_search": // of the provider
		d.Arguments = wire.Excerpt(at["query"])
	case "WebFetch":
		d.Arguments = wire.Excerpt(at["url"])
	default:
		d.Server, d.Arguments = mcpServer(tool), wire.Excerpt(input)
	}
	if doings[tool] == wire.Edits {
		d.AddFile(file)
	}
}

// resultDetails adds the results of tools, and returns their number.
func resultDetails(line map[string]scan.Value, content scan.Value, out *normalizer.Details) (results int) {
	wire.Each(content, func(block scan.Value) {
		if wire.At(block, "type").Equal("tool_result") {
			results++
		}
	})
	var more scan.Value // of the only result
	if results == 1 {
		more = wire.Either(line["tool_use_result"], line["toolUseResult"])
	}
	wire.Each(content, func(block scan.Value) {
		id := wire.ID(wire.At(block, "tool_use_id"))
		if tool, ok := out.Tool(id); ok && wire.At(block, "type").Equal("tool_result") {
			resultDetail(out.Call(id), tool, block, more)
		}
	})
	return results
}

// resultDetail adds the result of a tool.
func resultDetail(d *runs.Detail, tool string, block, more scan.Value) {
	content := wire.At(block, "content")
	failed := wire.True(wire.At(block, "is_error"))
	at := wire.Object(more)
	switch {
	case doings[tool] == wire.Runs:
		d.Output, d.Stderr = texts(content), wire.Excerpt(at["stderr"])
		if at["stdout"].Len > 0 {
			d.Output = wire.Excerpt(at["stdout"])
		}
		if failed && d.Output != nil {
			d.ExitCode, d.Output.Head = exitCode(d.Output.Head)
		}
	case doings[tool] == wire.Edits && !failed && at["filePath"].Len > 0:
		d.AddFile(edited(more))
	case tool == "TodoWrite":
		wire.Plan(d, at["newTodos"], "content")
	case tool == "TaskList":
		wire.Plan(d, at["tasks"], "subject")
		fallthrough
	default:
		d.Server, d.Result = mcpServer(tool), texts(content)
	}
}

// exitCode returns the exit code at the beginning of the result of a failed command, and the
// rest.
func exitCode(text string) (code *int, rest string) {
	line, rest, _ := strings.Cut(text, "\n")
	number, ok := strings.CutPrefix(line, "Exit code ")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return nil, text
	}
	return &n, rest
}

// edited returns the changed file of the result of an edit.
func edited(result scan.Value) runs.FileDetail {
	f := runs.FileDetail{Path: wire.Text(wire.At(result, "filePath"), runs.DetailWindow), Kind: "modified"}
	if wire.At(result, "type").Equal("create") {
		f.Kind = "added"
		wire.Change(&f, scan.Value{}, wire.At(result, "content"))
		return f
	}
	var diff strings.Builder
	wire.Each(wire.At(result, "structuredPatch"), func(hunk scan.Value) {
		at := func(key string) []byte { return wire.At(hunk, key).Raw }
		fmt.Fprintf(&diff, "@@ -%s,%s +%s,%s @@\n", at("oldStart"), at("oldLines"), at("newStart"), at("newLines"))
		wire.Each(wire.At(hunk, "lines"), func(line scan.Value) {
			diff.WriteString(line.Text() + "\n")
		})
	})
	f.SetDiff(diff.String())
	return f
}
