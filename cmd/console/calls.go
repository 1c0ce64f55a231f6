package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
)

// calls are the tool calls of a run that have no result yet, at most maxOpen of them.
type calls struct {
	open   map[string]openCall // by id
	prompt string              // first line of the newest prompt of a sub-agent
	last   string              // id of the call on the last printed row; "": another row is the last
}

type openCall struct {
	label string // safe
	at    time.Time
	files []runs.FileDetail
	plan  bool // it changes the plan
}

// Limits of [calls]: beyond them open calls are forgotten, and labels cut.
const (
	maxOpen  = 256
	maxLabel = 1000 // cells
)

// call writes a tool call. Changed files are written with the result, and so is a call of
// which nothing but the name is known.
func (t *Timeline) call(b *strings.Builder, v view, d *runs.Detail) {
	if v.tool == nil || v.tool.Phase == "delta" {
		return
	}
	c, id := openCall{label(v, d), v.Time, d.Files, len(d.Plan) > 0}, v.tool.id()
	if _, again := t.calls.open[id]; again {
		return
	}
	if t.calls.open == nil || len(t.calls.open) >= maxOpen {
		t.calls.open = map[string]openCall{}
	}
	if id != "" { // else it cannot be paired with its result
		t.calls.open[id] = c
	}
	if d.Prompt != nil {
		t.calls.prompt = cut(linesOf(d.Prompt)[0], maxLabel)
	}
	bare := d.Command == nil && d.Prompt == nil && d.Arguments == nil
	if len(c.files) > 0 || c.plan || bare && !t.options.Full {
		return
	}
	if d.Command != nil {
		t.command(b, c.label, d.Command)
	} else {
		t.one(b, cyan, "▸ ", c.label, "")
	}
	if t.options.Full {
		t.excerpt(b, Dim, d.Prompt, extent{})
		if d.Command == nil && d.Prompt == nil {
			t.excerpt(b, Dim, d.Arguments, extent{})
		}
	}
	t.calls.last = id
}

// command writes a command on one row, or all of its lines.
func (t *Timeline) command(b *strings.Builder, label string, command *runs.Excerpted) {
	if !t.options.Full {
		t.one(b, cyan, "", label, "")
		return
	}
	mark := "$ "
	for _, line := range linesOf(command) {
		t.row(b, cyan, mark, line)
		mark = behindBar
	}
}

// result writes the result of a tool call. It names the call unless that is on the row above.
func (t *Timeline) result(b *strings.Builder, v view, d *runs.Detail) {
	if v.tool == nil {
		return
	}
	id := v.tool.id()
	c, known := t.calls.open[id]
	delete(t.calls.open, id)
	more := d.Command != nil || d.Prompt != nil || d.Arguments != nil
	if l := label(v, d); !known || more && l != c.label { // else the call tells more
		c.label, t.calls.last = l, ""
	}
	if known {
		v.took = v.Time.Sub(c.at)
	}
	mark, color := "✓ ", Green
	failed := v.tool.failed() || d.ExitCode != nil && *d.ExitCode != 0
	if failed {
		mark, color = "✗ ", Red
	}
	files := d.Files
	if len(files) == 0 {
		files = c.files
	}
	switch {
	case len(files) > 0:
		t.files(b, files, d.MoreFiles, failed, outcome(v, d))
	case (c.plan || len(d.Plan) > 0) && !failed:
		return
	case known && t.calls.last == id:
		t.one(b, color, "  "+mark, outcome(v, d), "")
	default:
		t.one(b, color, mark, c.label, outcome(v, d))
	}
	t.outputs(b, d, failed)
}

// outputs writes the output of a command, and the result of another tool if it failed.
func (t *Timeline) outputs(b *strings.Builder, d *runs.Detail, failed bool) {
	most := ofSuccess
	if failed {
		most = ofFailure
	}
	t.excerpt(b, Dim, d.Output, most)
	t.excerpt(b, Dim, d.Stderr, most)
	if d.Output == nil && (failed || t.options.Full) {
		t.excerpt(b, Dim, textOf(d.Result), most)
	}
}

// textOf returns the texts in the result of an MCP tool, and any other result as it is.
func textOf(result *runs.Excerpted) *runs.Excerpted {
	if result == nil || result.Omitted > 0 || !gjson.Valid(result.Head) {
		return result
	}
	var texts []string
	for _, text := range gjson.Get(result.Head, "content.#.text").Array() {
		texts = append(texts, text.String())
	}
	if texts == nil {
		return result
	}
	return runs.Whole(strings.Join(texts, "\n"))
}

// label describes a tool call in one line.
func label(v view, d *runs.Detail) string {
	name := cmp.Or(v.tool.Name, d.Tool)
	if d.Server != "" && !strings.Contains(name, d.Server) {
		name = d.Server + "." + name
	}
	name = Word(cmp.Or(name, v.tool.Kind))
	switch {
	case d.Command != nil:
		lines := linesOf(d.Command)
		if len(lines) > 1 {
			return fmt.Sprintf("$ %s … (%d more lines)", cut(lines[0], maxLabel), len(lines)-1)
		}
		return "$ " + cut(lines[0], maxLabel)
	case d.Prompt != nil:
		return name + ": " + cut(linesOf(d.Prompt)[0], maxLabel)
	case d.Arguments != nil:
		return strings.TrimSpace(name + " " + arguments(d.Arguments.Head))
	}
	return name
}

// outcome describes the result of a tool call: exit code, duration, size.
func outcome(v view, d *runs.Detail) string {
	var facts []string
	code := cmp.Or(v.tool.ExitCode, d.ExitCode)
	switch {
	case code != nil && *code != 0:
		facts = append(facts, fmt.Sprintf("exit %d", *code))
	case v.tool.failed():
		facts = append(facts, "failed")
	}
	if v.took > 0 {
		facts = append(facts, ShortTime(v.took))
	}
	if n := v.tool.Bytes.Result; n > 0 && d.Command == nil && d.Output == nil && len(d.Files) == 0 {
		facts = append(facts, ShortBytes(n))
	}
	return strings.Join(facts, ", ")
}

// Limits of the arguments in a [label], in characters.
const (
	maxArgument  = 60
	maxArguments = 200
)

// arguments is a short form of the arguments of a tool: the values of a JSON object behind
// their names, a single value without.
func arguments(text string) string {
	parsed := gjson.Parse(text)
	if !gjson.Valid(text) || !parsed.IsObject() {
		return cut(flat(text), maxArguments)
	}
	var names, values []string
	parsed.ForEach(func(name, value gjson.Result) bool {
		names, values = append(names, cut(flat(name.String()), maxArgument)), append(values, flat(value.String()))
		return len(names) < 16
	})
	if len(values) == 1 {
		return cut(values[0], maxArguments)
	}
	for i, value := range values {
		values[i] = names[i] + "=" + cut(value, maxArgument)
	}
	return cut(strings.Join(values, " "), maxArguments)
}
