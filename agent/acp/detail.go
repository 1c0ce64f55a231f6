package acp

import (
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// Detail implements [normalizer.Detailer].
func (d *dialect) Detail(line []byte, out *normalizer.Details) {
	m, _ := Read(line)
	kind, v := m.Update()
	u := wire.Object(v)
	last := len(out.Events()) - 1
	switch kind {
	case "":
		if q := m.QuestionOf(); q.Kind != "" && last >= 0 {
			questionDetail(out.At(last), &m, &q)
			call := wire.Object(q.ToolCall)
			d.callDetail(call, out)
		}
	case "user_message_chunk":
		if text := wire.At(u["content"], "text"); !d.Replay && text.Len > 0 && hash(text.Text()) != d.Echo {
			out.Extra().Prompt = wire.Excerpt(text)
		}
	case "agent_message_chunk", "agent_thought_chunk":
		content := u["content"]
		if name := wire.Either(wire.At(content, "name"), wire.At(content, "uri"), wire.At(content, "resource", "uri"),
			wire.At(content, "mimeType")); last >= 0 && !wire.At(content, "type").Equal("text") {
			out.At(last).Text = wire.Excerpt(name)
		}
	case "plan", "plan_update":
		if last >= 0 {
			wire.Plan(out.At(last), planOf(u), "content")
		}
	case "notice":
		if last >= 0 {
			out.At(last).Text = wire.Excerpt(wire.Either(u["description"], u["title"]))
		}
	default:
		d.callDetail(u, out)
	}
}

// callDetail adds what an update tells of a call.
func (d *dialect) callDetail(u map[string]scan.Value, out *normalizer.Details) {
	id := wire.ID(u["toolCallId"])
	name, ok := out.Tool(id)
	if id == "" || !ok {
		return
	}
	detail, input := out.Call(id), u["rawInput"]
	switch command := wire.At(input, "command"); {
	case command.Kind != scan.Absent:
		detail.Command = wire.Command(command)
	case len(input.Raw) > 0:
		detail.Arguments = wire.Excerpt(input)
	case !u["title"].Equal(name):
		detail.Text = wire.Excerpt(u["title"])
	}
	fileDetails(detail, u)
	if status := u["status"]; !status.Equal("completed") && !status.Equal("failed") {
		return
	}
	if output := wire.Excerpt(outputOf(d.agent, u)); u["kind"].Equal("execute") || d.executes(id) {
		detail.Output = output
	} else {
		detail.Result = output
	}
}

func (d *dialect) executes(id string) bool {
	c := d.find(id)
	return c != nil && c.Kind == "execute"
}

// fileDetails adds the diffs in the content of an update.
func fileDetails(detail *runs.Detail, u map[string]scan.Value) {
	diffs(u, func(path, old, replacement scan.Value) {
		f := runs.FileDetail{Path: wire.Text(path, runs.DetailWindow), Kind: "modified"}
		if !old.IsString() {
			f.Kind = "added"
		}
		wire.Change(&f, old, replacement)
		detail.AddFile(f)
	})
}

// questionDetail adds what a question asks: its title, and what can be answered.
func questionDetail(detail *runs.Detail, m *Message, q *Question) {
	title := wire.Either(wire.At(q.ToolCall, "title"), wire.At(m.Params, "message"))
	lines := []string{wire.Text(title, runs.DetailWindow)}
	wire.Each(wire.At(q.ToolCall, "content"), func(v scan.Value) {
		if text := wire.Text(wire.At(v, "content", "text"), runs.DetailWindow); text != "" && len(lines) < maxOpts {
			lines = append(lines, text)
		}
	})
	wire.Each(wire.At(m.Params, "options"), func(v scan.Value) {
		if len(lines) < 2*maxOpts {
			lines = append(lines, "- "+wire.Text(wire.At(v, "name"), MaxOption))
		}
	})
	detail.Text = runs.Whole(strings.TrimSpace(strings.Join(lines, "\n")))
	fileDetails(detail, wire.Object(q.ToolCall))
}

// SentDetail implements [normalizer.Conversation].
func (d *dialect) SentDetail(line []byte, out *normalizer.Details) {
	m, _ := Read(line)
	events := out.Events()
	switch {
	case len(events) == 0:
	case m.Kind == Request && m.Method.Equal("session/prompt"):
		out.At(len(events) - 1).Prompt = wire.Excerpt(promptOf(wire.At(m.Params, "prompt")))
	case m.Kind == Response && d.by != "":
		for i := range events {
			if message := events[i].Message; message != nil && *message == "answered" {
				out.At(i).Text = runs.Whole(d.by)
			}
		}
	}
}
