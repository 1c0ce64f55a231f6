package top

import (
	"fmt"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
)

// listRows draws the list: totals, headings, and the visible runs. No others are formatted.
func (m *model) listRows() []string {
	table := columns.Layout(m.width - len(marks(false, false)))
	rows := []string{m.totals(), m.style.in(console.Dim, marks(false, false)+table.Heading())}
	_, at := m.selected()
	n := m.listHeight()
	m.first = min(max(m.first, at-n+1, 0), at, max(len(m.table.shown)-n, 0))
	for i := m.first; i < min(m.first+n, len(m.table.shown)); i++ {
		rows = append(rows, m.runRow(m.table.shown[i], table, i == at))
	}
	if len(m.table.shown) == 0 {
		rows = append(rows, "", m.style.in(console.Dim, "  "+m.empty()))
	}
	return rows
}

// listHeight is the number of runs on the screen.
func (m *model) listHeight() int { return max(m.height-3, 1) }

// empty is why no run is shown.
func (m *model) empty() string {
	switch {
	case len(m.table.all) > 0 && (m.loading || m.got != m.want):
		return "Loading …"
	case len(m.table.all) > 0:
		return "No run matches the filter. Esc shows all runs."
	case m.failing != nil:
		return "Waiting for linesman: " + console.Why(m.failing) + "."
	case m.loading:
		return "Loading …"
	}
	return `There are no runs yet. Start one with "linesman submit" or "linesman run".`
}

// wide is the number of columns of a terminal that has room for the name of the program.
const wide = 100

// totals counts the runs by group, and tells how current the list is.
func (m *model) totals() string {
	state, live := m.connection()
	right := m.style.in(console.Green, "● ") + state
	if !live {
		right = m.style.in(console.Yellow, "○ "+state)
	}
	var words []string
	for g, n := range m.table.totals {
		if n == 0 && group(g) != working {
			continue
		}
		least := ""
		if m.older && group(g) >= unseen {
			least = "+"
		}
		words = append(words, m.style.in(colors[group(g)], fmt.Sprintf("%d%s %s", n, least,
			strings.ReplaceAll(groups[g], "-", " "))))
	}
	left := strings.Join(words, "  ")
	if m.width >= wide {
		left = m.style.in(bold, "linesman") + "  " + strings.Join(words, m.style.in(console.Dim, " · "))
	}
	switch {
	case m.loading && m.failing == nil:
		left += m.style.in(console.Dim, " · loading")
	case m.full:
		left += m.style.in(console.Dim, " · older ones not shown")
	}
	return sides(left, right, m.width)
}

// marks are before a row: of the selected one, and of a run that was not opened.
func marks(selected, unseen bool) string {
	s := []byte("  ")
	if selected {
		s[0] = '>'
	}
	if unseen {
		s[1] = '*'
	}
	return string(s)
}

// runRow draws a run.
func (m *model) runRow(run *api.Run, table console.Table, selected bool) string {
	c, g := m.cells(run), groupOf(run, m.now)
	c.State = stateName(run, g, c.State)
	mark := marks(selected, run.Unseen)
	state, rest := table.Row(c)
	switch {
	case selected:
		return m.style.in(reverse, fill(mark+state+rest, m.width))
	case g == ended:
		rest = m.style.in(console.Dim, rest)
	}
	return mark + m.style.in(stateColor(run, g), state) + rest
}

// stateName is the state of a run, unless its group tells more.
func stateName(run *api.Run, g group, state string) string {
	if g == lost && !run.State.Final() {
		return "lost"
	}
	return state
}

// stateColor is the colour of the state of a run.
func stateColor(run *api.Run, g group) string {
	switch {
	case g == unseen && run.State == "completed":
		return console.Green
	case g == unseen && run.State != "cancelled":
		return console.Red
	case g == ended, g == unseen:
		return console.Dim
	}
	return colors[g]
}

// footer is the last line: what is being typed or asked, else a note, else the keys.
func (m *model) footer() string {
	switch {
	case m.input != nil:
		line := m.input.line(m.width - 1)
		if room := m.width - width(line) - 2; room > 20 && m.input.text == "" {
			line += "  " + m.style.in(console.Dim, console.Cut(m.input.hint, room))
		}
		return line
	case m.asking != "":
		title := ""
		if run := m.table.all[m.asking]; run != nil {
			title = console.CellsOf(run, m.now).Title
		}
		ask := "cancel " + m.turnText() + console.Word(m.asking) + "?  y: cancel it  n: no  "
		return m.style.in(bold, console.Cut(ask, m.width-1)) + console.Cut(title, m.width-1-len(ask))
	case m.run != nil && m.run.question != nil && m.run.question.chosen != nil:
		q := m.run.question
		ask := q.confirmation()
		return m.style.in(bold, console.Cut(ask, m.width-1)) + console.Cut(console.Safe(q.chosen.Name), m.width-1-width(ask))
	case m.note != "" && m.now.Sub(m.noted) < noteTime:
		return console.Cut(m.note, m.width-1)
	}
	keys, right := listKeys, m.place()
	switch {
	case m.run != nil && m.run.question != nil:
		keys, right = questionKeys, m.run.question.position(m.runHeight())
	case m.run != nil:
		keys, right = runKeys, m.run.position(m.runHeight())
	}
	return sides(m.keys(keys, m.width-width(right)-1), right, m.width-1)
}

// place describes the order of the list, and what of it is visible.
func (m *model) place() string {
	var words []string
	if m.table.order != byNeed {
		words = append(words, "by "+m.table.order.String())
	}
	if t := m.table.filter.text; t != "" {
		words = append(words,
			fmt.Sprintf("%s: %d of %d", console.Cut(console.Safe(t), 30), len(m.table.shown), len(m.table.all)))
	} else if _, at := m.selected(); len(m.table.shown) > m.listHeight() {
		words = append(words, fmt.Sprintf("%d of %d", at+1, len(m.table.shown)))
	}
	return strings.Join(words, " · ")
}
