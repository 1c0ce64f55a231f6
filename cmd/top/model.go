package top

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// Messages of the model beside those of the terminal. Each has the time at which it was made.
type (
	tickMsg    time.Time
	updateMsg  update
	cancelMsg  done // of a cancel
	seenMsg    done
	detailsMsg detailsFound
)

// done is the end of a request about a run.
type done struct {
	run string
	err error
}

// Times between requests.
const (
	pollBusy = time.Second     // while runs are open
	pollIdle = 2 * time.Second // else
	staleAge = 5 * time.Second // since the last answer, until the list counts as stale
	noteTime = 5 * time.Second // how long a note is shown
)

// model is the state of the screen: a function of its messages. Requests are its commands.
type model struct {
	svc   Service
	feed  *feed // used by one command at a time
	ctx   func() context.Context
	style style

	now           time.Time
	width, height int

	table   table
	at      string // id of the selected run; "": the first one
	first   int    // index of the first visible run
	updated time.Time
	failing error // of the last look at the runs
	loading bool
	full    bool
	older   bool
	want    wanted      // of the feed
	got     wanted      // what the last look was for
	hurry   chan wanted // ends the pause before the next look

	run    *runView // the run that is open; nil: the list
	loads  int      // of details so far
	input  *input   // a line that is being typed
	draft  *input   // the last one of which it is not known whether it was sent; nil: none
	asking string   // id of the run whose cancel has to be confirmed
	turn   int      // of that run, which is to be cancelled alone; 0: the run
	help   bool

	asked    map[string]api.Question // open questions that were read, by RUN/q1
	askedFor string                  // asks of the table when they were read
	omitted  bool                    // there were more than one answer has
	reading  bool
	views    int  // of questions so far
	inside   bool // this is a program of an agent, which must not answer

	note  string
	noted time.Time
}

func newModel(ctx context.Context, svc Service, color bool, now time.Time) *model {
	return &model{
		svc: svc, feed: newFeed(svc, time.Now), ctx: func() context.Context { return ctx }, style: style{color},
		now: now, width: 80, height: 24, table: table{all: map[string]*api.Run{}}, loading: true,
		want: wanted{all: pageSize, fit: pageSize}, hurry: make(chan wanted, 1),
	}
}

// Init starts the clock and the requests.
func (m *model) Init() tea.Cmd { return tea.Batch(tick(), m.poll(0)) }

func tick() tea.Cmd { return tea.Every(time.Second, func(t time.Time) tea.Msg { return tickMsg(t) }) }

// poll looks at the runs after a pause.
func (m *model) poll(pause time.Duration) tea.Cmd {
	want := m.want
	return func() tea.Msg {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case want = <-m.hurry:
		case <-m.ctx().Done():
		}
		m.feed.want = want
		return updateMsg(m.feed.next(m.ctx()))
	}
}

// more wants more runs if the selected one is near the end of those that are shown, or the filter or the order needs
// them. It reports whether it does.
func (m *model) more() bool {
	want := m.want
	if text := m.table.filter.text; want.filter != text {
		want.filter, want.fit = text, pageSize
	}
	most := &want.all
	if want.filter != "" {
		most = &want.fit
	}
	_, at := m.selected()
	switch {
	case m.table.order == byTokens || m.table.order == byTitle:
		*most = maxRuns
	case m.full && m.got == want && at+2*m.listHeight() >= len(m.table.shown):
		*most = min(*most+pageSize, maxRuns)
	}
	if want == m.want {
		return false
	}
	m.want = want
	select {
	case <-m.hurry: // what was wanted before
	default:
	}
	m.hurry <- want
	return true
}

