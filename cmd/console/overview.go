package console

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
)

// statusTable are the columns of [Renderer.Overview]. Those without a width are only in a pipe.
var statusTable = Table{
	{"STATE", 0, 12, 12, func(c Cells) string { return c.State }, false},
	{"RUN", 1, anyWidth, anyWidth, func(c Cells) string { return c.ID }, false},
	{"TIME", 4, 7, 7, func(c Cells) string { return c.Time }, false},
	{"TOOK", 10, 0, 0, func(c Cells) string { return c.took }, false},
	{"OPENED", 11, 0, 0, func(c Cells) string { return c.opened }, false},
	{"AGENT", 5, 11, 11, func(c Cells) string { return c.Agent }, false},
	{"TOKENS", 6, 9, 11, func(c Cells) string { return c.Tokens }, false},
	{"TITLE", 2, 20, 72, func(c Cells) string { return c.Title }, false},
	{"DIRECTORY", 7, 14, 40, func(c Cells) string { return c.Dir }, true},
	{"LABELS", 8, 14, 40, func(c Cells) string { return c.Labels }, false},
	{"PROGRESS", 9, 14, 14, Cells.steps, false},
	{"ACTIVITY", 3, 20, 64, Cells.Now, false}, // in a pipe it is Doing
}

// narrowTable is for terminals that have not room for the important columns of statusTable, those
// that tell runs apart and what they do. The title of a run is below its row.
var narrowTable = Table{
	{"", 0, 12, 12, statusTable[0].Text, false},
	{"", 2, anyWidth, anyWidth, statusTable[1].Text, false},
	{"", 1, 8, 64, Cells.Now, false},
}

const (
	important = 4    // columns
	wideWidth = 100  // of a terminal, from which on ids are whole
	anyWidth  = 4096 // of a column that is not cut
)

// Overview lists runs: those that need a person first, then the running ones, the ended ones
// last. On a terminal there are the columns that fit, with a heading, and ids are short on narrow
// ones; * marks ended runs that their owner has not opened. Anywhere else all columns are there, two
// spaces apart, but for those that are not known: programs read the JSON.
//
//	working  RUN  ELAPSED  AGENT  TOKENS  TITLE  DIRECTORY  LABELS  [STEPS]  ACTIVITY
//	queued   RUN  POSITION  AGENT  TITLE  DIRECTORY  LABELS
//	STATE    RUN  AGO  TOOK  new or seen  AGENT  TOKENS  TITLE  DIRECTORY  LABELS  REASON
func (r *Renderer) Overview(all *api.Overview) error {
	n, now, widest := all.Counts, time.Now(), 0
	listed := byNeed(all, now)
	rows := make([]Cells, len(listed))
	for i, run := range listed {
		rows[i] = CellsOf(run, now)
		widest = max(widest, len(rows[i].ID))
	}
	total := fmt.Sprintf("%d working%s, %d queued, %d ended", n.Working, waiting(rows), n.Queued, n.Ended)
	for i, more := range []int{n.Working - len(all.Working), n.Queued - len(all.Queued), n.Ended - len(all.Ended)} {
		if more > 0 {
			total += fmt.Sprintf("; %d %s not shown", more, []string{"working", "queued", "ended"}[i])
		}
	}
	var b strings.Builder
	if r.terminal {
		r.table(&b, listed, rows)
		if slices.ContainsFunc(rows, func(c Cells) bool { return c.opened == "new" }) {
			total += "; *: not opened yet"
		}
	} else {
		for _, c := range rows {
			c = c.plain()
			var texts []string
			for _, one := range statusTable[2 : len(statusTable)-1] {
				texts = append(texts, one.Text(c))
			}
			fmt.Fprintf(&b, "%-9s  %-*s  %s\n", c.State, widest, c.ID, joined(append(texts, c.Doing)...))
		}
	}
	for _, line := range wrap(total, r.wholeWidth()) {
		b.WriteString(r.Paint(Dim, line) + "\n")
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// waiting counts the rows of working runs that wait for a person, by their states.
func waiting(rows []Cells) string {
	var counts []string
	for _, state := range []string{needsYou, mayNeedYou, yourTurn} {
		n := 0
		for _, c := range rows {
			if c.State == state {
				n++
			}
		}
		if n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(counts) == 0 {
		return ""
	}
	return " (" + strings.Join(counts, ", ") + ")"
}

// byNeed returns the runs of an overview in the order in which they are listed.
func byNeed(all *api.Overview, now time.Time) []*api.Run {
	working := slices.Clone(all.Working)
	slices.SortStableFunc(working, func(a, b *api.Run) int { return cmp.Compare(b.Need(now), a.Need(now)) })
	return slices.Concat(working, all.Queued, all.Ended)
}

// wholeWidth is the number of cells of a row; without a terminal rows have no limit.
func (r *Renderer) wholeWidth() int {
	if !r.terminal {
		return 1 << 20
	}
	return max(r.width()-1, 8)
}

// table writes runs as rows of a terminal. On a narrow one the title is on a row of its own. No id
// is cut.
func (r *Renderer) table(b *strings.Builder, all []*api.Run, rows []Cells) {
	for i, id := range shortIDs(all) {
		if r.width() < wideWidth {
			rows[i].ID = id
		}
		if rows[i].opened == "new" {
			rows[i].State += "*"
		}
		if rows[i].source != "" {
			rows[i].Title = strings.TrimSpace(rows[i].source + ": " + rows[i].Title)
		}
	}
	room, whole := r.wholeWidth(), statusTable.fitted(rows)
	table := whole.Layout(room)
	narrow := len(table) < min(len(whole), important)
	if narrow {
		whole = narrowTable.fitted(rows)
		table = whole.Layout(room)
	} else if len(rows) > 0 {
		b.WriteString(r.Paint(Dim, table.Heading()) + "\n")
	}
	for _, c := range rows {
		state, rest := table.Row(c)
		b.WriteString(r.Paint(colors[strings.TrimSuffix(c.State, "*")], state) + rest + "\n")
		if narrow && len(table) < len(whole) {
			b.WriteString("  " + strings.Join(fold(c.ID, room-2), "\n  ") + "\n")
		}
		if narrow && c.Title != "" {
			b.WriteString(cut("  "+joined(c.Title, c.Agent), room) + "\n")
		}
	}
}
