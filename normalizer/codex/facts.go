package codex

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Limits of what is taken from a line for the run record.
const (
	maxActivity = 320                      // bytes as written of a command, a path or the text of a to-do
	maxHead     = runs.MaxOutput / 4       // bytes as written of the beginning of a command's output
	maxTail     = runs.MaxOutput - maxHead // and of its end
	maxError    = 4 << 10                  // bytes as written of the message of a failed turn
	maxEdits    = 3 * runs.MaxPaths        // files of one change
)

// activity says for people what began.
func (d *dialect) activity(kind string) string {
	it := &d.line.item
	var buf [maxActivity + 64]byte
	b := buf[:0]
	switch kind {
	case "command_execution":
		b = append(b, "Running "...)
		from := len(b)
		b = head(b, it.about, maxActivity)
		b = append(b[:from], bare(b[from:])...)
	case "file_change":
		b = append(b, "Editing "...)
		from, files := len(b), 0
		for list := elements(it.about); d.next(&list); files++ {
			if path, _ := d.change(list.element); files == 0 {
				b = head(b, path, maxActivity)
			}
		}
		if len(b) == from {
			b = append(b, "files"...)
		} else if files > 1 {
			b = append(b, " and "...)
			b = strconv.AppendInt(b, int64(files-1), 10)
			b = append(b, " more"...)
		}
	case "mcp_tool_call", "collab_tool_call":
		b = append(b, "Calling "...)
		b = head(b, it.tool, 64)
	case "web_search":
		return "Searching the web"
	}
	return string(b)
}

// bare is a command without the shell that it is given to: /bin/bash -lc 'go test ./...'
func bare(command []byte) []byte {
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

// todo takes the to-do list of the line.
func (d *dialect) todo(s step, out *normalizer.Out) {
	var all runs.Todo
	for list := elements(d.line.item.about); d.next(&list); {
		text, done := d.todoItem(list.element)
		all.Total++
		if done {
			all.Done++
		} else if out.Facts.Activity == "" && s != completed {
			out.Facts.Activity = string(head(nil, text, maxActivity))
		}
	}
	if all.Total > 0 {
		out.Facts.Todo = &all
	}
}

func (d *dialect) todoItem(raw []byte) (text scan.Value, done bool) {
	var completed scan.Value
	d.line.s.Reset(raw)
	for ok := d.line.s.Object(); ok && d.line.s.Next(); {
		switch string(d.line.s.Key()) {
		case "text":
			d.line.s.First(&text)
		case "completed":
			d.line.s.First(&completed)
		default:
			d.line.s.Skip()
		}
	}
	return text, completed.Kind == scan.Bool && completed.Raw[0] == 't'
}

// result takes what the end of a tool call tells. A command has failed
// where its exit status is not 0.
func (d *dialect) result(kind string, failed bool, out *normalizer.Out) {
	switch kind {
	case "command_execution":
		out.Facts.Command = read(d.line.item.stdout, failed)
	case "file_change":
		if d.line.item.status.Equal("completed") {
			d.edits(out)
		}
	}
}

// edits takes the changes of files.
func (d *dialect) edits(out *normalizer.Out) {
	for list := elements(d.line.item.about); d.next(&list); {
		if len(out.Facts.Edits) >= maxEdits {
			out.Facts.MoreEdits++
			continue
		}
		path, kind := d.change(list.element)
		if path.Len == 0 || path.Len > runs.MaxPath {
			out.Facts.MoreEdits++
			continue
		}
		e := runs.Edit{Path: path.Text()}
		switch {
		case kind.Equal("add"):
			e.Kind = runs.Added
		case kind.Equal("delete"):
			e.Kind = runs.Deleted
		}
		out.Facts.Edits = append(out.Facts.Edits, e)
	}
}

func (d *dialect) change(raw []byte) (path, kind scan.Value) {
	d.line.s.Reset(raw)
	for ok := d.line.s.Object(); ok && d.line.s.Next(); {
		switch string(d.line.s.Key()) {
		case "path":
			d.line.s.First(&path)
		case "kind":
			d.line.s.First(&kind)
		default:
			d.line.s.Skip()
		}
	}
	return path, kind
}

// array walks over the elements of an array, which was scanned.
type array struct {
	rest    []byte // behind the opening bracket
	element []byte
}

// elements are those of v; none where it is no array.
func elements(v scan.Value) array {
	if v.Kind != scan.Array {
		return array{}
	}
	return array{rest: v.Raw[1:]}
}

// next moves to the next element that is an object. The line has been read, so
// its scanner is free.
func (d *dialect) next(a *array) bool {
	for len(a.rest) > 0 {
		switch a.rest[0] {
		case ',', ' ', '\t', '\r', '\n':
			a.rest = a.rest[1:]
			continue
		case ']':
			return false
		}
		var v scan.Value
		d.line.s.Reset(a.rest)
		d.line.s.First(&v)
		n := len(v.Raw)
		if v.IsString() {
			n += len(`""`)
		}
		if n == 0 {
			return false
		}
		a.rest = a.rest[n:]
		if v.Kind == scan.Object {
			a.element = v.Raw
			return true
		}
	}
	return false
}

// read reads a command's output, nil where it tells nothing.
func read(v scan.Value, failed bool) *runs.Findings {
	if !v.IsString() {
		if failed {
			return &runs.Findings{Failed: true}
		}
		return nil
	}
	first, last := v.Raw, []byte(nil)
	if len(v.Raw) > maxHead+maxTail {
		first, last = v.Raw[:whole(v.Raw, maxHead)], tail(v.Raw, maxTail)
	}
	if !failed && !runs.MayHaveFindings(first) && !runs.MayHaveFindings(last) {
		return nil
	}
	var buf [2 << 10]byte
	text := buf[:0]
	if n := len(first) + len(last) + 1; n > len(buf) {
		text = make([]byte, 0, n)
	}
	text = decode(text, first, v.Escaped)
	if len(last) > 0 {
		text = append(text, '\n')
		text = decode(text, last, v.Escaped)
	}
	f := runs.ReadOutput(text, failed)
	if !failed && f.Tests == nil && f.LinesChanged == nil {
		return nil
	}
	kept := f // only what is kept goes to the heap
	return &kept
}

// head appends the beginning of the text of a string.
func head(dst []byte, v scan.Value, n int) []byte {
	if !v.IsString() {
		return dst
	}
	return decode(dst, v.Raw[:whole(v.Raw, n)], v.Escaped)
}

func decode(dst, raw []byte, escaped bool) []byte {
	return scan.Value{Kind: scan.String, Raw: raw, Escaped: escaped}.Append(dst)
}

// whole is the largest place at or before n where raw, the inside of a JSON
// string, can be cut: not within an escape or a character.
func whole(raw []byte, n int) int {
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

// tail is the end of raw, at most n bytes of it, from the beginning of a line
// on. Where no line begins there it is nil.
func tail(raw []byte, n int) []byte {
	end := raw[max(len(raw)-n, 0):]
	from := len(raw) - len(end)
	for at := from; ; at += 2 {
		i := bytes.Index(raw[at:], []byte(`\n`))
		if i < 0 {
			return nil
		}
		at += i
		back := at // a backslash behind an odd number of others is one of theirs
		for back > 0 && raw[back-1] == '\\' {
			back--
		}
		if (at-back)%2 == 0 {
			return raw[at+2:]
		}
		at-- // the n is a letter
	}
}

// complain takes the message of a failed turn.
func complain(v scan.Value, source runs.ErrorSource, out *normalizer.Out) {
	out.Facts.Error, out.Facts.ErrorSource = string(head(nil, v, maxError)), source
}
