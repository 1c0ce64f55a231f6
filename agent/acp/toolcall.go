package acp

import (
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
)

// CallOf returns the id and the status of the call in an update of the kind "tool_call" or
// "tool_call_update". The status is "" if it is not told.
func CallOf(update scan.Value) (id scan.Value, status string) {
	return wire.At(update, "toolCallId"), short(wire.At(update, "status"))
}

// Paths are the files that a question is about: the locations of its call, the files of its diffs, and
// the directory of its command. It is false
// if they cannot be read in full: there are more than MaxPaths, or one is no text, is empty or is longer than
// MaxPath bytes.
func (q *Question) Paths() (paths []string, whole bool) {
	locations := wire.At(q.ToolCall, "locations")
	whole = locations.Kind <= scan.Null || locations.Kind == scan.Array
	add := func(path scan.Value) {
		ok := path.IsString() && 0 < path.Len && path.Len <= maxPathBytes && len(paths) < maxPaths
		if whole = whole && ok; ok {
			paths = append(paths, path.Text())
		}
	}
	if dir := wire.At(q.ToolCall, "rawInput", "cwd"); dir.Kind > scan.Null { // where a command runs
		add(dir)
	}
	wire.Each(locations, func(v scan.Value) { add(wire.At(v, "path")) })
	wire.Each(wire.At(q.ToolCall, "content"), func(v scan.Value) {
		if wire.At(v, "type").Equal("diff") {
			add(wire.At(v, "path"))
		}
	})
	return paths, whole
}

// Limits of the paths of a question.
const (
	maxPaths     = 64
	maxPathBytes = 4096 // bytes
)

// Withdrawn returns the id, as JSON, of the request that the agent takes back by `$/cancel_request`, "" if the
// message is something else.
func (m *Message) Withdrawn() string {
	id := wire.At(m.Params, "requestId")
	if m.Kind != Notification || !m.Method.Equal("$/cancel_request") || id.Kind != scan.Number && !id.IsString() {
		return ""
	}
	return (&Message{ID: id}).RequestID()
}

// SessionID returns the session that a request or a notification is of, "" if it names none.
func (m *Message) SessionID() string { return wire.At(m.Params, "sessionId").Text() }
