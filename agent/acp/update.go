package acp

import (
	"hash/fnv"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// update maps a `session/update`.
func (d *dialect) update(m *Message, out *normalizer.Out) {
	kind, v := m.Update()
	u := wire.Object(v)
	session := wire.ID(wire.At(m.Params, "sessionId"))
	if d.Session == "" && !d.Heard {
		d.session(session, out)
	}
	switch kind {
	case "agent_message_chunk", "agent_thought_chunk", "tool_call", "tool_call_update", "plan", "plan_update":
		if d.Replay {
			return
		}
		if !d.Heard && !d.Open {
			d.begin(out)
		}
		d.content(kind, u, session, out)
	case "user_message_chunk", "compaction_summary_chunk", "available_commands_update":
	case "current_mode_update", "config_option_update":
		if !d.foreign(session) {
			d.options(SessionOf(v), out)
		}
	case "session_info_update":
		if !d.foreign(session) {
			out.Facts.Title = u["title"].Text()
		}
	case "usage_update":
		if !d.foreign(session) {
			d.context(u, out)
		}
	case "notice":
		d.notice(u, out)
	case "compaction_update":
		d.compacts(u, out)
	default:
		if strings.HasPrefix(kind, "_") { // an extension
			return
		}
		d.drift.Add(runs.DriftType, "session/update/", wire.At(v, "sessionUpdate"))
		d.unknown(out)
	}
}

// content maps an update of what the agent does.
func (d *dialect) content(kind string, u map[string]scan.Value, session string, out *normalizer.Out) {
	switch kind {
	case "agent_message_chunk", "agent_thought_chunk":
		d.requested(u["_meta"], out)
		d.chunk(kind, u, session, out)
	case "tool_call", "tool_call_update":
		d.call(u, session, kind == "tool_call", out)
	default:
		var s scan.Scanner
		wire.Todo(out, &s, planOf(u), "content")
		d.status(out, "plan updated", nil)
	}
}

func planOf(u map[string]scan.Value) scan.Value {
	if entries := u["entries"]; entries.Kind == scan.Array {
		return entries
	}
	return wire.At(u["plan"], "entries")
}

// chunk maps a chunk of a message or a thought.
func (d *dialect) chunk(kind string, u map[string]scan.Value, session string, out *normalizer.Out) {
	content := u["content"]
	if text := wire.At(content, "text"); wire.At(content, "type").Equal("text") && text.IsString() {
		channel := byte(answer)
		out.Facts.Doing.Phase = runs.Writing
		switch {
		case d.foreign(session):
			channel = subagent
		case kind == "agent_thought_chunk":
			channel, out.Facts.Doing.Phase = reasoning, runs.Thinking
		}
		if text.Len == 0 { // as before a message
			out.Facts.Doing.Phase = ""
		}
		d.say(channel, wire.ID(u["messageId"]), text.Text(), out)
		return
	}
	b := []byte(`{"schema":"backend.content.v1","content":{"type":`)
	b = appendText(b, oneOf(wire.At(content, "type"), "other", contents...))
	b = append(b, `,"bytes":`...)
	d.status(out, "content", append(appendInt(b, int64(bytesOf(content))), "}}"...))
}

// contents are the types of content that is no text.
var contents = []string{"image", "audio", "resource", "resource_link"}

// bytesOf is the size of a content as it is in the line: of data, of a text, or all of it.
func bytesOf(content scan.Value) int {
	for _, path := range [][]string{{"data"}, {"resource", "text"}, {"resource", "blob"}} {
		if v := wire.At(content, path...); v.IsString() {
			return v.Len
		}
	}
	return len(content.Raw)
}

// oneOf returns the one of some words that v is, or else another one.
func oneOf(v scan.Value, other string, words ...string) string {
	for _, word := range words {
		if v.Equal(word) {
			return word
		}
	}
	return other
}

// context maps the used part of the context, and the cost of the process so far.
func (d *dialect) context(u map[string]scan.Value, out *normalizer.Out) {
	used, known := u["used"].Int()
	size, _ := u["size"].Int()
	if known && used >= 0 && size >= 0 {
		d.told.Context = &runs.Context{Used: used, Size: size}
	}
	amount, ok := wire.Cost(wire.At(u["cost"], "amount"))
	if !ok || !wire.At(u["cost"], "currency").Equal("USD") {
		return
	}
	more := amount - d.Cost
	if more < 0 { // it counts from zero again
		more = amount
	}
	if d.Costs && more > 0 && !d.Replay {
		out.Facts.SpentCost = &more
	}
	d.Cost, d.Costs = amount, true
}

// notice maps a notice of the agent for its user.
func (d *dialect) notice(u map[string]scan.Value, out *normalizer.Out) {
	title := u["title"].Text()
	if !u["severity"].Equal("error") || wire.Blank(title) {
		d.status(out, "notice", nil)
		return
	}
	out.Facts.Error, out.Facts.ErrorSource = title, runs.ErrorTop
	d.event(out, normalizer.ErrorMessage(title))
}

func (d *dialect) compacts(u map[string]scan.Value, out *normalizer.Out) {
	switch status := u["status"]; {
	case status.Equal("in_progress"):
		out.Facts.Doing.Phase = runs.Compacting
		d.status(out, "compacting", nil)
	case status.Equal("completed"):
		if d.Open {
			out.Facts.Doing.Phase = runs.Thinking
		}
		d.status(out, "context compacted", nil)
	default:
		d.drift.Status(status, "compaction/", "failed", "cancelled")
		if d.Open {
			out.Facts.Doing.Phase = runs.Thinking
		}
		d.status(out, "compaction failed", nil)
	}
}

// hash is a hash of a text.
func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum64()
}
