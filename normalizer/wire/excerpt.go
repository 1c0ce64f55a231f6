package wire

import (
	"bytes"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Limits of the values for the run record, in bytes of undecoded JSON.
const (
	MaxActivity = 320                      // of a command, a path or a to-do item
	maxTool     = 64                       // of the name of a tool
	maxHead     = runs.MaxOutput / 4       // of the beginning of a command's output
	maxTail     = runs.MaxOutput - maxHead // of the end of a command's output
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
	out.Facts.Activity = ""
	b := out.Activity[:0]
	switch d {
	case Runs:
		b = append(b, "Running "...)
		from := len(b)
		b = Head(b, command, MaxActivity)
		b = append(b[:from], withoutShell(b[from:])...)
	case Edits:
		b = append(b, "Editing "...)
		if path.Len > 0 {
			b = Head(b, path, MaxActivity)
		} else {
			b = append(b, "files"...)
		}
	case SearchesWeb:
		b = append(b, "Searching the web"...)
	default:
		b = append(b, "Calling "...)
		b = append(b, tool[:bounds.Cut(tool, maxTool)]...)
	}
	out.Activity = b
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
func cut(raw []byte, n int) int {
	if n >= len(raw) {
		return len(raw)
	}
	for n > 0 && !utf8.RuneStart(raw[n]) {
		n--
	}
	for i := 0; ; {
		k := bytes.IndexByte(raw[i:n], '\\')
		if k < 0 {
			return n
		}
		i += k
		size := 2
		if raw[i+1] == 'u' {
			size = 6
		}
		if i+size > n {
			return i
		}
		i += size
	}
}

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

// Edit returns the facts of one file change: of the file at path, created or changed.
func Edit(path scan.Value, created bool) (edits []runs.Edit, more int) {
	if path.Len == 0 || path.Len > runs.MaxPath {
		return nil, 1
	}
	e := runs.Edit{Path: path.Text()}
	if created {
		e.Kind = runs.Added
	}
	return []runs.Edit{e}, 0
}

// Todo sets the facts of a to-do list, whose texts are under a key: how many of its items are
// done, and the text of the first other one as the activity. It uses s, which must not be
// needed for the line any more.
func Todo(out *normalizer.Out, s *scan.Scanner, list scan.Value, key string) {
	var n runs.Todo
	out.Facts.Todo, out.Facts.Activity, out.Activity = nil, "", out.Activity[:0]
	for elements := ElementsOf(list); ; n.Total++ {
		raw, more := elements.NextObject(s)
		if !more {
			break
		}
		text, status := Pair(s, raw, key, "status")
		switch {
		case status.Equal("completed"):
			n.Done++
		case len(out.Activity) == 0:
			out.Activity = Head(out.Activity, text, MaxActivity)
		}
	}
	if n.Total > 0 {
		out.Facts.Todo = &n
	}
}

// withoutShell removes the shell from a command: /bin/bash -lc 'go test ./...'
func withoutShell(command []byte) []byte {
	const option = "c "
	i := bytes.Index(command[:min(len(command), 32)], []byte(option))
	if i < 0 || !bytes.Contains(command[:i], []byte("sh -")) {
		return command
	}
	command = command[i+len(option):]
	if n := len(command); n > 1 && (command[0] == '\'' || command[0] == '"') {
		if command[n-1] == command[0] {
			n--
		}
		command = command[1:n]
	}
	return command
}
