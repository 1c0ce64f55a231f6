package console

import (
	"cmp"
	"io"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
)

// sessionTable are the columns of [Renderer.Sessions].
var sessionTable = Table{
	{"THREAD", 0, anyWidth, anyWidth, func(c Cells) string { return c.ID }, false},
	{"CHANGED", 3, 8, 14, func(c Cells) string { return c.ago }, false},
	{"AGENT", 2, 11, 11, func(c Cells) string { return c.Agent }, false},
	{"TITLE", 1, 20, 72, func(c Cells) string { return c.Title }, false},
	{"DIRECTORY", 5, 14, 40, func(c Cells) string { return c.Dir }, true},
	{"NOT NOW", 4, 20, 100, func(c Cells) string { return c.Doing }, false},
}

// Sessions lists threads, with the reason why one cannot be continued now. On a terminal there are the columns that
// fit, anywhere else all, two spaces apart, but for those that are not known.
func (r *Renderer) Sessions(all api.Sessions) error {
	rows, now := make([]Cells, len(all.Sessions)), time.Now()
	for i, s := range all.Sessions {
		v := s.Newest
		rows[i] = CellsOf(&api.Run{Summary: v}, now)
		rows[i].ID, rows[i].Doing = Word(v.Thread), flat(s.Refused)
		rows[i].ago = Ago(cmp.Or(v.ActiveAt, v.EndedAt, v.StartedAt, v.QueuedAt), now)
	}
	var b strings.Builder
	table := sessionTable.fitted(rows).Layout(r.wholeWidth())
	if r.terminal && len(rows) > 0 {
		b.WriteString(r.Paint(Dim, table.Heading()) + "\n")
	}
	for _, c := range rows {
		if r.terminal {
			first, rest := table.Row(c)
			b.WriteString(first + rest + "\n")
			continue
		}
		var texts []string
		for _, one := range sessionTable {
			texts = append(texts, one.Text(c))
		}
		b.WriteString(joined(texts...) + "\n")
	}
	if all.Next != "" {
		b.WriteString(r.Paint(Dim, "older ones are not shown: --limit") + "\n")
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}
