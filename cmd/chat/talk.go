package chat

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
)

// talk is what was said so far, as far as it was read.
type talk struct {
	timeline *console.Timeline
	after    string // position of the last item
	told     bool   // the first page was printed
	done     bool   // no item will come
	missed   bool   // the last request got no answer
}

// itemsMsg is a page of what the agent did.
type itemsMsg struct {
	api.DetailPage
	err error
}

// Limits of what is read.
const (
	earlier     = 300 // items of the conversation so far
	earlierRows = 200 // of them
	detailWait  = 5   // seconds, for a new item
	foldTime    = time.Minute
	retryAfter  = 300 * time.Millisecond
)

// read asks for the next items after a pause. Only a responder that has to read all of the run may take long: one that
// was killed will never answer.
func (m *model) read(pause time.Duration) tea.Cmd {
	q := api.DetailRequest{Run: m.run.ID, After: m.talk.after, Wait: detailWait, Limit: api.MaxDetailItems}
	within := askTime
	if q.After == "" || m.talk.missed {
		within = foldTime
	}
	if q.After == "" {
		q.Last = earlier
	}
	return tea.Tick(pause, func(time.Time) tea.Msg {
		op := api.OpDetail
		op.Within = within + detailWait*time.Second
		page, err := op.Call(m.ctx(), m.svc, q)
		return itemsMsg{page, err}
	})
}

// items prints a page, and asks for the next one.
func (m *model) items(f itemsMsg) tea.Cmd {
	m.talk.missed = f.err != nil
	switch {
	case f.err != nil && (away(f.err) || api.Is(f.err, api.NotFound) && !m.run.State.Final()): // it waits for a worker
		if away(f.err) {
			m.missed(f.err)
		}
		return m.read(retryAfter)
	case f.err != nil:
		m.fatal = f.err
		return m.leave()
	}
	var rows []string
	look := false
	for _, item := range f.Items {
		some, changed := m.item(item)
		rows, look = append(rows, some...), look || changed
	}
	if over := len(rows) - earlierRows; !m.talk.told && (over > 0 || len(f.Items) >= earlier) {
		rows = append([]string{m.paint(console.Dim, "… all of it: linesman logs "+m.run.ID)}, rows[max(over, 0):]...)
	}
	m.talk.told = m.talk.told || len(f.Items) > 0
	m.out = append(m.out, rows...)
	if m.talk.after = cmp.Or(f.Next, m.talk.after); f.Done {
		m.talk.done = true
		return m.look(0, false) // the record may follow
	}
	if look {
		return tea.Batch(m.read(0), m.look(0, false))
	}
	return m.read(0)
}

// item returns the rows of an item, and whether it changes the state of the run.
func (m *model) item(item api.DetailItem) (rows []string, changed bool) {
	kind, message := console.Record{Event: item.Event}.Kind()
	if item.Kind == "detail" && item.Detail != nil { // the prompt of the task comes again with its turn
		item.Detail.Prompt = nil
	}
	if item.Kind == api.Completion || len(item.Event) == 0 || kind != "status" {
		return m.talk.timeline.Rows(item), false
	}
	switch {
	case message == "turn started":
		if d := item.Detail; d != nil && d.Prompt != nil && d.Prompt.Omitted == 0 {
			m.past.add(d.Prompt.Head)
		}
		return append([]string{""}, m.talk.timeline.Rows(item)...), true
	case strings.HasPrefix(message, "turn "):
		if rows = m.talk.timeline.Rows(item); len(rows) == 0 || message != "turn completed" {
			rows = append(rows, m.paint(console.Dim, "· "+console.Safe(message)))
		}
		return rows, true
	case strings.HasSuffix(message, " asked"):
		if id := gjson.GetBytes(item.Event, "data.question.id").String(); id != "" {
			m.ask.newest = id
		}
		if m.talk.told || slices.Contains(m.run.Asks(), m.ask.newest) { // it is shown in full
			item.Detail = nil
		}
		return m.talk.timeline.Rows(item), true
	case message == "answered", message == "question withdrawn":
		row := m.settled(item, message)
		item.Detail = nil
		return append(m.talk.timeline.Rows(item), row), true
	case strings.HasPrefix(message, "message"):
		m.stale = true
		return m.talk.timeline.Rows(item), true
	}
	return m.talk.timeline.Rows(item), false
}

// settled is the row of the end of a question.
func (m *model) settled(item api.DetailItem, message string) string {
	answer := gjson.GetBytes(item.Event, "data.answer")
	id, by := answer.Get("id").String(), answer.Get("by").String()
	facts := console.Word(answer.Get("outcome").String())
	if d := item.Detail; d != nil && d.Text != nil {
		facts += ", " + console.Safe(d.Text.Head)
	}
	switch {
	case message != "answered":
		message = "withdrawn"
	case m.ask.mine[id]:
	case by == "person" && m.talk.told:
		message = "answered elsewhere"
	case by == "policy", by == "timeout", by == "cancel":
		message = "answered by " + by
	}
	return m.paint(console.Dim, console.Cut(fmt.Sprintf("· %s %s: %s", console.Word(id), message, facts), m.width-1))
}

// head prints what the conversation is about.
func (m *model) head() {
	c := console.CellsOf(m.run, m.now)
	m.out = append(m.out, m.paint(bold, console.Cut("── "+cmp.Or(c.Title, c.ID), m.width-1)))
	for _, fact := range []string{c.Agent + ", " + c.ID, c.Dir} {
		m.out = append(m.out, m.paint(console.Dim, console.Cut("   "+fact, m.width-1)))
	}
}

// remark prints a text of linesman.
func (m *model) remark(text string) { m.out = append(m.out, m.wrapped(console.Dim, text)...) }

// warn prints one that is more than a remark.
func (m *model) warn(text string) { m.out = append(m.out, m.wrapped(console.Yellow, "! "+text)...) }
