package console

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/linesman/linesman/api"
)

// NewRows returns a timeline for a program that draws its rows itself: [Timeline.Rows] returns
// them, at most so many columns wide, and nothing is printed. Color is whether they have
// sequences for colours.
func NewRows(width int, color bool, o TimelineOptions) *Timeline {
	r := &Renderer{out: io.Discard, screen: &Screen{}, terminal: true, color: color}
	t := &Timeline{r: r, options: o}
	t.SetWidth(width)
	return t
}

// SetRun sets the state of the run, as far as rows show it. It prints nothing.
func (t *Timeline) SetRun(run *api.Run) { t.run = run }

// SetWidth sets the width of the rows that follow, in columns.
func (t *Timeline) SetWidth(width int) {
	t.r.width = func() int { return width + 1 } // the last column of a terminal stays empty
}

// Rows returns the rows of an item. The last row of a text that may continue is not among
// them: see [Timeline.Unfinished].
func (t *Timeline) Rows(item api.DetailItem) []string {
	if t.first == 0 {
		t.first = item.At
	}
	var b strings.Builder
	t.writeItem(&b, item)
	return rowsOf(&b)
}

// Unfinished returns the last rows of a text that may continue.
func (t *Timeline) Unfinished() []string {
	text, last := t.prose, t.calls.last
	var b strings.Builder
	t.pause(&b)
	t.prose, t.calls.last = text, last
	return rowsOf(&b)
}

func rowsOf(b *strings.Builder) []string {
	if b.Len() == 0 {
		return nil
	}
	rows := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	for i, row := range rows {
		rows[i] = Grid(row)
	}
	return rows
}

// TerminalOf returns the terminal that w is, or is a pane of; nil if it is none.
func TerminalOf(w any) *os.File {
	f, _ := w.(*os.File)
	if p, ok := w.(*pane); ok {
		f = p.file
	}
	if f == nil || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return f
}
