package console

import "strings"

// prose is the state of the texts of a run.
type prose struct {
	rest    string // of a row that may continue
	channel string // of the text
	color   string // of the rest
	middle  bool   // the rest is in the middle of a line
	code    bool   // in a block of code
	idle    bool   // nothing was added since the last Tick
}

// maxRest bounds the rest of a line that is not wrapped, in bytes.
const maxRest = 64 << 10

// text writes a text of the agent.
func (t *Timeline) text(b *strings.Builder, v view) {
	if v.channel != t.prose.channel || !v.pieces {
		t.endProse(b)
	}
	p := &t.prose
	p.channel, p.idle = v.channel, false
	text := p.rest + strings.ReplaceAll(strings.ReplaceAll(v.text, "\r\n", "\n"), "\t", "    ")
	lines := strings.Split(text, "\n")
	last := len(lines) - 1
	for _, line := range lines[:last] {
		if line != "" || !p.middle {
			t.paragraph(b, line)
		}
		p.middle = false
	}
	p.rest = lines[last]
	if !v.pieces || len(p.rest) > maxRest {
		t.endProse(b)
		return
	}
	if rows := wrap(Safe(p.rest), t.room("│ ")); t.r.terminal && len(rows) > 1 { // all but the last one are whole
		t.paragraph(b, strings.Join(rows[:len(rows)-1], " "))
		p.rest, p.middle = rows[len(rows)-1], true
	}
}

// pause writes the rest of a text that may continue.
func (t *Timeline) pause(b *strings.Builder) {
	if t.prose.rest != "" {
		t.paragraph(b, t.prose.rest)
		t.prose.rest, t.prose.middle = "", true
	}
}

// endProse writes the rest of a text.
func (t *Timeline) endProse(b *strings.Builder) {
	t.pause(b)
	t.prose = prose{}
}

// paragraph writes a line of a text. Headings are bold; lines of code are not cut at blanks.
func (t *Timeline) paragraph(b *strings.Builder, line string) {
	p, mark := &t.prose, "│ "
	if !p.middle {
		p.color = ""
		fence := strings.HasPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case p.channel == "reasoning":
		case fence:
			p.code, p.color = !p.code, Dim
		case !p.code && strings.HasPrefix(line, "#") && strings.Contains(line[:min(len(line), 8)], "# "):
			p.color = bold
		}
	}
	if p.channel == "reasoning" {
		mark, p.color = "┊ ", Dim
	}
	line = strings.TrimRight(Safe(line), " ")
	if !p.code || !t.r.terminal {
		t.row(b, p.color, mark, line)
		return
	}
	for _, part := range fold(line, t.room(mark)) {
		t.row(b, p.color, mark, part)
	}
}
