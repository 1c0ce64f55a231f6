package top

import (
	"cmp"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/cmd/console"
)

// column is a column of the list. The first ones of [columns] are there on every terminal;
// each further one if it fits, with room for its widest text.
type column struct {
	title    string
	rank     int // the smaller, the narrower a terminal that has it
	min, max int // columns of the terminal
	text     func(c console.Cells) string
	end      bool // of a longer text the end is shown
}

// columns in the order of the screen.
var columns = []column{
	{"STATE", 0, 9, 9, func(c console.Cells) string { return c.State }, false},
	{"TIME", 3, 7, 7, func(c console.Cells) string { return c.Time }, false},
	{"AGENT", 4, 8, 8, func(c console.Cells) string { return agentName(c.Agent) }, false},
	{"TITLE", 1, 22, 72, func(c console.Cells) string { return cmp.Or(c.Title, c.ID) }, false},
	{"ACTIVITY", 2, 22, 64, doing, false},
	{"PLAN", 6, 5, 5, func(c console.Cells) string { return c.Plan }, false},
	{"TOKENS", 5, 9, 11, func(c console.Cells) string { return c.Tokens }, false},
	{"DIRECTORY", 7, 14, 32, func(c console.Cells) string { return c.Dir }, true},
	{"RUN", 8, 23, 23, func(c console.Cells) string { return c.ID }, false},
	{"LABELS", 9, 14, 40, func(c console.Cells) string { return c.Labels }, false},
	{"MODEL", 10, 14, 20, func(c console.Cells) string { return c.Model }, false},
}

func agentName(kind string) string {
	return strings.TrimSuffix(strings.TrimSuffix(kind, "_code"), "_cli")
}

// doing is what a run does, or how long ago it ended and why.
func doing(c console.Cells) string {
	switch {
	case c.Ended == "":
		return strings.Replace(c.Doing, " for ", " ", 1)
	case c.Doing == "":
		return c.Ended
	}
	return c.Ended + ", " + c.Doing
}

// cell is a column on the screen.
type cell struct {
	column
	width int
}

const columnGap = 2

// draw is the text of the column, filled to its width.
func (c cell) draw(of console.Cells) string {
	text := c.text(of)
	if c.end && width(text) > c.width {
		text = ansi.TruncateLeftWc(text, width(text)-c.width+1, "…")
	}
	return fill(text, c.width)
}

// layout selects the columns for a number of columns of the terminal, and gives the free room to
// those that can use it, the most important first.
func layout(room int) []cell {
	byRank := slices.Clone(columns)
	slices.SortFunc(byRank, func(a, b column) int { return a.rank - b.rank })
	n, free := 0, room+columnGap
	for _, c := range byRank {
		if n > 0 && free < c.min+columnGap {
			break
		}
		free -= c.min + columnGap
		n++
	}
	extra := map[int]int{} // by rank
	for range 9 {          // in shares, so that none gets all of it
		for _, c := range byRank[:n] {
			more := min(c.max-c.min-extra[c.rank], free/3+1, max(free, 0))
			extra[c.rank] += more
			free -= more
		}
	}
	var cells []cell
	for _, c := range columns {
		if c.rank < n {
			cells = append(cells, cell{c, c.min + extra[c.rank]})
		}
	}
	return cells
}
