package top

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// maxMessage bounds a message that is typed here, in bytes.
const maxMessage = 4096

// forkedMsg is what became of a run that begins with a copy of a thread.
type forkedMsg struct {
	api.Submitted
	lost *input // it is not known whether this was submitted
	err  error
}

// orderedMsg is what became of a message for a run, or of the cancel of a turn.
type orderedMsg struct {
	what string // that was requested
	api.Sent
	lost *input // it is not known whether this was sent
	err  error
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
		m.write(input{label: "task of a copy, " + string(mode), hint: "enter starts it, esc drops it", to: run.ID, fork: run})
	case run.State.Final():
		m.say("the run has ended: it is " + console.Word(string(run.State)))
	case run.Turn == 0:
		m.say("the run takes no messages: it was not submitted with --keep")
	case name == "m":
		m.write(input{label: "message", hint: "enter sends it, esc drops it", to: run.ID})
	case run.AwaitsMessage():
		m.say("no turn runs")
	default:
		m.asking, m.turn = run.ID, run.Turn
	}
}

// write begins a line, with what the same one had if it is not known whether that was sent.
func (m *model) write(i input) {
	if d := m.draft; d != nil && d.to == i.to && (d.fork == nil) == (i.fork == nil) {
		m.draft, i.label = nil, i.label+", perhaps "+became(d)+" already"
		i.text, i.sent, i.id = d.text, d.sent, d.id
	}
	i.label += ": "
	m.input = &i
}

// became is what happens to a line that is sent.
func became(i *input) string {
	if i.fork != nil {
		return "submitted"
	}
	return "sent"
}

// keep says that it is not known whether a line was sent, and keeps it: put on the screen at once it would take keys
// that are meant for something else.
func (m *model) keep(i *input, err error) {
	key := "m"
	if m.draft = i; i.fork != nil {
		key = "F"
	}
	m.say("it is not known whether it was " + became(i) + ": " + console.Why(err) + "; " + key + " has its text")
}

// sendMessage sends what was typed. The same text is sent again with the same id.
func (m *model) sendMessage(i *input) tea.Cmd {
	if strings.TrimSpace(i.text) == "" {
		return nil
	}
	if i.sent != i.text {
		i.sent, i.id = i.text, runs.NewID(m.now.UnixMilli(), rand.Uint64())
	}
	if i.fork != nil {
		return m.startCopy(i)
	}
	m.say("sending")
	q := api.SendRequest{Run: i.to, Text: i.text, Key: i.id}
	return func() tea.Msg {
		sent, lost, err := once(m, i, api.OpSend, q)
		return orderedMsg{"message", sent, lost, err}
	}
}

// once carries out a request about a line once. Lost is that line if that is not known.
func once[Q, R any](m *model, i *input, op api.Op[Q, R], q Q) (done R, lost *input, err error) {
	done, unknown, err := client.Repeat(func() (R, error) {
		return ask(m.ctx(), func(ctx context.Context) (R, error) { return op.Call(ctx, m.svc, q) })
	})
	if unknown {
		lost = i
	}
	return done, lost, err
}

// startCopy submits a task on a copy of the thread of a run.
func (m *model) startCopy(i *input) tea.Cmd {
	m.say("submitting")
	run := i.fork
	q := api.Submission{
		Run: i.id, Task: runs.Task{Attributes: runs.Attributes{Agent: run.Agent, Mode: run.Mode}, Prompt: i.text},
		Fork: &api.ThreadRef{Selector: api.SelectID, ID: run.Thread}, Confirm: run.Mode.Writes(),
	}
	return func() tea.Msg {
		done, lost, err := once(m, i, api.OpSubmit, q)
		return forkedMsg{done, lost, err}
	}
}

func (m *model) forked(f forkedMsg) {
	switch {
	case f.lost != nil:
		m.keep(f.lost, f.err)
	case f.err != nil:
		m.say("not submitted: " + console.Why(f.err))
	default:
		m.say("submitted: " + console.Word(f.Run))
	}
}

// cancelTurn cancels a turn of a run.
func (m *model) cancelTurn(run string, turn int) tea.Cmd {
	q := api.TurnRequest{Run: run, Turn: turn}
	return func() tea.Msg {
		sent, err := ask(m.ctx(), func(ctx context.Context) (api.Sent, error) { return api.OpStop.Call(ctx, m.svc, q) })
		return orderedMsg{fmt.Sprintf("turn %d", turn), sent, nil, err}
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
	case o.lost != nil:
		m.keep(o.lost, o.err)
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
