package chat

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
)

// asked is what the agent asks.
type asked struct {
	open    *api.Question // the oldest one; it was printed
	keys    bool          // keys are for it, not for the field
	writes  bool          // the field has the content of the form
	draft   string        // what the field had before
	chosen  *api.QuestionOption
	sent    bool            // its answer is on the way
	reading bool            // the questions are read
	newest  string          // id of the newest one among the items
	missing string          // id of one that was not among them when it was read
	mine    map[string]bool // ids of those that were answered here
}

type (
	questionsMsg struct {
		api.Questions
		err error
	}
	answeredMsg struct {
		api.Answered
		id      string
		content string // of the form, as it was written
		err     error
	}
)

// settleQuestion forgets a question that is not open any more.
func (m *model) settleQuestion() {
	if q := m.ask.open; q != nil && !slices.Contains(m.run.Asks(), q.ID) {
		m.turnToField()
		m.ask.open, m.ask.sent = nil, false
	}
}

// readQuestions reads the open questions, if one is not known.
func (m *model) readQuestions() tea.Cmd {
	if m.ask.reading || m.ask.open != nil || len(m.run.Asks()) == 0 {
		return nil
	}
	m.ask.reading = true
	run := m.run.ID
	return func() tea.Msg {
		all, err := api.OpWaiting.Call(m.ctx(), m.svc, api.QuestionsRequest{Request: run})
		return questionsMsg{all, err}
	}
}

// questions prints the oldest question. What failed is read again at the next look at the run.
func (m *model) questions(f questionsMsg) {
	m.ask.reading = false
	if f.err != nil || m.ask.open != nil || m.leaving {
		return
	}
	for _, q := range f.Requests {
		if !slices.Contains(m.run.Asks(), q.ID) {
			continue
		}
		if number(q.ID) > number(m.ask.newest) && m.ask.missing != q.ID { // what led to it is printed first
			m.ask.missing = q.ID
			return
		}
		m.ask.open = &q
		m.out = append(m.out, console.QuestionRows(q, m.width-1, m.color)...)
		return
	}
}

// number is that of a question, from its id.
func number(id string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "q"))
	return n
}

// turnToQuestion gives the keys to the question.
func (m *model) turnToQuestion() {
	if m.ask.sent || m.ask.open == nil {
		return
	}
	if m.inside {
		m.note = "an agent cannot answer"
		return
	}
	if m.ask.writes {
		m.turnToField()
	}
	m.ask.keys = true
}

// turnToField gives the keys to the field, with what it had.
func (m *model) turnToField() {
	if m.ask.writes {
		m.write(m.ask.draft)
	}
	m.ask.keys, m.ask.writes, m.ask.chosen, m.ask.draft = false, false, nil, ""
}

// questionKey handles a key for the question.
func (m *model) questionKey(name string) tea.Cmd {
	q := m.ask.open
	if chosen := m.ask.chosen; chosen != nil {
		if m.ask.chosen = nil; name == "y" {
			return m.answer(api.AnswerRequest{Option: chosen.ID})
		}
		m.note = "not answered"
		return nil
	}
	switch {
	case name == "tab", name == "esc":
		m.turnToField()
	case name == "ctrl+d":
		return m.leave()
	case q.Kind == api.KindForm && name == "d":
		return m.answer(api.AnswerRequest{Option: "decline"})
	case q.Kind == api.KindForm && name == "c":
		return m.answer(api.AnswerRequest{Option: "cancel"})
	case q.Kind == api.KindForm && name == "e" && !q.Cut:
		m.ask.draft, m.ask.writes = m.field.Value(), true
		m.write(skeleton(q.Fields))
	case strings.Contains("ad123456789", name):
		o, sure, why := console.Choose(*q, name)
		switch {
		case why != "":
			m.note = why
		case o.ID == "":
		case !sure:
			m.ask.chosen = &o
		default:
			return m.answer(api.AnswerRequest{Option: o.ID})
		}
	}
	return nil
}

// submit answers a form with an object.
func (m *model) submit(text string) tea.Cmd {
	if !json.Valid([]byte(text)) {
		m.note = "it must be JSON, an object"
		return nil
	}
	return m.answer(api.AnswerRequest{Content: json.RawMessage(text)})
}

// answer answers the question.
func (m *model) answer(a api.AnswerRequest) tea.Cmd {
	q := m.ask.open
	a.Request, a.Question, a.Digest = q.Run, q.ID, q.Digest
	m.ask.sent = true
	if m.ask.mine == nil || len(m.ask.mine) > maxPast {
		m.ask.mine = map[string]bool{}
	}
	m.ask.mine[q.ID] = true
	content := ""
	if m.ask.writes {
		content = m.field.Value()
	}
	m.turnToField() // what is typed meanwhile is a message
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx(), askTime)
		defer cancel()
		done, err := api.OpAnswer.Call(ctx, m.svc, a)
		return answeredMsg{done, a.Question, content, err}
	}
}

func (m *model) answered(a answeredMsg) tea.Cmd {
	m.ask.sent = false
	switch {
	case a.err != nil:
		delete(m.ask.mine, a.id)
		m.warn("not answered: " + console.Why(a.err))
		if q := m.ask.open; q != nil && q.ID == a.id && a.content != "" && !m.ask.writes { // it can be corrected
			m.ask.keys, m.ask.writes, m.ask.draft = true, true, m.field.Value()
			m.write(a.content)
		}
		return m.look(0, false)
	case !a.Delivered:
		m.remark("The agent gets the answer when its worker is back.")
	}
	if m.ask.open != nil && m.ask.open.ID == a.id {
		m.ask.sent = true // until the state of the run has it
	}
	return m.look(0, false)
}

// questionRows are what the question needs, among the last rows.
func (m *model) questionRows() (rows []string) {
	q := m.ask.open
	if q == nil {
		return nil
	}
	title := "? " + console.Word(q.ID) + " " + console.Asks(*q)
	if due := console.DueText(*q, m.now); due != "" {
		title += " (" + due + ")"
	}
	keys := "tab: answer"
	switch {
	case m.ask.sent:
		keys = "answering"
	case m.ask.chosen != nil:
		keys = fmt.Sprintf("%s (%s)?  y yes  n no", console.Word(m.ask.chosen.ID), console.Word(m.ask.chosen.Kind))
	case m.ask.writes:
		keys = "its fields as JSON; esc back"
	case m.ask.keys && q.Kind == api.KindForm:
		keys = "e fill in  d decline  c close  tab back"
	case m.ask.keys:
		keys = fmt.Sprintf("a allow  d deny  1-%d option  tab back", min(len(q.Options), 9))
	}
	return append(m.wrapped(console.Yellow, title), m.wrapped(bold, keys)...)
}

// skeleton is an object with an empty value for each field of a form, whose names are the agent's.
func skeleton(schema json.RawMessage) string {
	var form struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if json.Unmarshal(schema, &form) != nil {
		return "{}"
	}
	empty := map[string]any{"string": "", "boolean": false, "integer": 0, "number": 0, "array": []any{}}
	content := map[string]any{}
	for name, field := range form.Properties {
		kind, _ := field.Type.(string)
		content[name] = empty[kind]
	}
	b, err := json.Marshal(content)
	if err != nil {
		return "{}"
	}
	return string(console.EscapeJSON(b))
}
