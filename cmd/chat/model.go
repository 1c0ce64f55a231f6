package chat

import (
	"context"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/textarea"
	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// Messages of the model beside those of the terminal.
type (
	lookMsg struct { // the state of the run
		run  *api.Run
		at   time.Time
		err  error
		loop bool // another look follows
	}
	queueMsg struct { // what waits
		api.Messages
		err error
	}
	drawnMsg    struct{} // the first rows are on the screen
	printedMsg  struct{}
	disarmedMsg int // number of the Ctrl-C
)

// Times.
const (
	lookEvery = time.Second     // between two looks at the run
	askTime   = 5 * time.Second // of one of them
	moment    = 2 * time.Second // in which a second Ctrl-C leaves
)

// model is the state of the screen. Requests are its commands.
type model struct {
	svc   api.Caller
	ctx   func() context.Context
	start func(ctx context.Context, id, text string) (*api.Run, error)

	about         string // the run that start begins
	color, inside bool
	width, height int
	begun         bool // the size of the terminal is known
	drawing       <-chan struct{}

	run   *api.Run // newest known state; nil: there is none
	now   time.Time
	away  bool  // the last look got no answer
	fatal error // why the conversation cannot go on

	talk  talk
	ask   asked
	queue api.Messages // that wait
	knew  api.Conversation
	stale bool // the queue has changed since it was read

	out      []string // rows that are not printed yet
	printing bool     // or not to be printed yet
	leaving  bool

	field   textarea.Model
	past    history
	outbox  []outgoing
	sending bool

	interrupts int  // Ctrl-C so far
	armed      bool // another one leaves
	sure       bool // another /end ends the run in spite of what waits
	note       string
}

func newModel(ctx context.Context, svc api.Caller, c Config, color bool, now time.Time) *model {
	m := &model{
		svc: svc, ctx: func() context.Context { return ctx }, start: c.Start, about: c.About, color: color, inside: c.Inside,
		run: c.Run, now: now, width: 80, height: 24, printing: true, field: newField(),
	}
	m.talk.timeline = console.NewRows(m.width-1, color, console.TimelineOptions{})
	if c.Run != nil {
		m.know(c.Run)
	}
	if c.Text != "" {
		m.say(c.Text, false)
	}
	return m
}

// Init waits until the first rows are drawn.
func (m *model) Init() tea.Cmd {
	return func() tea.Msg {
		<-m.drawing
		return drawnMsg{}
	}
}

// Update handles a message, and prints the rows that came with it.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	cmd := m.handle(msg)
	return m, tea.Batch(cmd, m.send(), m.print())
}

func (m *model) handle(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return m.resize(msg.Width, msg.Height)
	case lookMsg:
		return m.looked(msg)
	case itemsMsg:
		return m.items(msg)
	case questionsMsg:
		m.questions(msg)
	case queueMsg:
		if m.stale = m.stale || msg.err != nil; msg.err == nil {
			m.queue = msg.Messages
		}
	case sentMsg:
		return m.sent(msg)
	case againMsg:
		m.sending = false
	case orderedMsg:
		return m.ordered(msg)
	case answeredMsg:
		return m.answered(msg)
	case drawnMsg, printedMsg:
		m.printing = false
	case disarmedMsg:
		if m.armed && int(msg) == m.interrupts {
			m.armed, m.note = false, ""
		}
	case tea.PasteMsg:
		if !m.ask.keys {
			m.field, _ = m.field.Update(msg)
		}
	case tea.KeyPressMsg:
		m.note = ""
		return m.key(msg)
	}
	return nil
}

// resize takes over the size of the terminal, and begins when it is known.
func (m *model) resize(width, height int) tea.Cmd {
	m.width, m.height = max(width, 20), max(height, 5)
	m.talk.timeline.SetWidth(m.width - 1)
	m.field.SetWidth(m.width - 1)
	m.field.MaxHeight = max(min(8, m.height/3), 1)
	m.field.SetHeight(m.field.Height())
	if m.begun {
		return nil
	}
	m.begun = true
	if m.run == nil {
		m.out = append(m.out, m.paint(bold, "── a new conversation"))
		m.remark(m.about)
		m.remark("Your first message begins it. /help explains the keys.")
		return nil
	}
	m.head()
	return m.open()
}

// open begins to read a run.
func (m *model) open() tea.Cmd { return tea.Batch(m.look(0, true), m.read(0)) }

// look reads the state of the run after a pause.
func (m *model) look(pause time.Duration, loop bool) tea.Cmd {
	if m.run == nil {
		return nil
	}
	id := m.run.ID
	return tea.Tick(pause, func(time.Time) tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx(), askTime)
		defer cancel()
		run, err := api.OpDescribe.Call(ctx, m.svc, api.RunRequest{Run: id})
		return lookMsg{run, time.Now(), err, loop}
	})
}