// Update handles a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tickMsg:
		m.now = time.Time(msg)
		return m, tick()
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
		if m.run != nil {
			m.run.resize(m.bodyWidth())
			m.scroll(0)
			if q := m.run.question; q != nil {
				q.rows = console.QuestionRows(q.Question, m.bodyWidth(), m.style.color)
				m.scrollQuestion(0)
			}
		}
	case updateMsg:
		return m, m.update(update(msg))
	case cancelMsg:
		m.cancelled(done(msg))
	case seenMsg:
		if msg.err == nil {
			m.table.seen(msg.run)
		}
	case questionsMsg:
		return m, m.questions(msg)
	case settledMsg:
		if m.run != nil && m.run.question != nil && m.run.question.shown == int(msg) {
			m.run.question.ready = true
		}
	case answeredMsg:
		return m, m.answered(msg)
	case orderedMsg:
		m.ordered(msg)
	case forkedMsg:
		m.forked(msg)
	case detailsMsg:
		return m, m.details(detailsFound(msg))
	case tea.PasteMsg:
		if m.input != nil {
			cmd := m.typed(m.input.add(msg.Content))
			m.more()
			return m, cmd
		}
	case tea.KeyPressMsg:
		cmd := m.key(msg)
		m.more()
		return m, cmd
	}
	return m, nil
}

// update takes over what a look at the runs found, and looks again after a pause.
func (m *model) update(u update) tea.Cmd {
	m.failing = u.err
	if u.at.After(m.now) {
		m.now = u.at
	}
	if u.err != nil {
		return m.poll(pollBusy)
	}
	m.updated, m.loading, m.full, m.older, m.got = u.at, u.loading, u.full, u.older, u.want
	m.table.apply(u)
	m.more()
	if v := m.run; v != nil {
		if run := m.table.all[v.id]; run != nil {
			v.know(run)
		}
	}
	pause := pollIdle
	switch {
	case u.loading:
		pause = 0
	case m.table.totals[working]+m.table.totals[queued]+m.table.totals[needsYou]+m.table.totals[mayNeed] > 0:
		pause = pollBusy
	}
	return tea.Batch(m.poll(pause), m.see(), m.readQuestions(), m.showQuestion())
}

// see marks the open run as seen, once it has ended.
func (m *model) see() tea.Cmd {
	v := m.run
	if v == nil || v.run == nil || !v.run.Unseen || v.seen {
		return nil
	}
	v.seen = true
	return func() tea.Msg {
		_, err := ask(m.ctx(), func(ctx context.Context) (any, error) { return nil, m.svc.Seen(ctx, v.id) })
		return seenMsg{v.id, err}
	}
}

// selected returns the selected run and its place; nil if there is none.
func (m *model) selected() (*api.Run, int) {
	if len(m.table.shown) == 0 {
		return nil, 0
	}
	i := max(m.table.index(m.at), 0)
	return m.table.shown[i], i
}

// move selects the run so many places further. At the top the selection stays there, whatever
// run comes first.
func (m *model) move(by int) {
	if _, i := m.selected(); len(m.table.shown) > 0 {
		i = min(max(i+by, 0), len(m.table.shown)-1)
		if m.at = m.table.shown[i].ID; i == 0 {
			m.at = ""
		}
	}
}

// key handles a key.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.input != nil:
		return m.typed(m.input.key(k))
	case m.asking != "":
		return m.answer(name)
	case m.help:
		m.help = false
		return m.settle()
	case name == "?":
		m.help = true
		return nil
	case name == "ctrl+l":
		return tea.ClearScreen
	case m.run != nil && m.run.question != nil:
		return m.questionKey(name)
	case m.run != nil:
		return m.runKey(name)
	}
	return m.listKey(name)
}

// listKey handles a key in the list.
func (m *model) listKey(name string) tea.Cmd {
	run, _ := m.selected()
	if by := steps(name, m.listHeight(), len(m.table.shown)); by != 0 {
		m.move(by)
		return nil
	}
	switch name {
	case "q":
		return tea.Quit
	case "/":
		m.input = &input{label: "filter: ", hint: filterHelp, text: m.table.filter.text}
	case "esc":
		m.filter("")
	case "s":
		m.table.order = (m.table.order + 1) % orders
		m.table.arrange()
		m.say("sorted by " + m.table.order.String())
	case "enter", "o", "right", "l":
		if run != nil {
			return m.open(run)
		}
	case "f":
		if run != nil {
			cmd := m.open(run)
			m.run.follow = true
			return cmd
		}
	case "a", "d":
		if run != nil && len(run.Asks()) > 0 {
			return m.open(run)
		}
		m.say("it asks nothing that can be answered here")
	case "c":
		m.askCancel(run)
	case "m", "x", "F":
		m.talk(name, run)
	case "y":
		if run != nil {
			return m.copy(run.ID)
		}
	}
	return nil
}

