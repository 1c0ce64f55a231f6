package top

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// maxMessage bounds a message that is typed here, in bytes.
const maxMessage = 4096

// forkedMsg is what became of a run that begins with a copy of a thread.
type forkedMsg struct {
	api.Submitted
	err error
}

// orderedMsg is what became of a message for a run, or of the cancel of a turn.
type orderedMsg struct {
	what string // that was requested
	api.Sent
	err error
}

// talk handles a key about the conversation with the agent of a run: m writes a message, x cancels the turn, F goes on
// with a copy.
func (m *model) talk(name string, run *api.Run) {
	switch {
	case run == nil:
	case name == "F" && run.Thread == "":
		m.say("the run has no thread to copy")
	case name == "F":
		mode := cmp.Or(run.Mode, runs.ReadOnly)
		m.input = &input{label: "task of a copy, " + string(mode) + ": ", hint: "enter starts it, esc drops it", to: run.ID,
			fork: run}
	case run.State.Final():
		m.say("the run has ended: it is " + console.Word(string(run.State)))
	case run.Turn == 0:
		m.say("the run takes no messages: it was not submitted with --keep")
	case name == "m":
		m.input = &input{label: "message: ", hint: "enter sends it, esc drops it", to: run.ID}
	case run.AwaitsMessage():
		m.say("no turn runs")
	default:
		m.asking, m.turn = run.ID, run.Turn
	}
}

// sendMessage sends what was typed.
func (m *model) sendMessage(i *input) tea.Cmd {
	if strings.TrimSpace(i.text) == "" {
		return nil
	}
	if i.fork != nil {
		return m.startCopy(i.fork, i.text)
	}
	m.say("sending")
	q := api.SendRequest{Run: i.to, Text: i.text}
	return func() tea.Msg {
		sent, err := ask(m.ctx(), func(ctx context.Context) (api.Sent, error) { return api.OpSend.Call(ctx, m.svc, q) })
		return orderedMsg{"message", sent, err}
	}
}

// startCopy submits a task on a copy of the thread of a run.
func (m *model) startCopy(run *api.Run, text string) tea.Cmd {
	m.say("submitting")
	q := api.Submission{
		Task: runs.Task{Attributes: runs.Attributes{Agent: run.Agent, Mode: run.Mode}, Prompt: text},
		Fork: &api.ThreadRef{Selector: api.SelectID, ID: run.Thread}, Confirm: run.Mode.Writes(),
	}
	return func() tea.Msg {
		done, err := ask(m.ctx(), func(ctx context.Context) (api.Submitted, error) {
			return api.OpSubmit.Call(ctx, m.svc, q)
		})
		return forkedMsg{done, err}
	}
}

func (m *model) forked(f forkedMsg) {
	if f.err != nil {
		m.say("not submitted: " + console.Why(f.err))
		return
	}
	m.say("submitted: " + console.Word(f.Run))
}

// cancelTurn cancels a turn of a run.
func (m *model) cancelTurn(run string, turn int) tea.Cmd {
	q := api.TurnRequest{Run: run, Turn: turn}
	return func() tea.Msg {
		sent, err := ask(m.ctx(), func(ctx context.Context) (api.Sent, error) { return api.OpStop.Call(ctx, m.svc, q) })
		return orderedMsg{fmt.Sprintf("turn %d", turn), sent, err}
	}
}

// turnText names the turn that is to be cancelled; "": the whole run is.
func (m *model) turnText() string {
	if m.turn == 0 {
		return ""
	}
	return fmt.Sprintf("turn %d of ", m.turn)
}

func (m *model) ordered(o orderedMsg) {
	switch {
	case o.err != nil && o.what == "message":
		m.say("not sent: " + console.Why(o.err))
	case o.err != nil:
		m.say("not cancelled: " + console.Why(o.err))
	case o.what == "message":
		m.say(console.Sent(o.Sent))
	default:
		m.say("cancel requested: " + o.what + " of " + console.Word(o.Run))
	}
}
