package acp

import (
	"github.com/linesman/linesman/normalizer/scan"
	"github.com/linesman/linesman/normalizer/wire"
)

// Asked is all that a request asks, in the agent's own words, for the one who answers it.
type Asked struct {
	Kind    string // [Permission] or [Form]
	Title   string // of the tool call, or the message of a form
	Tool    string // kind of the tool; "": not told
	Command string // that the tool is to run
	Input   string // of the tool as JSON, if it is not the command alone
	Text    string // what else is said of the call
	Files   []AskedFile
	Options []NamedOption
	Fields  []byte // of a form: a JSON Schema, an object; in full
	Cut     bool   // something is shortened or left out, or Fields have more than MaxAsked
}

// AskedFile is a file of a tool call. Without Change the request has only its path.
type AskedFile struct {
	Path     string
	Change   bool
	Old, New string // texts that are too long are "", and Cut is set
}

// NamedOption is an option with its name.
type NamedOption struct {
	Option
	Name string
}

// Limits of Asked, in bytes.
const (
	MaxAsked  = 16 << 10  // of a text
	maxChange = 256 << 10 // of a text of a file
	maxFiles  = 64
)

// AskedIn returns what the request in a line asks; false if there is none.
func AskedIn(line []byte) (a Asked, ok bool) {
	m, fault := Read(line)
	q := m.QuestionOf()
	if fault != scan.OK || q.Kind == "" {
		return a, false
	}
	a.Kind, a.Tool = q.Kind, q.Tool
	if q.Kind == Form {
		a.Title = a.text(wire.At(m.Params, "message"))
		a.Fields = wire.At(m.Params, "requestedSchema").Raw
		a.Cut = a.Cut || len(a.Fields) > MaxAsked
		return a, true
	}
	call := wire.Object(q.ToolCall)
	a.Title = a.text(call["title"])
	a.input(call["rawInput"])
	a.contents(call)
	names := map[string]string{}
	wire.Each(wire.At(m.Params, "options"), func(v scan.Value) {
		names[short(wire.At(v, "optionId"))] = a.text(wire.At(v, "name"))
	})
	for _, o := range q.Options {
		a.Options = append(a.Options, NamedOption{o, names[o.ID]})
	}
	return a, true
}

// text returns a text, or its beginning.
func (a *Asked) text(v scan.Value) string {
	if v.Len > MaxAsked {
		a.Cut = true
	}
	return wire.Text(v, MaxAsked)
}

// input adds the input of a tool.
func (a *Asked) input(input scan.Value) {
	command, others := wire.At(input, "command"), 0
	if input.Kind > scan.Null && input.Kind != scan.Object {
		others = 1 // a text or a list, which is shown as it is
	}
	for range wire.Object(input) {
		others++
	}
	if command.IsString() {
		a.Command = a.text(command)
		others--
	}
	shown := string(input.Raw)
	if input.IsString() {
		shown = `"` + shown + `"`
	}
	switch {
	case others <= 0:
	case len(shown) <= MaxAsked:
		a.Input = shown
	default:
		a.Cut = true
	}
}

// contents adds what the content of a call tells: texts, and changes of files.
func (a *Asked) contents(call map[string]scan.Value) {
	known := map[string]bool{}
	wire.Each(call["content"], func(v scan.Value) {
		text := wire.At(v, "content", "text")
		switch {
		case wire.At(v, "type").Equal("diff"):
			path, old, replacement := wire.At(v, "path"), wire.At(v, "oldText"), wire.At(v, "newText")
			f := AskedFile{Path: a.text(path), Change: true}
			if old.Len <= maxChange && replacement.Len <= maxChange {
				f.Old, f.New = old.Text(), replacement.Text()
			} else {
				a.Cut = true
			}
			known[f.Path] = true
			a.file(f)
		case text.IsString() && len(a.Text)+text.Len < MaxAsked:
			if a.Text != "" {
				a.Text += "\n"
			}
			a.Text += text.Text()
		default:
			a.Cut = true
		}
	})
	wire.Each(call["locations"], func(v scan.Value) {
		if path := a.text(wire.At(v, "path")); !known[path] {
			known[path] = true
			a.file(AskedFile{Path: path})
		}
	})
}

func (a *Asked) file(f AskedFile) {
	if len(a.Files) == maxFiles {
		a.Cut = true
		return
	}
	a.Files = append(a.Files, f)
}
