package console

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// column is a column of a [Table]. Its widths are in columns of the terminal.
type column struct {
	Title    string
	Rank     int // the smaller, the narrower a terminal that has it; each rank is there once
	Min, Max int
	Text     func(Cells) string
	KeepEnd  bool // a text that is too long loses its beginning, not its end
}

// Table draws runs as rows. Its columns are in the order of the screen.
type Table []column

const columnGap = 2

// Layout selects the columns that fit into a width, at their minimum and by rank; the first one is
// always there. The free room is for those that can use it. Min is then the width of a column.
func (t Table) Layout(width int) Table {
	laid, byRank := slices.Clone(t), make([]int, len(t))
	for i := range t {
		byRank[i] = i
	}
	slices.SortFunc(byRank, func(a, b int) int { return t[a].Rank - t[b].Rank })
	free, last := width+columnGap, -1
	for n, i := range byRank {
		if n > 0 && free < t[i].Min+columnGap {
			byRank = byRank[:n]
			break
		}
		free -= t[i].Min + columnGap
		last = t[i].Rank
	}
	for range 9 { // in shares, so that none gets all of it
		for _, i := range byRank {
			more := min(t[i].Max-laid[i].Min, free/3+1, max(free, 0))
			laid[i].Min += more
			free -= more
		}
	}
	return slices.DeleteFunc(laid, func(c column) bool { return c.Rank > last })
}

// fitted returns the table without empty columns, and with none wider than its texts.
func (t Table) fitted(rows []Cells) Table {
	fits := slices.Clone(t)
	for i := range fits {
		c, widest := &fits[i], 0
		for _, row := range rows {
			widest = max(widest, cells(Grid(c.Text(row))))
		}
		if c.Max = min(c.Max, widest); c.Max > 0 {
			c.Max = max(c.Max, len(c.Title))
		}
		c.Min = min(c.Min, c.Max)
	}
	return slices.DeleteFunc(fits, func(c column) bool { return c.Max == 0 })
}

// Heading returns the titles of the columns of a [Table.Layout].
func (t Table) Heading() string {
	first, rest := t.draw(func(c column) string { return c.Title })
	return first + rest
}

// Row draws a run in the columns of a [Table.Layout]: the first one, filled up, and the others. The
// row is not wider than the table, however a terminal draws its texts.
func (t Table) Row(c Cells) (first, rest string) {
	return t.draw(func(one column) string { return one.Text(c) })
}

func (t Table) draw(text func(column) string) (first, rest string) {
	width := -columnGap
	for i, c := range t {
		s := Grid(text(c))
		if c.KeepEnd {
			s = cutStart(s, c.Min)
		}
		s = cut(s, c.Min)
		s += strings.Repeat(" ", max(c.Min-ansi.StringWidthWc(s), 0)+columnGap)
		if width += c.Min + columnGap; i == 0 {
			first = s
		} else {
			rest += s
		}
	}
	return first, cut(strings.TrimRight(rest, " "), width-cells(first))
}
