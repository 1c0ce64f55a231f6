package chat

import (
	"cmp"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"charm.land/bubbles/v2/key"
	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// outgoing is a message that no responder has accepted yet.
type outgoing struct {
	text, key string
	run       string // id of the run that it begins, if there is none
	now       bool
}

// sentMsg is the end of sending one.
type sentMsg struct {
	run *api.Run // that it began; nil: it was a message to one
	err error
}

// againMsg is the end of the pause after which the message that begins a run is sent again.
type againMsg struct{}

// Limits of what is typed.
const (
	maxPast   = 100 // messages that can be called back
	maxOutbox = runs.MaxQueued
	maxRows   = 100_000 // of the field
)

func newField() textarea.Model {
	f := textarea.New()
	f.ShowLineNumbers, f.DynamicHeight, f.MaxContentHeight, f.CharLimit = false, true, maxRows, runs.MaxMessage
	f.MaxWidth = 0
	f.SetVirtualCursor(false)
	f.SetStyles(textarea.Styles{})
	f.KeyMap.InsertNewline = key.NewBinding(key.WithKeys("alt+enter", "shift+enter", "ctrl+j"))
	f.KeyMap.Paste.SetEnabled(false) // it would start a program; terminals paste by themselves
	f.SetPromptFunc(2, func(info textarea.PromptInfo) string {
		if info.LineNumber == 0 {
			return "> "
		}
		return "  "
	})
	f.Focus()
	return f
}

// history are the messages of the conversation, the oldest first.
type history struct {
	all   []string
	back  int    // how far the field has gone back; 0: it has the draft
	draft string // what was typed before
}

// add appends a message that is not known.
func (h *history) add(text string) {
	if text == "" || slices.Contains(h.all, text) {
		return
	}
	h.all = append(h.all, text)
	h.all = h.all[max(len(h.all)-maxPast, 0):]
	if h.back > 0 {
		h.back = min(h.back+1, len(h.all))
	}
}

// move goes back by 1, or forth by -1, from a text; ok: there is one.
func (h *history) move(by int, from string) (text string, ok bool) {
	to := h.back + by
	if to < 0 || to > len(h.all) {
		return "", false
	}
	if h.back == 0 {
		h.draft = from
	}
	if h.back = to; to == 0 {
		return h.draft, true
	}
	return h.all[len(h.all)-to], true
}

// key handles a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if name == "ctrl+c" {
		return m.interrupt()
	}
	m.armed = false
	switch {
	case m.leaving:
		return nil
	case name == "ctrl+z":
		return tea.Suspend
	case m.ask.keys && !m.ask.writes:
		return m.questionKey(name)
	case name == "ctrl+d" && m.field.Value() == "":
		return m.leave()
	case name == "tab" && m.ask.open != nil, name == "esc" && m.ask.writes:
		m.turnToQuestion()
		return nil
	case name == "enter":
		return m.enter()
	case name == "up" && m.field.Line() == 0 && m.field.LineInfo().RowOffset == 0:
		return m.recall(1)
	case name == "down" && m.field.Line() == m.field.LineCount()-1 &&
		m.field.LineInfo().RowOffset >= m.field.LineInfo().Height-1:
		return m.recall(-1)
	}
	var cmd tea.Cmd
	m.field, cmd = m.field.Update(k)
	return cmd
}

func (m *model) recall(by int) tea.Cmd {
	if text, ok := m.past.move(by, m.field.Value()); ok && !m.ask.writes {
		m.write(text)
	}
	return nil
}

// write puts a text into the field.
func (m *model) write(text string) {
	m.field.SetValue(text)
	m.field.MoveToEnd()
}

