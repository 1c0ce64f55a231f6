package console

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Widths of a terminal, in cells, from which on a list has more columns.
const (
	mediumWidth = 60  // tokens, agent; a run is one row
	wideWidth   = 100 // full ids, directory, labels
)

// longID is the length of an id, in bytes, that has a row of its own on a narrow terminal.
const longID = 24

// Overview lists runs: those that need a person first, then the running ones, the ended ones
// last. On a terminal long
// columns are cut, and ids are short on narrow ones; * marks ended runs that their owner has
// not opened. Anywhere else all columns are there, two spaces apart, but for those that are not
// known: programs read the JSON.
//
//	working  RUN  ELAPSED  AGENT  TOKENS  TITLE  DIRECTORY  LABELS  [STEPS]  ACTIVITY
//	queued   RUN  POSITION  AGENT  TITLE  DIRECTORY  LABELS
//	STATE    RUN  AGO  TOOK  new or seen  AGENT  TOKENS  TITLE  DIRECTORY  LABELS  REASON
func (r *Renderer) Overview(all *api.Overview) error {
	n, now := all.Counts, time.Now()
	listed := byNeed(all, now)
	total := fmt.Sprintf("%d working, %d queued, %d ended", n.Working, n.Queued, n.Ended)
	if needy := count(listed, func(run *api.Run) bool { return run.Need(now) == runs.NeedsAnswer }); needy > 0 {
		total = fmt.Sprintf("%d working (%d needs you), %d queued, %d ended", n.Working, needy, n.Queued, n.Ended)
	}
	for i, more := range []int{n.Working - len(all.Working), n.Queued - len(all.Queued), n.Ended - len(all.Ended)} {
		if more > 0 {
			total += fmt.Sprintf("; %d %s not shown", more, []string{"working", "queued", "ended"}[i])
		}
	}
	var b strings.Builder
	if r.terminal {
		r.table(&b, listed, now)
		if slices.ContainsFunc(listed, func(run *api.Run) bool { return run.Unseen }) {
			total += "; *: not opened yet"
		}
	} else {
		width := 0
		for _, run := range listed {
			width = max(width, len(Word(run.ID)))
		}
		for _, run := range listed {
			one := rowOf(run, now)
			fmt.Fprintf(&b, "%-9s  %-*s  %s\n", one.state, width, one.run, strings.Join(columns(run, one, now), "  "))
		}
	}
	for _, line := range wrap(total, r.wholeWidth()) {
		b.WriteString(r.Paint(Dim, line) + "\n")
	}
	_, err := io.WriteString(r.out, b.String())
	return err
}

// byNeed returns the runs of an overview in the order in which they are listed.
func byNeed(all *api.Overview, now time.Time) []*api.Run {
	working := slices.Clone(all.Working)
	slices.SortStableFunc(working, func(a, b *api.Run) int { return cmp.Compare(b.Need(now), a.Need(now)) })
	return slices.Concat(working, all.Queued, all.Ended)
}

func count(all []*api.Run, is func(*api.Run) bool) (n int) {
	for _, run := range all {
		if is(run) {
			n++
		}
	}
	return n
}

// wholeWidth is the number of cells of a row; without a terminal rows have no limit.
func (r *Renderer) wholeWidth() int {
	if !r.terminal {
		return 1 << 20
	}
	return max(r.width()-1, 8)
}

// columns are the columns of a run behind its id, for pipes.
func columns(run *api.Run, one row, now time.Time) []string {
	var all []string
	last := one.activity
	if run.State.Final() {
		opened := "seen"
		if run.Unseen {
			opened = "new"
		}
		all, last = append(all, Ago(run.EndedAt, now), "took "+seconds(lasted(run)), opened), flat(run.Reason)
	} else {
		all = append(all, one.about)
	}
	agent, tokens := "", ""
	if run.Agent != "" {
		agent = source(run)
	}
	if run.Tokens != nil {
		tokens = tokenCounts(run.Tokens)
	}
	all = append(all, agent, tokens, flat(run.Title), Safe(run.Dir), labels(run.Labels.Map()), one.steps, last)
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// table writes runs as rows of a terminal. On a narrow one the title is on a row of its own.
func (r *Renderer) table(b *strings.Builder, all []*api.Run, now time.Time) {
	width, ids := r.width(), shortIDs(all)
	for i, id := range ids {
		if width < wideWidth && len(id) > longID {
			width = min(width, mediumWidth-1)
		} else if width >= wideWidth {
			ids[i] = Word(all[i].ID)
		}
	}
	rows := make([][]string, 0, len(all)+1)
	if width >= mediumWidth && len(all) > 0 {
		rows = append(rows, header(width >= wideWidth))
	}
	for i, id := range ids {
		rows = append(rows, cellsOfRun(all[i], id, width, now))
	}
	widths := make([]int, 6)
	for _, row := range rows {
		for i, s := range row {
			widths[i] = max(widths[i], cells(s))
		}
	}
	for i, row := range rows {
		color := colors[strings.TrimRight(row[0], "*")]
		if i == 0 && width >= mediumWidth {
			color = Dim
		}
		state := fmt.Sprintf("%-10s ", cut(row[0], 10))
		b.WriteString(r.Paint(color, state))
		room := r.wholeWidth() - len(state)
		if width < mediumWidth {
			r.narrow(b, row, widths[1], room)
			continue
		}
		line := ""
		for k, s := range row[1:] {
			line += s + strings.Repeat(" ", widths[k+1]-cells(s)) + "  "
		}
		b.WriteString(cut(strings.TrimRight(line, " "), room) + "\n")
	}
}

// narrow writes the id of a run, what it does, and its title, on a terminal that has not room for
// them in one row. An id is not cut.
func (r *Renderer) narrow(b *strings.Builder, row []string, widest, room int) {
	id, doing, title := row[1], row[2], row[3]
	if len(id) > longID || len(id) >= room {
		b.WriteString(cut(doing, room) + "\n")
		for _, part := range fold(id, r.wholeWidth()-2) {
			b.WriteString("  " + part + "\n")
		}
	} else {
		line := fmt.Sprintf("%-*s  %s", min(widest, longID), id, doing)
		b.WriteString(cut(line, room) + "\n")
	}
	if title != "" {
		b.WriteString(cut("  "+title, r.wholeWidth()) + "\n")
	}
}

func header(wide bool) []string {
	if wide {
		return []string{"STATE", "RUN", "DOING", "TOKENS", "AGENT", "TITLE, DIRECTORY, LABELS"}
	}
	return []string{"STATE", "RUN", "DOING", "TOKENS", "TITLE, AGENT"}
}

// cellsOfRun are the columns of a run on a terminal: as those of [header], on a narrow one
// without tokens.
func cellsOfRun(run *api.Run, id string, width int, now time.Time) []string {
	one := rowOf(run, now)
	state, doing, tokens := one.state, one.brief, tokenCounts(run.Tokens)
	if run.Unseen {
		state += "*"
	}
	if one.state == "queued" {
		tokens = ""
	}
	switch {
	case width >= wideWidth:
		if run.State.Final() {
			doing = one.about
		}
		return []string{state, id, cut(doing, min(width/4, 40)), tokens, Word(run.Agent), about(run, true)}
	case width >= mediumWidth:
		return []string{state, id, cut(doing, 24), tokens, strings.TrimSpace(about(run, false) + "  " + Word(run.Agent))}
	}
	return []string{state, id, doing, about(run, false)}
}
