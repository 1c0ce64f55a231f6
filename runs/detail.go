package runs

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Detail is what an event omits and the owner of the run may see: the content of a tool
// call, a plan, a prompt, redacted and bounded. It is read from RAW on demand and never stored. [Detail.Limit]
// redacts and bounds it.
type Detail struct {
	Prompt    *Excerpted   `json:"prompt,omitempty"`    // of the user or, in a tool call, of a sub-agent
	Live      *Terms       `json:"live,omitempty"`      // of a live run, with its first prompt: what was asked for it
	Command   *Excerpted   `json:"command,omitempty"`   // without the shell that runs it
	Tool      string       `json:"tool,omitempty"`      // name of the tool, if it is not in the event
	Server    string       `json:"server,omitempty"`    // MCP server of the tool
	Arguments *Excerpted   `json:"arguments,omitempty"` // JSON or text
	Output    *Excerpted   `json:"output,omitempty"`    // of a command
	Result    *Excerpted   `json:"result,omitempty"`    // of another tool: JSON or text
	Stderr    *Excerpted   `json:"stderr,omitempty"`    // end of the agent's stderr, or stderr of a command
	ExitCode  *int         `json:"exitCode,omitempty"`  // of a command, if it is not in the event
	Files     []FileDetail `json:"files,omitempty"`     // changed files, at most 50
	MoreFiles int          `json:"moreFiles,omitempty"` // changed files beyond those
	Plan      []PlanStep   `json:"plan,omitempty"`      // the whole to-do list, at most 50 steps
	MoreSteps int          `json:"moreSteps,omitempty"` // steps beyond those
	Text      *Excerpted   `json:"text,omitempty"`      // what the line shows beside an event, such as a summary
	Changed   *Changed     `json:"changed,omitempty"`   // at the end of the run, see [Record.Changed]
}

// FileDetail is one changed file.
type FileDetail struct {
	Path    string     `json:"path"`
	Kind    string     `json:"kind"`
	Added   *int       `json:"added,omitempty"`   // lines; absent: the line does not tell
	Removed *int       `json:"removed,omitempty"` // lines
	Diff    *Excerpted `json:"diff,omitempty"`    // absent if the line does not contain it
}

// PlanStep is a step of a to-do list.
type PlanStep struct {
	Text  string `json:"text"`
	State string `json:"state"`
}

// Excerpted is a text, or its beginning and its end.
type Excerpted struct {
	Head    string `json:"head"`
	Tail    string `json:"tail,omitempty"`         // absent: `head` is all but for the omitted bytes at its end
	Omitted int    `json:"omittedBytes,omitempty"` // between `head` and `tail`, or after `head`
}

// Whole returns a text without a limit, for [Detail.Limit]. An empty text is nil.
func Whole(text string) *Excerpted {
	if text == "" {
		return nil
	}
	return &Excerpted{Head: text}
}

// Limits of a detail, in bytes of text but for the numbers of elements.
const (
	maxDetail = 64 << 10 // bytes of JSON of a detail

	maxDetailFiles = 50
	maxDetailSteps = 50
	maxDetailName  = 256
	maxDetailPath  = 512
	maxDetailStep  = 400
	maxDetailDiffs = 24 << 10 // of all files together
)

// ends is how much of a text is kept of its beginning and of its end, in bytes.
type ends struct{ head, tail int }

// The limits of the texts of a detail.
var (
	maxDetailPrompt = ends{16 << 10, 0}
	maxDetailInput  = ends{4 << 10, 0} // a command, arguments, or another text
	maxDetailOutput = ends{2 << 10, 6 << 10}
	maxDetailStderr = ends{0, 4 << 10}
	maxDetailDiff   = ends{8 << 10, 0}
)

// redactMargin is how many bytes are read beyond the part of a text that is kept, so that
// a secret at the cut is recognized. Nothing of them is kept.
const redactMargin = 8 << 10

// DetailWindow is how many bytes of the beginning and of the end of a long text a detail
// must have for [Detail.Limit]; it needs no others.
const DetailWindow = 16<<10 + redactMargin

// AddFile adds a changed file, and only counts those beyond the limit. A file without a path
// is ignored.
func (d *Detail) AddFile(f FileDetail) {
	switch {
	case f.Path == "":
	case len(d.Files) == maxDetailFiles:
		d.MoreFiles++
	default:
		d.Files = append(d.Files, f)
	}
}

// AddStep adds a step of a to-do list with the state that the agent gave it, and only counts
// those beyond the limit.
func (d *Detail) AddStep(text, state string) {
	if len(d.Plan) == maxDetailSteps {
		d.MoreSteps++
		return
	}
	d.Plan = append(d.Plan, PlanStep{text, stepState(state)})
}

// stepState returns the state of a step, by the name that an agent gave it.
func stepState(name string) string {
	switch name {
	case "completed", "done":
		return "done"
	case "in_progress", "active":
		return "active"
	}
	return "pending"
}

// Limit redacts the texts and enforces the limits. Scrub, unless it is nil, replaces
// secrets in addition. The result is at most [maxDetail] bytes of JSON: if it is longer because of
// escapes, each limit is halved until it fits.
func (d *Detail) Limit(scrub func(string) string) {
	redact := Redact
	if scrub != nil {
		redact = func(s string) string { return Redact(scrub(s)) }
	}
	d.redact(redact)
	for shift := 0; ; shift++ {
		d.cut(shift)
		if b, err := json.Marshal(d); err == nil && len(b) <= maxDetail || shift > 24 {
			return
		}
	}
}

// limitedText is a text of a detail and its limits.
type limitedText struct {
	text **Excerpted
	ends
}

