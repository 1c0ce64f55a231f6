package codex

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/runs"
)

// Limits of the values for the run record, in bytes of undecoded JSON.
const (
	maxActivity = 320                      // of a command, a path or a to-do item
	maxTool     = 64                       // of the name of a tool
	maxHead     = runs.MaxOutput / 4       // of the beginning of a command's output
	maxTail     = runs.MaxOutput - maxHead // of the end of a command's output
	maxError    = 4 << 10                  // of the message of a failed turn
)

// activity describes the started tool call, for people.
func (d *dialect) activity(kind string) string {
	it := &d.line.item
	var buf [maxActivity + 64]byte
	b := buf[:0]
	switch kind {
	case "command_execution":
		b = append(b, "Running "...)
		from := len(b)
		b = head(b, it.details, maxActivity)
		b = append(b[:from], withoutShell(b[from:])...)
	case "file_change":
		b = append(b, "Editing "...)
		from, files := len(b), 0
		for list := elements(it.details); d.next(&list); files++ {
			if path, _ := d.pair(list.element, "path", "kind"); files == 0 {
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
		b = head(b, it.tool, maxTool)
	case "web_search":
		return "Searching the web"
	}
	return string(b)
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

// todo sets the facts of a to-do list.
func (d *dialect) todo(s step, out *normalizer.Out) {
	var counts runs.Todo
	for list := elements(d.line.item.details); d.next(&list); {
		text, done := d.pair(list.element, "text", "completed")
		counts.Total++
		if done.Kind == scan.Bool && done.Raw[0] == 't' {
			counts.Done++
		} else if out.Facts.Activity == "" && s != completed {
			out.Facts.Activity = string(head(nil, text, maxActivity))
		}
	}
	if counts.Total > 0 {
		out.Facts.Todo = &counts
	}
}

// pair returns two members of an object that was scanned before. It uses the
// scanner of the line, which is no longer needed for the line.
func (d *dialect) pair(raw []byte, first, second string) (a, b scan.Value) {
	d.line.s.Reset(raw)
	for ok := d.line.s.Object(); ok && d.line.s.Next(); {
		switch string(d.line.s.Key()) {
		case first:
			d.line.s.First(&a)
		case second:
			d.line.s.First(&b)
		default:
			d.line.s.Skip()
		}
	}
	return a, b
}

// result sets the facts of the end of a tool call. failed reports whether the
// call failed; a command has failed if its exit status is not 0.
func (d *dialect) result(kind string, failed bool, out *normalizer.Out) {
	switch kind {
	case "command_execution":
		out.Facts.Command = readOutput(d.line.item.stdout, failed)
	case "file_change":
		if d.line.item.status.Equal("completed") {
			d.edits(out)
		}
	}
}

// edits sets the facts of file changes.
func (d *dialect) edits(out *normalizer.Out) {
	for list := elements(d.line.item.details); d.next(&list); {
		if len(out.Facts.Edits) >= runs.MaxEdits {
			out.Facts.MoreEdits++
			continue
		}
		path, kind := d.pair(list.element, "path", "kind")
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

// array iterates over the elements of an array that was scanned before.
type array struct {
	rest    []byte // undecoded rest of the array
	element []byte
}

// elements returns an iterator over v. It has no elements if v is not an array.
func elements(v scan.Value) array {
	if v.Kind != scan.Array {
		return array{}
	}
	return array{rest: v.Raw[1:]}
}

// next moves to the next element that is an object. It uses the scanner of the
// line, like pair.
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

// readOutput parses the output of a command. It returns nil if there are no
// findings.
func readOutput(v scan.Value, failed bool) *runs.Findings {
	if !v.IsString() {
		if failed {
			return &runs.Findings{Failed: true}
		}
		return nil
	}
	first, last := v.Raw, []byte(nil)
	if len(v.Raw) > maxHead+maxTail {
		first, last = v.Raw[:cut(v.Raw, maxHead)], tail(v.Raw, maxTail)
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
	kept := f // a copy, so that f stays on the stack if there are no findings
	return &kept
}

// head appends the decoded beginning of a string, at most n undecoded bytes.
func head(dst []byte, v scan.Value, n int) []byte {
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

// turnError sets the error message of a failed turn.
func turnError(v scan.Value, out *normalizer.Out) {
	out.Facts.Error, out.Facts.ErrorSource = string(head(nil, v, maxError)), runs.ErrorTurn
}

// LastMessage returns the text of the last agent message in an agent's output.
// The first line of the output may be the end of a line.
func LastMessage(output []byte) (text string, ok bool) {
	for len(output) > 0 {
		line := output
		if i := bytes.LastIndexByte(output, '\n'); i >= 0 {
			line, output = output[i+1:], output[:i]
		} else {
			output = nil
		}
		if !bytes.Contains(line, []byte(`"agent_message"`)) {
			continue
		}
		var l struct {
			Type string `json:"type"`
			Item struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"item"`
		}
		if json.Unmarshal(line, &l) == nil && l.Type == "item.completed" && l.Item.Type == "agent_message" {
			return l.Item.Text, true
		}
	}
	return "", false
}