// enter takes what was typed: a message, a command or the content of a form.
func (m *model) enter() tea.Cmd {
	text := m.field.Value()
	if strings.HasSuffix(text, `\`) {
		m.write(strings.TrimSuffix(text, `\`) + "\n")
		return nil
	}
	if m.ask.writes {
		return m.submit(text)
	}
	switch {
	case strings.TrimSpace(text) == "":
		return nil
	case strings.HasPrefix(text, "//"): // a message that begins with a slash
		text = text[1:]
	case strings.HasPrefix(text, "/"):
		return m.command(text)
	}
	if m.say(text, false) {
		m.clear()
	}
	return nil
}

// clear empties the field.
func (m *model) clear() {
	m.sure = false
	m.past.back, m.past.draft = 0, ""
	m.field.Reset()
}

// say has a message sent, and reports whether there is room for it.
func (m *model) say(text string, now bool) bool {
	if len(m.outbox) == maxOutbox {
		m.note = "too many messages are not sent yet"
		return false
	}
	m.past.add(text)
	run := runs.NewID(m.now.UnixMilli(), mathrand.Uint64())
	m.outbox = append(m.outbox, outgoing{text, rand.Text(), run, now})
	return true
}

// send sends the next message, once the run has begun.
func (m *model) send() tea.Cmd {
	if m.sending || len(m.outbox) == 0 || !m.begun || m.run != nil && (m.away || m.run.Conversation == nil) {
		return nil
	}
	m.sending = true
	o, ctx := m.outbox[0], m.ctx()
	if m.run == nil {
		return func() tea.Msg {
			run, err := m.start(ctx, o.run, o.text)
			return sentMsg{run, err}
		}
	}
	q := api.SendRequest{Run: m.run.ID, Text: o.text, Key: o.key}
	if o.now {
		q.When = runs.WhenNow
	}
	return func() tea.Msg {
		_, err := api.OpSend.Call(ctx, m.svc, q)
		return sentMsg{err: err}
	}
}

// sent takes over what became of a message. One that got no answer is sent again, with the same key, or for the same
// run: once a look at the run has an answer, or, if there is none, after a while.
func (m *model) sent(s sentMsg) tea.Cmd {
	m.sending = false
	if len(m.outbox) == 0 { // it is left
		return nil
	}
	switch {
	case s.err == nil || !away(s.err):
		if m.run == nil && m.away {
			m.back()
		}
	case m.run == nil:
		m.sending = true // nothing else is
		m.missed(s.err)
		return tea.Tick(lookEvery, func(time.Time) tea.Msg { return againMsg{} })
	default:
		m.missed(s.err)
		return nil
	}
	o := m.outbox[0]
	m.outbox = m.outbox[1:]
	switch {
	case s.err != nil:
		m.warn("not sent: " + console.Why(s.err))
		if m.field.Value() == "" {
			m.write(o.text)
		}
		return nil
	case s.run != nil:
		m.know(s.run)
		m.head()
		return m.open()
	}
	m.stale = true
	return m.look(0, false)
}

// help explains the keys and the commands.
const help = `Enter sends. A new line: \ before Enter, Alt-Enter or Ctrl-J. Up and down: earlier messages.
A message that is sent while the agent works waits for its turn.
Tab turns to an open question, and back: what you type is never an answer.
Ctrl-C cancels the turn; twice, or Ctrl-D, leaves: the run stays.
/now TEXT  cancel the turn, and send this
/queue     what waits, and how to change it
/release   send what is held
/mode M    what the agent may do: read-only, workspace-write, danger-full-access
/model M   the model, from the next turn on
/end       end the run, after its turn
/quit      leave
//TEXT     send a text that begins with a slash`

// command carries out a command.
func (m *model) command(text string) tea.Cmd {
	end := strings.IndexFunc(text+" ", unicode.IsSpace)
	name, rest := text[:end], strings.TrimSpace(text[end:])
	switch name {
	case "/now":
		if rest == "" {
			m.note = "/now needs a text"
		} else if m.say(rest, true) {
			m.clear()
		}
	case "/queue":
		m.clear()
		m.listQueue()
	case "/release":
		return order(m, api.OpRelease, ofRun)
	case "/mode", "/model":
		if rest == "" {
			m.note = name + " needs a word"
			return nil
		}
		q := api.SetRequest{Model: rest}
		if name == "/mode" {
			q = api.SetRequest{Mode: runs.Mode(rest)}
		}
		return order(m, api.OpSet, func(run string) api.SetRequest {
			q.Run = run
			return q
		})
	case "/end":
		if n := m.conversation().Waiting; n > 0 && !m.sure {
			m.note, m.sure = fmt.Sprintf("%d waiting will not be sent: enter again", n), true
			return nil
		}
		return order(m, api.OpEnd, ofRun)
	case "/quit":
		m.clear()
		return m.leave()
	case "/help":
		m.clear()
		for line := range strings.SplitSeq(help, "\n") {
			m.remark(line)
		}
	default:
		m.note = cmp.Or(console.Cut(console.Safe(name), 20), "/") + ": no command (/help); // sends it as text"
	}
	return nil
}

func ofRun(run string) api.RunRequest { return api.RunRequest{Run: run} }

// order carries out a request about the run.
func order[Q any](m *model, op api.Op[Q, api.Sent], request func(run string) Q) tea.Cmd {
	m.clear()
	if m.run == nil {
		m.note = "there is no run yet"
		return nil
	}
	q := request(m.run.ID)
	return func() tea.Msg {
		_, err := op.Call(m.ctx(), m.svc, q)
		return orderedMsg{err}
	}
}

// orderedMsg is the end of a request about the run that sends nothing.
type orderedMsg struct{ err error }

func (m *model) ordered(o orderedMsg) tea.Cmd {
	if o.err != nil {
		m.warn(console.Why(o.err))
	}
	return m.look(0, false)
}

// listQueue prints what waits in full, and how to change it.
func (m *model) listQueue() {
	if len(m.queue.Messages) == 0 {
		m.note = "nothing waits"
		return
	}
	for _, one := range m.queue.Messages {
		m.out = append(m.out, m.wrapped(bold, "── "+console.Word(one.Message)+", by "+console.Word(one.By))...)
		for line := range strings.SplitSeq(console.Waits(one), "\n") {
			m.out = append(m.out, m.wrapped("", console.Safe(strings.ReplaceAll(line, "\t", "    ")))...)
		}
	}
	m.remark("linesman send " + m.run.ID + " --edit ID TEXT, or --remove ID, changes them.")
}
