package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
)

// settle is how long a question is on the screen before a key can answer it: a key that is pressed sooner was meant for
// what was there before.
const settle = 300 * time.Millisecond

// questionView is a question in place of the timeline of the open run.
type questionView struct {
	api.Question
	shown  int // number of this view
	rows   []string
	first  int                 // visible row
	read   bool                // its last row was visible
	ready  bool                // it has settled
	chosen *api.QuestionOption // that has to be confirmed
	sent   bool                // its answer is on the way
}

// Messages about questions.
type (
	questionsMsg struct {
		of  string // of the table, when they were asked for
		run string // "": of all runs
		api.Questions
		err error
	}
	settledMsg  int // number of the view
	answeredMsg struct {
		ref string
		api.Answered
		err error
	}
)

// refOf names a question.
func refOf(run, question string) string { return run + "/" + question }

// readQuestions reads the open questions if the runs ask others than those that were read.
func (m *model) readQuestions() tea.Cmd {
	switch of := m.table.asks; {
	case of == m.askedFor || m.reading:
	case of == "":
		m.asked, m.askedFor = nil, ""
	default:
		return m.readQuestionsOf("")
	}
	return nil
}

func (m *model) readQuestionsOf(run string) tea.Cmd {
	m.reading = true
	of := m.table.asks
	return func() tea.Msg {
		all, err := ask(m.ctx(), func(ctx context.Context) (api.Questions, error) {
			return m.svc.Questions(ctx, api.QuestionsRequest{Request: run})
		})
		if api.Is(err, api.NotFound) {
			err = nil
		}
		return questionsMsg{of, run, all, err}
	}
}

// questions takes over what was read. What failed is read again at the next look at the runs.
func (m *model) questions(f questionsMsg) tea.Cmd {
	m.reading = false
	if f.err != nil && !errors.Is(f.err, client.ErrDenied) {
		return nil
	}
	if m.askedFor = f.of; f.run == "" || m.asked == nil {
		m.asked, m.omitted = map[string]api.Question{}, f.Unlisted > 0
	}
	for _, q := range f.Requests {
		m.asked[refOf(q.Run, q.ID)] = q
	}
	return m.showQuestion()
}

// oldest returns the oldest question of a run that was read and has no answer.
func (m *model) oldest(run *api.Run) (q api.Question, ok bool) {
	if run != nil {
		for _, id := range run.Asks() {
			if q, ok = m.asked[refOf(run.ID, id)]; ok {
				break
			}
		}
	}
	return q, ok
}

// cells are those of a run, with what it asks.
func (m *model) cells(run *api.Run) console.Cells {
	c := console.CellsOf(run, m.now)
	if q, ok := m.oldest(run); ok {
		c.Doing = "asks: " + console.Asks(q)
	}
	return c
}

// showQuestion shows the oldest question of the open run, unless it was put aside, or the timeline if there is none.
func (m *model) showQuestion() tea.Cmd {
	v := m.run
	if v == nil {
		return nil
	}
	q, ok := m.oldest(v.run)
	switch {
	case !ok && v.run != nil && len(v.run.Asks()) > 0 && m.omitted && !m.reading && v.asked != m.table.asks:
		v.asked = m.table.asks
		return m.readQuestionsOf(v.id)
	case !ok || v.aside == q.ID:
		v.question = nil
	case v.question == nil || v.question.ID != q.ID:
		v.question = &questionView{Question: q}
		v.question.rows = console.QuestionRows(q, m.bodyWidth(), m.style.color)
		m.scrollQuestion(0)
		return m.settle()
	}
	return nil
}

// settle makes the keys of the question count a while after it came to the screen.
func (m *model) settle() tea.Cmd {
	if m.run == nil || m.run.question == nil {
		return nil
	}
	m.views++
	n := m.views
	m.run.question.shown, m.run.question.ready = n, false
	return tea.Tick(settle, func(time.Time) tea.Msg { return settledMsg(n) })
}

func (m *model) scrollQuestion(by int) {
	q, n := m.run.question, m.runHeight()
	q.first = min(max(q.first+by, 0), max(len(q.rows)-n, 0))
	q.read = q.read || q.first+n >= len(q.rows)
}

// questionKey handles a key while a question is shown.
func (m *model) questionKey(name string) tea.Cmd {
	v := m.run
	q := v.question
	if q.chosen != nil {
		chosen := q.chosen
		if q.chosen = nil; name == "y" {
			return m.send(chosen.ID)
		}
		m.say("not answered")
		return nil
	}
	if by := steps(name, m.runHeight(), len(q.rows)); by != 0 {
		m.scrollQuestion(by)
		return nil
	}
	switch name {
	case "q", "esc", "left", "h", "backspace":
		m.run = nil
	case "tab":
		v.aside = q.ID
		v.question = nil
	case "c":
		m.askCancel(v.run)
	case "m", "x":
		m.talk(name, v.run)
	case "y":
		return m.copy(refOf(q.Run, q.ID))
	case "a", "d", "1", "2", "3", "4", "5", "6", "7", "8", "9":
		if q.ready && !q.sent {
			return m.decide(q, name)
		}
	}
	return nil
}

// decide answers a question as a key says, or says why it does not.
func (m *model) decide(q *questionView, key string) tea.Cmd {
	if m.inside {
		m.say("an agent cannot answer")
		return nil
	}
	o, sure, why := console.Choose(q.Question, key)
	switch {
	case why != "":
		m.say(why)
	case o.ID == "":
	case !strings.HasPrefix(o.Kind, "reject_") && !q.read:
		m.scrollQuestion(m.runHeight())
		m.say("the question is longer: read it to its end first")
	case !sure:
		q.chosen = &o
	default:
		return m.send(o.ID)
	}
	return nil
}

// send answers the question that is shown.
func (m *model) send(option string) tea.Cmd {
	q := m.run.question
	q.sent = true
	r := api.AnswerRequest{Request: q.Run, Question: q.ID, Option: option, Digest: q.Digest}
	return func() tea.Msg {
		done, err := ask(m.ctx(), func(ctx context.Context) (api.Answered, error) { return m.svc.Answer(ctx, r) })
		return answeredMsg{refOf(r.Request, r.Question), done, err}
	}
}

func (m *model) answered(a answeredMsg) tea.Cmd {
	closed := slices.ContainsFunc([]api.Code{api.Conflict, api.NotFound, api.NotWaiting, api.Ended},
		func(c api.Code) bool { return api.Is(a.err, c) })
	switch {
	case a.err != nil:
		m.say("not answered: " + console.Why(a.err))
	case a.Delivered:
		m.say("answered: " + console.Word(a.Outcome))
	default:
		m.say("answered: " + console.Word(a.Outcome) + "; the agent gets it when its worker is back")
	}
	if a.err == nil || closed {
		delete(m.asked, a.ref)
		return m.showQuestion()
	}
	if v := m.run; v != nil && v.question != nil && refOf(v.id, v.question.ID) == a.ref {
		v.question.sent = false
	}
	return nil
}

// confirmation asks whether the chosen option is meant.
func (q *questionView) confirmation() string {
	return "answer " + console.Word(q.chosen.ID) + " (" + console.Word(q.chosen.Kind) + ")?  y: yes  n: no  "
}

// position describes what of a question is visible.
func (q *questionView) position(height int) string {
	if len(q.rows) <= height {
		return ""
	}
	return fmt.Sprintf("%d-%d of %d", q.first+1, min(q.first+height, len(q.rows)), len(q.rows))
}
