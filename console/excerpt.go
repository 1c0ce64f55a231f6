package console

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/linesman/linesman/runs"
)

// behindBar is the mark of rows with texts that belong to the row above them.
const behindBar = "  │ "

// excerpt writes the last lines of a text, at most a number of them; 0: all. With the option
// Full it writes all lines.
func (t *Timeline) excerpt(b *strings.Builder, color string, e *runs.Excerpted, most int) {
	lines := linesOf(e)
	if most > 0 && len(lines) > most && !t.options.Full {
		more := fmt.Sprintf("… %d more lines", len(lines)-most)
		if e.Omitted > 0 {
			more = "… more lines"
		}
		t.one(b, color, behindBar, more, "")
		lines = lines[len(lines)-most:]
	}
	for _, line := range lines {
		if t.options.Full {
			t.row(b, color, behindBar, line)
		} else {
			t.one(b, color, behindBar, line, "")
		}
	}
}

// colours are sequences that set colours. Output of commands often contains them.
var colours = regexp.MustCompile(`\x1b\[[0-9;:]*m`)

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
	text = colours.ReplaceAllLiteralString(strings.Trim(text, "\r\n"), "")
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
