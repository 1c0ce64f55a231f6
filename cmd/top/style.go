package top

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/cmd/console"
)

// style paints. Without colours it only uses bold, dim and reverse.
type style struct{ color bool }

// Sequences. Reverse is for the selected row and for matches of a search.
const (
	reset   = "\x1b[0m"
	bold    = "\x1b[1m"
	reverse = "\x1b[7m"
	cyan    = "\x1b[36m"
)

// in paints a text, which has no sequences.
func (s style) in(sequence, text string) string {
	if sequence == "" || text == "" || !s.color && sequence != bold && sequence != reverse && sequence != console.Dim {
		return text
	}
	return sequence + text + reset
}

// colors are those of the groups.
var colors = map[group]string{
	needsYou: console.Yellow, mayNeed: console.Yellow, yourTurn: bold, working: cyan,
	unseen: bold, failed: console.Red, lost: console.Red,
}

// width is the number of columns of a text.
func width(text string) int { return ansi.StringWidthWc(text) }

// fill makes a safe text exactly so many columns wide.
func fill(text string, room int) string {
	text = console.Cut(text, room)
	return text + strings.Repeat(" ", max(room-width(text), 0))
}

// sides writes two texts at both ends of a line. The left one may have sequences; it is cut if they do not fit.
func sides(left, right string, room int) string {
	space := room - width(right)
	if space < 10 {
		return ansi.TruncateWc(left, room, "…")
	}
	left = ansi.TruncateWc(left, space-1, "…")
	return left + strings.Repeat(" ", max(space-width(left), 0)) + right
}
