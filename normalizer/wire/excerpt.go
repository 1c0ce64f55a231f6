package wire

import (
	"bytes"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Limits of the values for the run record, in bytes of undecoded JSON.
const (
	maxTool = 64                       // of the name of a tool
	maxHead = runs.MaxOutput / 4       // of the beginning of a command's output
	maxTail = runs.MaxOutput - maxHead // of the end of a command's output
)

// Doing is what a tool does, as far as the activity of a run says it.
type Doing uint8

// What tools do. Calls is anything else.
const (
	Calls Doing = iota
	Runs
	Edits
	SearchesWeb
)

// Activity sets the activity of a run to a tool call that has begun, for people: the command
// that it runs, the path that it edits, or the name of the tool.
func Activity(out *normalizer.Out, d Doing, tool string, command, path scan.Value) {
	switch d {
	case Runs:
		out.Activity = normalizer.Activity{Text: "Running ", Rest: command, Command: true}
	case Edits:
		out.Activity = normalizer.Activity{Text: "Editing ", Rest: path}
		if path.Len == 0 {
			out.Activity = normalizer.Activity{Text: "Editing files"}
		}
	case SearchesWeb:
		out.Activity = normalizer.Activity{Text: "Searching the web"}
	default:
		out.Activity = normalizer.Activity{Text: "Calling ", Name: tool[:bounds.Cut(tool, maxTool)]}
	}
}

// Output sets that a command ended, failed or not, with an output: of a long one, the
// beginning and the last lines count.
func Output(out *normalizer.Out, v scan.Value, failed bool) {
	o := normalizer.Output{Ended: true, Failed: failed}
	if v.IsString() {
		o.First, o.Escaped, o.Odd = v.Raw, v.Escaped, v.Odd
	}
	if len(o.First) > maxHead+maxTail {
		o.First, o.Last = v.Raw[:cut(v.Raw, maxHead)], tail(v.Raw, maxTail)
	}
	out.Command = o
}

// maxCommand is how many undecoded bytes of a command [RunsTests] reads.
const maxCommand = 4 << 10

// RunsTests is [runs.RunsTests] of a command: a string, or a list of arguments.
func RunsTests(v scan.Value) bool {
	raw := v.Raw[:min(len(v.Raw), maxCommand)]
	if !bytes.Contains(raw, []byte("test")) && !bytes.Contains(raw, []byte("check")) { // most commands
		return false
	}
	if v.IsString() {
		return runs.RunsTests(Head(nil, v, maxCommand))
	}
	var line []byte
	Each(v, func(arg scan.Value) { line = append(Head(line, arg, maxCommand-min(len(line), maxCommand)), ' ') })
	return runs.RunsTests(line)
}

// Head appends the decoded beginning of a string, at most n undecoded bytes.
func Head(dst []byte, v scan.Value, n int) []byte {
	if !v.IsString() {
		return dst
	}
	return decode(dst, v.Raw[:cut(v.Raw, n)], v.Escaped)
}

func decode(dst, raw []byte, escaped bool) []byte {
	return scan.Value{Kind: scan.String, Raw: raw, Escaped: escaped}.Append(dst)
}

// cut returns the largest offset <= n at which raw, the inside of a JSON string,
// can be cut without splitting an escape or a code point.
func cut(raw []byte, n int) int { return len(scan.Value{Raw: raw}.Head(n).Raw) }

// tail returns the last complete lines of raw, the inside of a JSON string, at most
// n bytes. It is nil if no line begins there.
func tail(raw []byte, n int) []byte {
	end := raw[max(len(raw)-n, 0):]
	from := len(raw) - len(end)
	for at := from; ; at += 2 {
		i := bytes.Index(raw[at:], []byte(`\n`))
		if i < 0 {
			return nil
		}
		at += i
		back := at // after an odd number of backslashes, this one is escaped
		for back > 0 && raw[back-1] == '\\' {
			back--
		}
		if (at-back)%2 == 0 {
			return raw[at+2:]
		}
		at-- // the n is a letter, not part of an escape
	}
}

// AddEdit adds a file change to the facts. One that cannot be listed is only counted.
func AddEdit(out *normalizer.Out, path string, kind runs.EditKind) {
	if path == "" || len(path) > runs.MaxPath || len(out.Facts.Edits) >= runs.MaxEdits {
		out.Facts.MoreEdits++
		return
	}
	out.Facts.Edits = append(out.Facts.Edits, runs.Edit{Path: path, Kind: kind})
}

// Todo sets the facts of a to-do list, whose texts are under a key: how many of its items are
// done, and the text of the first other one as the activity. It uses s, which must not be
// needed for the line any more.
func Todo(out *normalizer.Out, s *scan.Scanner, list scan.Value, key string) {
	var n runs.Todo
	out.Facts.Todo, out.Activity = nil, normalizer.Activity{}
	for elements := ElementsOf(list); ; n.Total++ {
		text, status, more := elements.NextPair(s, key, "status")
		if !more {
			break
		}
		switch {
		case status.Equal("completed"):
			n.Done++
		case out.Activity.Rest.Len == 0:
			out.Activity.Rest = text
		}
	}
	if n.Total > 0 {
		out.Facts.Todo = &n
	}
}
