package console

import (
	"fmt"
	"strings"

	"github.com/linesman/linesman/internal/lazy"
	"github.com/linesman/linesman/runs"
)

// behindBar is the mark of rows with texts that belong to the row above them.
const behindBar = "  │ "

// extent is how much of a text is printed unless all is requested: its last lines, and of each
// line some rows.
type extent struct{ lines, rows int }

// Extents of output and stderr. The lines of a success are cut, those of a failure are not,
// unless they are very long.
var (
	ofSuccess = extent{3, 1}
	ofFailure = extent{10, 4}
)

// excerpt writes a text to an extent; with the option Full it writes all of it.
func (t *Timeline) excerpt(b *strings.Builder, color string, e *runs.Excerpted, most extent) {
	lines := linesOf(e)
	if more := len(lines) - most.lines; more > 1 && !t.options.Full {
		text := fmt.Sprintf("… %d more lines", more)
		if e.Omitted > 0 {
			text = "… more lines"
		}
		t.one(b, color, behindBar, text, "")
		lines = lines[more:]
	}
	for _, line := range lines {
		if !t.options.Full && t.r.terminal {
			line = cut(line, most.rows*t.room(behindBar))
		}
		t.row(b, color, behindBar, line)
	}
}

// colours are sequences that set colours. Output of commands often contains them.
var colours = lazy.Regexp(`\x1b\[[0-9;:]*m`)

// linesOf returns the lines of a text as safe lines without colours, and a line for a part
// that is left out. Blank lines at the beginning and at the end are dropped. Of a line that was
// overwritten from its beginning on, as progress bars do, the newest part remains.
func linesOf(e *runs.Excerpted) []string {
	if e == nil {
		return nil
	}
	text := e.Head
	if e.Omitted > 0 {
		text = strings.TrimSuffix(text, "\n") + "\n… " + ShortBytes(int64(e.Omitted)) + " left out\n"
	}
	text = strings.ReplaceAll(text+e.Tail, "\r\n", "\n")
	text = colours().ReplaceAllLiteralString(strings.Trim(text, "\r\n"), "")
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		line = strings.TrimRight(line, "\r \t")
		line = line[strings.LastIndexByte(line, '\r')+1:]
		lines[i] = safeLine(line)
	}
	return lines
}

// safeLine is [Safe] for a line with tabs.
func safeLine(line string) string { return Safe(strings.ReplaceAll(line, "\t", "    ")) }

// flat is a text on one safe line.
func flat(text string) string {
	const enough = 4096 // bytes; what is cut afterwards is shorter
	if len(text) > enough {
		text = text[:enough]
	}
	return Safe(strings.Join(strings.Fields(text), " "))
}
