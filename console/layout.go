package console

import (
	"fmt"
	"strings"
)

// lay writes one record as it looks on a terminal. Text of an agent stands
// behind a bar on every row, so that it cannot pass for a line of linesman.
func (r *Renderer) lay(b *strings.Builder, v view) {
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
	if v.usage != (usage{}) {
		facts = append(facts, fmt.Sprintf("%d tokens in (%d cached), %d out", v.usage.Input, v.usage.Cached, v.usage.Output))
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
