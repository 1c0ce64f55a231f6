package acp

import (
	"regexp"
	"slices"
	"strings"

	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
)

// CallOf returns the id and the status of the call in an update of the kind "tool_call" or
// "tool_call_update". The status is "" if it is not told.
func CallOf(update scan.Value) (id scan.Value, status string) {
	return wire.At(update, "toolCallId"), short(wire.At(update, "status"))
}

// KindOf returns the kind of the tool of a call, as an update of it or a request tells it; "": it does not.
func KindOf(call scan.Value) string { return short(wire.At(call, "kind")) }

// Files are the files that a tool call tells, or an update of it.
type Files struct {
	Paths   []string // all, as told
	Located int      // how many its locations tell
	Changed []string // those of its diffs, each once
	// Whole is false if not all can be read: there are more than maxPaths, or one is no text, is empty, is longer than
	// maxPathBytes, or is none before somebody expands it.
	Whole bool
}

// pathKeys are the names by which the inputs of the agents' tools tell a file, or the directory of a command.
var pathKeys = []string{
	"cwd", "path", "paths", "file_path", "filePath", "filepath", "absolute_path", "notebook_path", "dir_path", "directory",
	"parentDir",
}

// FilesOf returns the files of a call: those of its locations, its diffs and its input.
func FilesOf(call scan.Value) (f Files) {
	locations, input := wire.At(call, "locations"), wire.Object(wire.At(call, "rawInput"))
	f.Whole = locations.Kind <= scan.Null || locations.Kind == scan.Array
	for _, key := range pathKeys {
		if v := input[key]; v.Kind > scan.Null {
			f.add(v)
		}
	}
	switch v := input["pattern"]; { // of files, or of what is in them
	case v.Kind > scan.Null && !v.IsString(), leaves.MatchString(v.Text()):
		f.Whole = false
	case strings.HasPrefix(v.Text(), "/"), strings.HasPrefix(v.Text(), "~"):
		f.add(v)
	}
	var located []string
	wire.Each(locations, func(v scan.Value) {
		if path := f.add(wire.At(v, "path")); !slices.Contains(located, path) {
			located = append(located, path)
		}
	})
	f.Located = len(located)
	wire.Each(wire.At(call, "content"), func(v scan.Value) {
		if wire.At(v, "type").Equal("diff") {
			if path := f.add(wire.At(v, "path")); path != "" && !slices.Contains(f.Changed, path) {
				f.Changed = append(f.Changed, path)
			}
		}
	})
	return f
}

// leaves matches a pattern that may be about files which are not below the directory. It knows alternatives, as in
// {a,b}: one may begin elsewhere, or be empty before a slash, and the two dots may be of two.
var leaves = regexp.MustCompile(
	`(?s)[{,](/|~|\.\.)|^\{(.*[{,])?[,}]|(^|[/{,}])\.([{,}](.*[{,}])?)?\.($|[/{,}])`)

// add adds a path and returns it; "": it cannot be read.
func (f *Files) add(v scan.Value) string {
	path := ""
	if v.IsString() && v.Len <= maxPathBytes && len(f.Paths) < maxPaths {
		path = v.Text()
	}
	if path == "" || strings.HasPrefix(path, "~") || strings.HasPrefix(path, "file:") {
		f.Whole = false
		return ""
	}
	f.Paths = append(f.Paths, path)
	return path
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