// texts returns the texts of d but for the diffs.
func (d *Detail) texts() []limitedText {
	return []limitedText{
		{&d.Prompt, maxDetailPrompt}, {&d.Command, maxDetailInput}, {&d.Arguments, maxDetailInput},
		{&d.Text, maxDetailInput}, {&d.Output, maxDetailOutput}, {&d.Result, maxDetailOutput},
		{&d.Stderr, maxDetailStderr},
	}
}

// redact redacts the texts, and shortens long ones to the part that was redacted.
func (d *Detail) redact(redact func(string) string) {
	name := func(s *string, limit int) { *s = cutName(redact(valid(firstBytes(*s, limit+redactMargin))), limit) }
	for _, t := range d.texts() {
		(*t.text).redact(t.ends, redact)
	}
	if d.Live != nil && len(Encode(d.Live.Policy)) > maxPolicyJSON {
		d.Live = nil // no worker starts such a task
	} else if d.Live != nil {
		for i := range d.Live.Policy {
			name(&d.Live.Policy[i], maxPolicyJSON)
		}
	}
	name(&d.Tool, maxDetailName)
	name(&d.Server, maxDetailName)
	d.MoreFiles += max(len(d.Files)-maxDetailFiles, 0)
	d.Files = d.Files[:min(len(d.Files), maxDetailFiles)]
	for i := range d.Files {
		f := &d.Files[i]
		name(&f.Path, maxDetailPath)
		if f.Kind != "added" && f.Kind != "deleted" {
			f.Kind = "modified"
		}
		f.Diff.redact(maxDetailDiff, redact)
	}
	d.MoreSteps += max(len(d.Plan)-maxDetailSteps, 0)
	d.Plan = d.Plan[:min(len(d.Plan), maxDetailSteps)]
	for i := range d.Plan {
		name(&d.Plan[i].Text, maxDetailStep)
		d.Plan[i].State = stepState(d.Plan[i].State)
	}
}

// cut enforces the limits, each divided by two to the power of shift.
func (d *Detail) cut(shift int) {
	for _, t := range d.texts() {
		(*t.text).cut(ends{t.head >> shift, t.tail >> shift})
		if *t.text != nil && **t.text == (Excerpted{}) {
			*t.text = nil
		}
	}
	d.Tool, d.Server = cutName(d.Tool, maxDetailName>>shift), cutName(d.Server, maxDetailName>>shift)
	left := maxDetailDiffs >> shift
	for i := range d.Files {
		f := &d.Files[i]
		f.Path = cutName(f.Path, maxDetailPath>>shift)
		if f.Diff == nil {
			continue
		}
		f.Diff.cut(ends{min(maxDetailDiff.head>>shift, left), 0})
		left -= len(f.Diff.Head) + len(f.Diff.Tail)
		if f.Diff.Head == "" && f.Diff.Tail == "" {
			f.Diff = nil
		}
	}
	for i := range d.Plan {
		d.Plan[i].Text = cutName(d.Plan[i].Text, maxDetailStep>>shift)
	}
}

// redact redacts the part of the text that is kept, and a margin around it, which is
// removed. A nil text remains nil.
func (e *Excerpted) redact(keep ends, redact func(string) string) {
	if e == nil {
		return
	}
	if n := len(e.Head); e.Omitted == 0 && e.Tail == "" && n > keep.head+keep.tail+4*redactMargin {
		text := e.Head
		e.Head, e.Tail = firstBytes(text, keep.head+redactMargin), lastBytes(text, keep.tail+redactMargin)
		e.Omitted = n - len(e.Head) - len(e.Tail)
	}
	longHead, longTail := e.Omitted > 0 && len(e.Head) > keep.head, e.Omitted > 0 && len(e.Tail) > keep.tail
	before := len(e.Head) + len(e.Tail)
	e.Head, e.Tail = redact(valid(e.Head)), redact(valid(e.Tail))
	if longHead {
		e.Head = firstBytes(e.Head, min(keep.head, max(len(e.Head)-redactMargin, 0)))
	}
	if longTail {
		e.Tail = lastLines(e.Tail, min(keep.tail, max(len(e.Tail)-redactMargin, 0)))
	}
	if longHead || longTail {
		e.Omitted = max(e.Omitted+before-len(e.Head)-len(e.Tail), 1)
	}
}

// cut shortens a redacted text. A nil text remains nil.
func (e *Excerpted) cut(keep ends) {
	if e == nil {
		return
	}
	before := len(e.Head) + len(e.Tail)
	switch {
	case e.Omitted > 0 || e.Tail != "":
		e.Head, e.Tail = firstBytes(e.Head, keep.head), lastLines(e.Tail, keep.tail)
	case before > keep.head+keep.tail:
		e.Head, e.Tail = firstBytes(e.Head, keep.head), lastLines(e.Head, keep.tail)
	}
	e.Omitted += before - len(e.Head) - len(e.Tail)
	e.Head, e.Tail = strings.Clone(e.Head), strings.Clone(e.Tail) // they share the memory of a whole line
}

// valid returns a text without invalid UTF-8.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// firstBytes returns the longest beginning of s of at most n bytes that splits no character.
func firstBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// lastBytes returns the longest end of s of at most n bytes that splits no character.
func lastBytes(s string, n int) string {
	from := max(len(s)-n, 0)
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return s[from:]
}

// lastLines is lastBytes from the beginning of a line, if one begins in the first half.
func lastLines(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = lastBytes(s, n)
	if i := strings.IndexByte(s, '\n'); 0 <= i && i < len(s)/2 {
		return s[i+1:]
	}
	return s
}

// cutName shortens a name to n bytes.
func cutName(s string, n int) string {
	const more = "…"
	if len(s) <= n {
		return strings.Clone(s)
	}
	if n < len(more) {
		return ""
	}
	return firstBytes(s, n-len(more)) + more
}
