package codex

import (
	"cmp"
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
	payload := wire.Object(line["payload"])
	switch typ := line["type"].Text(); {
	case strings.HasPrefix(typ, "item.") && line["item"].Kind == scan.Object:
		item := wire.Object(line["item"])
		itemDetail(item, wire.Either(item["item_type"], item["type"]).Text(), item["id"], out)
	case strings.HasPrefix(typ, "item."): // legacy format: the item's fields are at the top level
		itemDetail(line, line["item_type"].Text(), line["item_id"], out)
	case typ == "event_msg":
		messageDetail(payload, out)
	case typ == "response_item":
		responseDetail(payload, out)
	case typ == "compacted" && len(out.Events()) > 0:
		out.At(0).Text = wire.Excerpt(payload["message"])
	}
}

// itemDetail adds the detail of an item. Session logs have the same items with other names
// of their types.
func itemDetail(at map[string]scan.Value, typ string, id scan.Value, out *normalizer.Details) {
	if typ == "todo_list" && len(out.Events()) > 0 {
		wire.Each(at["items"], func(step scan.Value) {
			state := ""
			if wire.True(wire.At(step, "completed")) {
				state = "completed"
			}
			out.At(0).AddStep(wire.Text(wire.At(step, "text"), runs.DetailWindow), state)
		})
		return
	}
	if _, ok := out.Tool(wire.ID(id)); !ok {
		return
	}
	d := out.Call(wire.ID(id))
	switch cmp.Or(itemKinds[typ], typ) {
	case "command_execution":
		d.Command = wire.Command(at["command"])
		d.Output = wire.Excerpt(wire.Either(at["aggregated_output"], at["output"], at["stdout"]))
		d.Stderr = wire.Excerpt(wire.Either(at["stderr"], at["err"], at["error_output"]))
	case "file_change":
		changes(d, at["changes"])
		d.Stderr = wire.Excerpt(at["stderr"])
	case "mcp_tool_call":
		d.Server, d.Arguments = at["server"].Text(), wire.Excerpt(at["arguments"])
		d.Result = wire.Excerpt(wire.Either(wire.At(at["error"], "message"), at["result"]))
	case "web_search":
		d.Arguments = wire.Excerpt(wire.Either(at["query"], wire.At(at["action"], "query")))
	case "collab_tool_call":
		d.Prompt = wire.Excerpt(at["prompt"])
		var answers []string
		wire.EachMember(at["agents_states"], func(_ string, state scan.Value) {
			if text := wire.At(state, "message").Text(); text != "" {
				answers = append(answers, text)
			}
		})
		d.Result = runs.Whole(strings.Join(answers, "\n"))
	}
}

// changeKinds are the kinds of changed files, by the names that Codex has for them.
var changeKinds = map[string]string{"add": "added", "delete": "deleted"}

// changes adds changed files: a list, or in session logs an object with their paths as keys.
func changes(d *runs.Detail, v scan.Value) {
	add := func(path string, change, kind scan.Value) {
		f := runs.FileDetail{Path: path, Kind: cmp.Or(changeKinds[kind.Text()], "modified")}
		if moved := wire.At(change, "move_path").Text(); moved != "" {
			f.Path = moved
		}
		wire.Diff(&f, wire.Either(wire.At(change, "unified_diff"), wire.At(change, "diff")))
		switch content := wire.At(change, "content"); {
		case f.Kind == "added" && content.IsString():
			wire.Change(&f, scan.Value{}, content)
		case f.Kind == "deleted" && content.IsString():
			wire.Change(&f, content, scan.Value{})
		}
		d.AddFile(f)
	}
	wire.Each(v, func(change scan.Value) {
		kind := wire.At(change, "kind")
		add(wire.Text(wire.At(change, "path"), runs.DetailWindow), change, wire.Either(wire.At(kind, "type"), kind))
	})
	wire.EachMember(v, func(path string, change scan.Value) { add(path, change, wire.At(change, "type")) })
}

// messageDetail adds the detail of an event_msg of a session log.
func messageDetail(at map[string]scan.Value, out *normalizer.Details) {
	item := wire.Object(at["item"])
	switch typ := at["type"].Text(); {
	case typ == "item_completed" && item["type"].Equal("UserMessage"):
		var texts []string
		wire.Each(item["content"], func(part scan.Value) {
			if text := wire.At(part, "text").Text(); text != "" {
				texts = append(texts, text)
			}
		})
		out.Extra().Prompt = runs.Whole(strings.Join(texts, "\n"))
	case typ == "item_completed":
		itemDetail(item, item["type"].Text(), item["id"], out)
	case typ == "user_message":
		out.Extra().Prompt = wire.Excerpt(at["message"])
	case typ == "patch_apply_end" && wire.True(at["success"]):
		changes(out.Extra(), at["changes"])
	}
}

