package console

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"
)

// Columns are those that fit, by rank, and no text makes a row wider than its table.
func TestTableKeepsItsWidth(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Map(rapid.String(), flat)
		c := Cells{State: "working", ID: "T-local-1", Title: text.Draw(t, "title"), Dir: text.Draw(t, "dir"),
			Labels: text.Draw(t, "labels"), Doing: text.Draw(t, "doing")}
		width := rapid.IntRange(1, 250).Draw(t, "width")
		table := statusTable
		if rapid.Bool().Draw(t, "fitted") {
			table = table.fitted([]Cells{c})
		} else {
			table = Table{table[0], table[7], table[8], table[11], table[9]}
		}
		table = table.Layout(width)
		if table[0].Title != "STATE" {
			t.Fatalf("it begins with %s", table[0].Title)
		}
		room := max(width, table[0].Min)
		if n := ansi.StringWidthWc(strings.TrimRight(table.Heading(), " ")); n > room {
			t.Errorf("the heading has %d columns of %d", n, room)
		}
		first, rest := table.Row(c)
		if n := cells(strings.TrimRight(first+rest, " ")); n > room {
			t.Errorf("%d cells of %d: %q", n, room, first+rest)
		}
	})
}

func TestTableCutsTheRightEnd(t *testing.T) {
	t.Parallel()
	table := Table{
		{"A", 0, 6, 6, func(c Cells) string { return c.Title }, false},
		{"B", 2, 6, 9, func(c Cells) string { return c.Dir }, true},
		{"C", 1, 6, 6, func(c Cells) string { return c.ID }, false},
	}
	c := Cells{Title: "👩‍👩‍👧👩‍👩‍👧 x", Dir: "/home/日本/src", ID: "T"}
	for width, want := range map[int]string{6: "👩👩…", 14: "👩👩…   T", 22: "👩👩…   …/src   T", 24: "👩👩…   …本/src   T"} {
		first, rest := table.Layout(width).Row(c)
		if got := strings.TrimRight(first+rest, " "); got != want {
			t.Errorf("width %d: got %q, want %q", width, got, want)
		}
	}
}