// looked takes over the state of the run.
func (m *model) looked(l lookMsg) (cmd tea.Cmd) {
	if l.loop {
		cmd = m.look(lookEvery, true)
	}
	switch {
	case l.err != nil:
		m.missed(l.err)
		return cmd
	case m.away:
		m.back()
	}
	if l.at.After(m.now) {
		m.now = l.at
	}
	m.know(l.run)
	if m.talk.done && l.run.State.Final() {
		return m.leave()
	}
	return tea.Batch(cmd, m.readQuestions(), m.readQueue())
}

// missed says once that linesman is away, or gives up.
func (m *model) missed(err error) {
	switch {
	case !away(err) && !m.leaving:
		m.fatal = err
		m.leave()
	case !m.away && away(err):
		m.away = true
		meanwhile := ". The run goes on, and what you send is kept."
		if m.run == nil {
			meanwhile = ". What you send is kept."
		}
		m.warn("linesman is away: " + console.Why(err) + meanwhile)
	}
}

func (m *model) back() {
	m.away = false
	m.remark("linesman is back.")
}

// know takes over a state of the run.
func (m *model) know(run *api.Run) {
	if run.Detail == nil {
		run.Detail = &api.Detail{}
	}
	m.run = run
	shown := *run
	shown.Title = "" // else a prompt of the same words is left out
	m.talk.timeline.SetRun(&shown)
	m.settleQuestion()
}

// conversation is how the run stands; the zero value: not known.
func (m *model) conversation() (c api.Conversation) {
	if m.run != nil && m.run.Detail != nil && m.run.Conversation != nil {
		c = *m.run.Conversation
	}
	return c
}

// turn is the number of the turn that runs; 0: none does.
func (m *model) turn() int {
	c := m.conversation()
	if m.run == nil || m.run.State.Final() || m.run.State == runs.StateQueued || c.WaitsFor == runs.WaitsMessage {
		return 0
	}
	return c.Turn
}

// readQueue reads what waits, if that has changed.
func (m *model) readQueue() tea.Cmd {
	c := m.conversation()
	if c.Waiting == 0 {
		m.queue, m.knew, m.stale = api.Messages{}, c, false
		return nil
	}
	if c == m.knew && !m.stale {
		return nil
	}
	m.knew, m.stale = c, false
	run := m.run.ID
	return func() tea.Msg {
		all, err := api.OpMessages.Call(m.ctx(), m.svc, api.RunRequest{Run: run})
		return queueMsg{all, err}
	}
}

// atOnce is how many rows are printed at once. What is drawn leaves as much room: what was drawn before, and is still
// on the screen, may have been higher than what is drawn now.
func (m *model) atOnce() int { return max(m.height/3, 1) }

// print prints the rows that are due, above what is drawn.
func (m *model) print() tea.Cmd {
	switch {
	case m.printing:
		return nil
	case len(m.out) == 0 && m.leaving:
		return tea.Quit
	case len(m.out) == 0:
		return nil
	}
	n := min(len(m.out), m.atOnce())
	rows := strings.Join(m.out[:n], "\n")
	if m.out = slices.Clone(m.out[n:]); rows == "" {
		rows = " " // a blank row is a row
	}
	m.printing = true
	return tea.Sequence(tea.Println(rows), func() tea.Msg { return printedMsg{} })
}

// leave ends the program after all rows are printed. The run goes on.
func (m *model) leave() tea.Cmd {
	m.leaving = true
	m.ask.keys, m.note = false, ""
	for i, o := range m.outbox {
		became := "not sent: "
		if i == 0 && m.sending { // its answer is missing
			became = "it is not known whether this was sent: "
		}
		m.warn(became + console.Cut(console.Safe(o.text), 60))
	}
	m.outbox = nil
	return nil
}

// interrupt is Ctrl-C: it cancels the turn; again, it leaves.
func (m *model) interrupt() tea.Cmd {
	if m.armed {
		return m.leave()
	}
	turn := m.turn()
	if turn == 0 && m.field.Value() != "" {
		m.clear()
		return nil
	}
	m.armed = true
	m.interrupts++
	n := m.interrupts
	disarm := tea.Tick(moment, func(time.Time) tea.Msg { return disarmedMsg(n) })
	if turn > 0 {
		m.note = "cancelling the turn; Ctrl-C again leaves"
		q := api.TurnRequest{Run: m.run.ID, Turn: turn}
		return tea.Batch(disarm, func() tea.Msg {
			_, err := api.OpStop.Call(m.ctx(), m.svc, q)
			return orderedMsg{err}
		})
	}
	m.note = "Ctrl-C again leaves"
	return disarm
}
