package top

import (
	"context"
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
)

// maxMessage bounds a message that is typed here, in bytes.
const maxMessage = 4096

// orderedMsg is what became of a message for a run, or of the cancel of a turn.
type orderedMsg struct {
	what string // that was requested
	api.Sent
	err error
}

// talk handles a key about the conversation with the agent of a run: m writes a message, x cancels the turn.
func (m *model) talk(name string, run *api.Run) {
	switch {
	case run == nil:
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
	m.say("sending")
	q := api.SendRequest{Run: i.to, Text: i.text}
	return func() tea.Msg {
		sent, err := ask(m.ctx(), func(ctx context.Context) (api.Sent, error) { return api.OpSend.Call(ctx, m.svc, q) })
		return orderedMsg{"message", sent, err}
	}
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
