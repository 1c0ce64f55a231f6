package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/linesman/linesman/runs"
)

// writeRecord writes one record as it looks on a terminal. Text of an agent stands
// behind a bar on every row, so that it cannot pass for a line of linesman.
func (r *Renderer) writeRecord(b *strings.Builder, v view) {
	if v.Run != r.lastRun {
		r.lastRun = v.Run
		r.row(b, bold, "── ", Word(v.Agent)+" "+Word(v.Run))
	}
	switch v.kind {
	case "text_output":
		if v.channel == "reasoning" {
			r.text(b, Dim, "┊ ", v.text)
		} else {
			r.text(b, "", "│ ", v.text)
		}
	case "tool_call", "tool_result":
		r.tool(b, v)
	case "status":
		r.row(b, Dim, "· ", statusText(v))
	case "error":
		r.text(b, Yellow, "! ", v.message)
	case "completion":
		color := Green
		if v.done.failed() {
			color = Red
		}
		r.row(b, color, "■ ", Safe(v.done.outcome()))
	default:
		r.row(b, Dim, "? ", "an event of a kind that is not known")
	}
}

func (r *Renderer) tool(b *strings.Builder, v view) {
	color, mark, text := cyan, "▸ ", "a tool"
	if v.tool != nil {
		text = toolText(v)
	}
	switch {
	case v.kind == "tool_call":
		if v.tool != nil && v.tool.Phase == "delta" { // progress is for the status line
			return
		}
	case v.tool != nil && v.tool.failed():
		color, mark = Red, "✗ "
	default:
		color, mark = Green, "✓ "
	}
	r.row(b, color, mark, text)
}

func toolText(v view) string {
	t := v.tool
	words := []string{Word(t.Kind)}
	if t.Name != "" {
		words = append(words, Word(t.Name))
	}
	text := strings.Join(append(words, Word(t.id())), " ")
	var facts []string
	if t.ExitCode != nil {
		facts = append(facts, fmt.Sprintf("exit %d", *t.ExitCode))
	} else if v.kind == "tool_result" && t.Status != "completed" {
		facts = append(facts, Word(t.Status))
	}
	for _, c := range t.counts() {
		facts = append(facts, ShortBytes(c.bytes)+" "+c.of)
	}
	if v.took > 0 {
		facts = append(facts, ShortTime(v.took))
	}
	if len(facts) > 0 {
		text += "  " + strings.Join(facts, ", ")
	}
	return text
}

func statusText(v view) string {
	var facts []string
	if v.message != "" {
		facts = append(facts, Safe(v.message))
	}
	if v.session != "" {
		facts = append(facts, Word(v.session))
	}
	if v.usage != (runs.Usage{}) {
		facts = append(facts,
			fmt.Sprintf("%d tokens in (%d cached), %d out", v.usage.Input, v.usage.CachedInput, v.usage.Output))
	}
	return strings.Join(facts, "  ")
}

// text writes the lines of a text, each row of them behind its mark.
func (r *Renderer) text(b *strings.Builder, color, mark, text string) {
	text = strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	text = strings.ReplaceAll(text, "\t", "    ")
	for line := range strings.SplitSeq(text, "\n") {
		r.row(b, color, mark, Safe(line))
	}
}

// row writes one safe line behind its mark, on as many rows as it needs.
func (r *Renderer) row(b *strings.Builder, color, mark, line string) {
	for _, part := range fold(line, max(r.width()-4, 8)) {
		b.WriteString(r.Paint(color, mark+part))
		b.WriteByte('\n')
	}
}

// plain is one event as one line, stable and made for grep and cut:
//
//	TIME RUN AGENT LINE.PART KIND …
//
// with single blanks between the fields. Free text comes last, and escapes
// keep it on the line; a backslash of its own is doubled.
func plain(v view) string {
	head := []string{
		v.Time.UTC().Format(timeFormat), Word(v.Run), Word(v.Agent),
		fmt.Sprintf("%d.%d", v.Line, v.Part), v.kind,
	}
	return strings.Join(append(head, plainBody(v)...), " ") + "\n"
}

func plainBody(v view) []string {
	switch v.kind {
	case "text_output":
		return []string{Word(v.channel), plainText(v.text)}
	case "tool_call", "tool_result":
		return plainTool(v)
	case "completion":
		return []string{plainText(v.done.outcome())}
	}
	var body []string
	if v.message != "" {
		body = append(body, plainText(v.message))
	}
	if v.session != "" {
		body = append(body, "session="+Word(v.session))
	}
	if v.usage != (runs.Usage{}) {
		body = append(body, fmt.Sprintf("input=%d cached=%d output=%d", v.usage.Input, v.usage.CachedInput, v.usage.Output))
	}
	return body
}

func plainTool(v view) []string {
	t := v.tool
	if t == nil {
		return []string{"-"} // the facet was too large and was dropped
	}
	body := []string{Word(t.Kind), Word(t.id()), Word(t.Phase), Word(t.Status)}
	if t.Name != "" {
		body = append(body, "name="+Word(t.Name))
	}
	if t.ExitCode != nil {
		body = append(body, "exit="+strconv.Itoa(*t.ExitCode))
	}
	for _, count := range t.counts() {
		body = append(body, fmt.Sprintf("%s=%d", count.of, count.bytes))
	}
	if v.took > 0 {
		body = append(body, fmt.Sprintf("took=%.3fs", v.took.Seconds()))
	}
	return body
}

func plainText(s string) string {
	return Safe(strings.ReplaceAll(s, `\`, `\\`))
}

type byteCount struct {
	of    string
	bytes int64
}

// counts are the byte counts of the tool that are not zero.
func (t *tool) counts() []byteCount {
	var some []byteCount
	for _, c := range []byteCount{
		{"stdout", t.Bytes.Stdout}, {"stderr", t.Bytes.Stderr}, {"diff", t.Bytes.Diff}, {"result", t.Bytes.Result},
	} {
		if c.bytes > 0 {
			some = append(some, c)
		}
	}
	return some
}

// ShortTime is a duration for people: 40ms, 1.2s, 1m02s, 3h05m, 8d22h.
func ShortTime(d time.Duration) string {
	switch d = max(d, 0); {
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Truncate(100*time.Millisecond).Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}

// ShortBytes is a number of bytes for people: 6 B, 1.5 KiB, 2.0 MiB.
func ShortBytes(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
}