// shells are the tools that run a command.
var shells = map[string]bool{"exec_command": true, "shell": true, "shell_command": true, "local_shell": true}

// responseDetail adds the detail of a response_item of a session log: a call, or its result.
func responseDetail(at map[string]scan.Value, out *normalizer.Details) {
	id := cmp.Or(wire.ID(at["call_id"]), wire.ID(at["id"]))
	if typ := at["type"]; typ.Equal("web_search_call") || typ.Equal("image_generation_call") {
		id = wire.ID(at["id"])
	}
	tool, ok := out.Tool(id)
	if !ok {
		return
	}
	d := out.Call(id)
	switch at["type"].Text() {
	case "web_search_call":
		d.Arguments = wire.Excerpt(wire.Either(wire.At(at["action"], "query"), wire.At(at["action"], "url")))
	case "image_generation_call":
		d.Arguments = wire.Excerpt(at["revised_prompt"])
	case "function_call", "custom_tool_call", "local_shell_call", "tool_search_call":
		if server, ok := strings.CutPrefix(at["namespace"].Text(), "mcp__"); ok {
			d.Server = server
		}
		callDetail(d, tool, wire.Either(at["arguments"], at["input"], at["action"]))
	default:
		outputDetail(d, tool, at["output"])
	}
}

// callDetail adds the arguments of a call: an object, JSON in a text, or a text.
func callDetail(d *runs.Detail, tool string, arguments scan.Value) {
	object := arguments
	if 0 < arguments.Len && arguments.Len <= maxArguments {
		text := []byte(arguments.Text())
		if scan.Fields(text, nil) == scan.OK {
			object = wire.Root(text)
		}
	}
	command := wire.Either(wire.At(object, "cmd"), wire.At(object, "command"))
	prompt := wire.Either(wire.At(object, "message"), wire.At(object, "prompt"))
	switch {
	case shells[tool] && command.Kind != scan.Absent:
		d.Command = wire.Command(command)
	case tool == "apply_patch":
		if patch(d, wire.Either(wire.At(object, "input"), arguments).Text()); len(d.Files) == 0 {
			d.Arguments = wire.Excerpt(arguments)
		}
	case tool == "update_plan":
		wire.Plan(d, wire.At(object, "plan"), "step")
	case (tool == "spawn_agent" || tool == "send_input") && prompt.IsString():
		d.Prompt = wire.Excerpt(prompt)
	default:
		d.Arguments = wire.Excerpt(arguments)
	}
}

// outputDetail adds the result of a call: a text, JSON in a text, or a list of parts.
func outputDetail(d *runs.Detail, tool string, output scan.Value) {
	if !shells[tool] {
		d.Result = wire.Excerpt(output)
		return
	}
	if 0 < output.Len && output.Len <= maxArguments { // up to 0.100
		text := []byte(output.Text())
		if scan.Fields(text, nil) == scan.OK {
			object := wire.Root(text)
			if code, ok := wire.At(object, "metadata", "exit_code").Int(); ok {
				d.ExitCode = exitCode(strconv.FormatInt(code, 10))
				d.Output = wire.Excerpt(wire.At(object, "output"))
				return
			}
		}
	}
	d.Output = wire.Excerpt(output)
	if d.Output == nil {
		return
	}
	for _, separator := range []string{"\nOutput:\n", "\nOutput:"} {
		header, rest, found := strings.Cut(d.Output.Head, separator)
		if !found || len(header) > 400 {
			continue
		}
		for line := range strings.Lines(header) {
			for _, label := range []string{"Process exited with code ", "Exit code: "} {
				if code, ok := strings.CutPrefix(line, label); ok {
					d.ExitCode = exitCode(strings.TrimSpace(code))
				}
			}
		}
		d.Output.Head = rest
		return
	}
}

// exitCode returns an exit code; nil: the text is none.
func exitCode(text string) *int {
	code, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return nil
	}
	n := int(code)
	return &n
}

// patch adds the files of a patch in the format of the tool apply_patch.
func patch(d *runs.Detail, text string) {
	var f *runs.FileDetail
	var diff strings.Builder
	end := func() {
		if f != nil {
			f.SetDiff(diff.String())
			d.AddFile(*f)
		}
		f = nil
		diff.Reset()
	}
	for line := range strings.Lines(text) {
		name, isHeader := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "*** ")
		verb, path, hasPath := strings.Cut(name, " File: ")
		kind := map[string]string{"Add": "added", "Update": "modified", "Delete": "deleted"}[verb]
		switch {
		case isHeader && hasPath && kind != "":
			end()
			f = &runs.FileDetail{Path: path, Kind: kind}
		case isHeader && strings.HasPrefix(name, "End Patch"):
			end()
		case isHeader && f != nil && strings.HasPrefix(name, "Move to: "):
			f.Path = strings.TrimPrefix(name, "Move to: ")
		case f != nil && !isHeader:
			diff.WriteString(line)
		}
	}
	end()
}