// steps is how far a key moves, on a page of some rows of a list; 0 for another key.
func steps(name string, page, all int) int {
	switch name {
	case "up", "k":
		return -1
	case "down", "j":
		return 1
	case "pgup", "ctrl+b":
		return -page
	case "pgdown", "ctrl+f", "space":
		return page
	case "ctrl+u":
		return -page / 2
	case "ctrl+d":
		return page / 2
	case "home", "g":
		return -all
	case "end", "G":
		return all
	}
	return 0
}

// filter shows the runs that a filter selects.
func (m *model) filter(text string) {
	m.table.filter = parseFilter(text)
	m.table.arrange()
}

// typed takes over what was typed so far.
func (m *model) typed(state inputState) tea.Cmd {
	if i := m.input; i.to != "" {
		if state == inputOpen {
			return nil
		}
		if m.input = nil; state == inputDone {
			return m.sendMessage(i)
		}
		return nil
	}
	switch {
	case m.run != nil:
		m.run.search(m.input.text)
	default:
		m.filter(m.input.text)
	}
	if state == inputOpen {
		return nil
	}
	if state == inputLeft && m.run != nil {
		m.run.search("")
	} else if state == inputLeft {
		m.filter("")
	}
	m.input = nil
	return nil
}

// copy puts an id on the clipboard, where the terminal has one, and shows it.
func (m *model) copy(id string) tea.Cmd {
	m.say(console.Word(id) + " (copied, if the terminal allows it)")
	return tea.SetClipboard(id)
}

func (m *model) say(note string) { m.note, m.noted = note, m.now }

// askCancel asks whether to cancel a run.
func (m *model) askCancel(run *api.Run) {
	switch {
	case run == nil:
	case run.State.Final():
		m.say("the run has ended: it is " + console.Word(string(run.State)))
	case run.Source == runs.SourceSession:
		m.say("linesman did not start this agent: end it where it runs")
	default:
		m.asking, m.turn = run.ID, 0
	}
}

// answer handles a key while a cancel has to be confirmed.
func (m *model) answer(name string) tea.Cmd {
	id := m.asking
	m.asking = ""
	if name != "y" {
		m.say("not cancelled")
		return nil
	}
	m.say("cancelling " + m.turnText() + console.Word(id))
	if m.turn > 0 {
		return m.cancelTurn(id, m.turn)
	}
	return func() tea.Msg {
		_, err := ask(m.ctx(), func(ctx context.Context) (api.Cancelled, error) {
			return m.svc.Cancel(ctx, api.Cancel{Run: id, Reason: "linesman top"})
		})
		return cancelMsg{id, err}
	}
}

func (m *model) cancelled(d done) {
	m.say("cancel requested: " + console.Word(d.run))
	if d.err != nil {
		m.say("not cancelled: " + console.Why(d.err))
	}
}

// connection describes how current the list is, and whether it is.
func (m *model) connection() (text string, live bool) {
	age := m.now.Sub(m.updated)
	switch {
	case m.updated.IsZero() && m.failing == nil:
		return "connecting", false
	case m.updated.IsZero():
		return console.Why(m.failing) + ", retrying", false
	case m.failing == nil && age < staleAge:
		return "live", true
	case m.failing == nil:
		return "stale for " + console.Elapsed(age), false
	}
	return fmt.Sprintf("stale for %s: %s, retrying", console.Elapsed(age), console.Why(m.failing)), false
}

// View draws the screen.
func (m *model) View() tea.View {
	var rows []string
	switch {
	case m.help:
		rows = m.helpRows()
	case m.run != nil:
		rows = m.runRows()
	default:
		rows = m.listRows()
	}
	if len(rows) > m.height-1 {
		rows = rows[:max(m.height-1, 0)]
	}
	rows = append(rows, slices.Repeat([]string{""}, max(m.height-1-len(rows), 0))...)
	v := tea.NewView(strings.Join(append(rows, m.footer()), "\n"))
	v.AltScreen = true
	if m.input != nil {
		v.Cursor = tea.NewCursor(min(width(m.input.line(m.width-1)), m.width-1), m.height-1)
	}
	return v
}
