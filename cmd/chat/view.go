package chat

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// Sequences beside those of package console.
const (
	reset = "\x1b[0m"
	bold  = "\x1b[1m"
)

// paint paints a text, which has no sequences.
func (m *model) paint(sequence, text string) string {
	if sequence == "" || text == "" || !m.color {
		return text
	}
	return sequence + text + reset
}

// wrapped are the rows of a safe text.
func (m *model) wrapped(sequence, text string) (rows []string) {
	for row := range strings.SplitSeq(ansi.WrapWc(console.Grid(text), m.width-1, ""), "\n") {
		rows = append(rows, m.paint(sequence, row))
	}
	return rows
}

// rows are what is drawn above the field.
func (m *model) rows() (rows []string) {
	if m.leaving {
		return nil
	}
	rows = append(rows, m.talk.timeline.Unfinished()...)
	rows = append(rows, m.questionRows()...)
	rows = append(rows, m.queueRows()...)
	rows = append(rows, m.paint(console.Dim, console.Cut(m.status(), m.width-1)))
	most := max(m.height-m.atOnce()-m.field.Height()-1, 1)
	return rows[max(len(rows)-most, 0):]
}

// queueShown is how many messages that wait are drawn.
const queueShown = 3

// queueRows are the messages that wait.
func (m *model) queueRows() (rows []string) {
	mark, sending, n := "… waits: ", "… sending: ", len(m.queue.Messages)+len(m.outbox)
	if m.queue.Held {
		mark = "… held: "
	}
	if m.away {
		sending = "… not sent yet: "
	}
	for _, one := range m.queue.Messages {
		rows = append(rows, mark+console.Waits(one))
	}
	for _, one := range m.outbox {
		rows = append(rows, sending+one.text)
	}
	if n > queueShown {
		rows = append(rows[:queueShown-1], fmt.Sprintf("… and %d more: /queue", n-queueShown+1))
	}
	for i, row := range rows {
		line := console.Safe(strings.Join(strings.Fields(row), " "))
		rows[i] = m.paint(console.Dim, console.Cut(line, m.width-1))
	}
	if m.queue.Held {
		rows = append(rows, m.wrapped(console.Yellow,
			"Held, since the turn was not completed: /release sends it, and so does your next message.")...)
	}
	return rows
}

// status is one line about the run.
func (m *model) status() string {
	c := m.conversation()
	switch {
	case m.note != "":
		return m.note
	case m.away:
		return "linesman is away, reconnecting"
	case m.run == nil && m.sending:
		return "starting a run"
	case m.run == nil:
		return "enter sends  /help"
	case m.run.State == runs.StateQueued:
		return "queued: " + console.CellsOf(m.run, m.now).Doing
	case m.run.State.Final():
		return "ended: " + string(m.run.State)
	case c.Turn == 0:
		return "starting"
	case m.ask.open != nil:
		return fmt.Sprintf("turn %d asks", c.Turn)
	case m.turn() == 0 && c.WaitsFor != "":
		return "your turn  /help"
	}
	return strings.TrimSpace(fmt.Sprintf("turn %d  %s", c.Turn, console.CellsOf(m.run, m.now).Doing)) + "  ctrl-c cancels"
}

// View draws the last rows. All that came before is the terminal's.
func (m *model) View() tea.View {
	if m.leaving || !m.begun {
		return tea.NewView("")
	}
	rows := m.rows()
	v := tea.NewView(strings.Join(append(rows, m.field.View()), "\n"))
	if c := m.field.Cursor(); c != nil && (!m.ask.keys || m.ask.writes) {
		c.Y += len(rows)
		v.Cursor = c
	}
	return v
}
