package top

import (
	"cmp"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/cmd/console"
)

// runKey handles a key in a run.
func (m *model) runKey(name string) tea.Cmd {
	v := m.run
	if _, asks := m.oldest(v.run); asks && (name == "a" || name == "d" || name == "tab") {
		v.aside = ""
		return m.showQuestion()
	}
	if by := steps(name, m.runHeight(), len(v.rows)); by != 0 {
		v.follow = false
		m.scroll(by)
		return nil
	}
	switch name {
	case "q", "esc", "left", "h", "backspace":
		m.run = nil
	case "f":
		v.follow = !v.follow
		m.scroll(0)
	case "t":
		v.kinds = (v.kinds + 1) % nKinds
		v.layout()
		m.scroll(0)
	case "e":
		v.options.Full = !v.options.Full
		v.layout()
		m.scroll(0)
	case "d":
		v.options.Diffs = !v.options.Diffs
		v.layout()
		m.scroll(0)
	case "a":
		return m.readAll()
	case "/":
		m.input = &input{label: "search: ", hint: "enter keeps it, esc ends it"}
	case "n", "N":
		if v.pattern != "" {
			v.find(map[string]int{"n": 1, "N": -1}[name])
			m.scroll(0)
		}
	case "c":
		m.askCancel(v.run)
	case "m", "x", "F":
		m.talk(name, v.run)
	case "y":
		return m.copy(v.id)
	}
	return nil
}

// readAll loads the open run from its beginning.
func (m *model) readAll() tea.Cmd {
	v := m.run
	if !v.dropped || v.events {
		m.say("all items are loaded")
		return nil
	}
	m.loads++
	v.load = m.loads
	v.items, v.bytes, v.after, v.whole, v.done, v.dropped, v.first = nil, 0, "", true, false, false, 0
	v.layout()
	return m.read(0)
}

// scroll moves the visible part by some rows. At the end it shows the last rows.
func (m *model) scroll(by int) {
	v := m.run
	last := max(len(v.visible())-m.runHeight(), 0)
	if v.first = min(max(v.first+by, 0), last); v.follow {
		v.first = last
	}
}

// bodyWidth is the number of columns of a timeline.
func (m *model) bodyWidth() int { return max(m.width-1, 20) }

// runHeight is the number of rows of the timeline.
func (m *model) runHeight() int { return max(m.height-5, 1) }

// runRows draws the open run: what it is, what it is doing, and the visible rows.
func (m *model) runRows() []string {
	v := m.run
	rows := append(m.runHead(), "")
	if q := v.question; q != nil {
		return append(rows, q.rows[q.first:min(q.first+m.runHeight(), len(q.rows))]...)
	}
	all := v.visible()
	for i := v.first; i < min(v.first+m.runHeight(), len(all)); i++ {
		row := all[i]
		if v.pattern != "" && v.matches(i) {
			row = v.style.in(reverse, ansi.Strip(row))
		}
		rows = append(rows, row)
	}
	if len(all) == 0 {
		text := "Loading …"
		switch {
		case v.failing != nil && v.done:
			text = "Not available: " + console.Why(v.failing) + "."
		case v.failing != nil:
			text = "Waiting: " + console.Why(v.failing) + "."
		case v.kinds != allKinds && len(v.items) > 0:
			text = "No " + v.kinds.String() + ". t shows other kinds."
		case v.done || v.after != "" || v.events:
			text = "Nothing was printed yet."
		}
		rows = append(rows, v.style.in(console.Dim, "  "+text))
	}
	return rows
}

// runHead are the three lines above the timeline.
func (m *model) runHead() []string {
	v, run := m.run, m.run.run
	c, g := m.cells(run), groupOf(run, m.now)
	state, live := m.connection()
	if live {
		state = ""
	} else {
		state = v.style.in(console.Yellow, "○ "+state)
	}
	facts := []string{agentName(c.Agent)}
	for _, s := range []string{c.Model, c.ID, c.Dir, c.Labels} {
		if s != "" {
			facts = append(facts, s)
		}
	}
	now := []string{v.style.in(stateColor(run, g), stateName(run, g, c.State)) + " " + c.Time}
	due := ""
	if q, ok := m.oldest(run); ok {
		due = console.DueText(q, m.now)
	}
	for _, s := range []string{due, c.Now(), named(c.Tokens, "tokens"), named(c.Plan, "plan")} {
		if s != "" {
			now = append(now, s)
		}
	}
	return []string{
		sides(v.style.in(bold, console.Cut(cmp.Or(c.Title, c.ID), m.width-1)), state, m.width-1),
		v.style.in(console.Dim, console.Cut(strings.Join(facts, " · "), m.width-1)),
		ansi.TruncateWc(console.Grid(strings.Join(now, v.style.in(console.Dim, " · "))), m.width-1, "…"),
	}
}

func named(value, name string) string {
	if value == "" {
		return ""
	}
	return name + " " + value
}

// position describes what is visible, for the footer.
func (v *runView) position(height int) string {
	var words []string
	switch {
	case v.events:
		words = append(words, "events only: no right to details")
	case v.expired:
		words = append(words, "the beginning is no longer kept")
	case v.dropped:
		words = append(words, "a: older items")
	}
	if v.pattern != "" {
		words = append(words, "search "+console.Cut(console.Safe(v.pattern), 16))
	}
	if v.kinds != allKinds {
		words = append(words, v.kinds.String()+" only")
	}
	if n := len(v.rows); n > height {
		words = append(words, fmt.Sprintf("%d-%d of %d", v.first+1, min(v.first+height, n), n))
	}
	if v.follow && !v.done {
		words = append(words, "following")
	}
	return strings.Join(words, " · ")
}
