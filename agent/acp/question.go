package acp

import (
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/normalizer/wire"
	"github.com/linesman/linesman/runs"
)

// question is a question of the agent that is open.
type question struct {
	N       int      `json:"n"`
	ID      string   `json:"id"` // of the request, as JSON
	Kind    string   `json:"kind"`
	Call    string   `json:"call,omitempty"`    // that waits for it, at most maxCallID bytes
	Options []choice `json:"options,omitempty"` // at most MaxOpts
	By      string   `json:"by,omitempty"`      // who decided it, as the command says; at most runs.MaxBy bytes
	Chose   uint32   `json:"chose,omitempty"`   // hash of the option of that command
	People  bool     `json:"people,omitempty"`  // they are asked
}

// choice is an option of a question.
type choice struct {
	Hash  uint32 `json:"h"` // of its id
	Allow bool   `json:"a,omitempty"`
	Deny  bool   `json:"d,omitempty"`
}

func (q *question) name() string { return "q" + strconv.Itoa(q.N) }

// question returns the open question with a name; nil: there is none.
func (d *dialect) question(name string) *question {
	if i := slices.IndexFunc(d.Asked, func(q question) bool { return q.name() == name }); i >= 0 {
		return &d.Asked[i]
	}
	return nil
}

// openQuestion returns the index of the open question with the id of a request, or -1.
func (d *dialect) openQuestion(id string) int {
	return slices.IndexFunc(d.Asked, func(q question) bool { return q.ID == id })
}

// asks maps a request of the agent. Each question has a number, also one that is refused.
func (d *dialect) asks(m *Message, out *normalizer.Out) {
	q := m.QuestionOf()
	if q.Kind == "" {
		d.drift.Add(runs.DriftMethod, "", m.Method)
		d.status(out, "request refused", nil)
		return
	}
	d.Asks++
	asked := question{N: d.Asks, ID: strings.Clone(m.RequestID()), Kind: q.Kind}
	if i := d.openQuestion(asked.ID); i >= 0 {
		d.settle(i, out)
		text := "the agent asked two questions under one id"
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorTop
		d.event(out, normalizer.ErrorMessage(text))
		return
	}
	if id := wire.ID(q.Call); len(id) <= maxCallID {
		asked.Call = strings.Clone(id)
	}
	message := "question asked"
	if q.Kind == Permission {
		message = "permission asked"
		d.announce(&q, out)
	}
	for _, o := range q.Options {
		asked.Options = append(asked.Options, choice{
			hash32(o.ID), strings.HasPrefix(o.Kind, "allow_"), strings.HasPrefix(o.Kind, "reject_"),
		})
	}
	d.Text.Goes = false
	d.status(out, message, d.questionData(&asked, &q))
	if len(d.Asked) < runs.MaxQuestions {
		d.Asked = append(d.Asked, asked)
		d.told.Asked = &runs.Asked{ID: asked.name(), Kind: q.Kind, Tool: d.toolKind(&q), Options: q.Options}
	}
}

// announce maps what a permission request tells of its call before an update does: that it begins, or its
// input. Some agents tell of them only here.
func (d *dialect) announce(q *Question, out *normalizer.Out) {
	id := wire.ID(q.Call)
	c := d.find(id)
	if id == "" || c != nil && (c.Input || c.Ended) {
		return
	}
	u := wire.Object(q.ToolCall)
	delete(u, "status")
	d.call(u, wire.ID(q.Session), c == nil, out)
	if c == nil {
		if c = d.find(id); c != nil {
			c.Asked = true
		}
	}
}

// toolKind is the kind of the tool that a question is about; "": not told.
func (d *dialect) toolKind(q *Question) string {
	if c := d.find(wire.ID(q.Call)); c != nil {
		return c.Kind
	}
	if q.Tool == "" {
		return ""
	}
	return oneOf(wire.At(q.ToolCall, "kind"), "other", kinds...)
}

// questionData returns the data of the event of a question.
func (d *dialect) questionData(asked *question, q *Question) []byte {
	b := appendText([]byte(`{"schema":"backend.question.v1","question":{"id":`), asked.name())
	b = appendText(append(b, `,"kind":`...), q.Kind)
	b = appendText(append(b, `,"tool":`...), d.toolKind(q))
	b = appendText(append(b, `,"call":`...), wire.ID(q.Call))
	b = append(b, `,"options":[`...)
	for i, o := range q.Options {
		if i > 0 {
			b = append(b, ',')
		}
		kind := oneOfText(o.Kind, "allow_once", "allow_always", "reject_once", "reject_always")
		b = appendText(b, kind)
	}
	return append(b, "]}}"...)
}

// put maps that people are asked a question.
func (d *dialect) put(c *runs.Command, out *normalizer.Out) {
	q := d.question(c.Question)
	if q == nil || q.People {
		return
	}
	q.People = true
	d.told.People, d.told.Due = q.name(), c.Due
	b := appendText([]byte(`{"schema":"backend.asked.v1","asked":{"id":`), q.name())
	b = appendText(append(b, `,"kind":`...), q.Kind)
	if b = append(b, `,"due":`...); c.Due == 0 {
		b = append(b, "null"...)
	} else {
		b = appendInt(b, c.Due)
	}
	d.status(out, "people asked", append(b, "}}"...))
}

// decided remembers who decides a question: the first command that can.
func (d *dialect) decided(c *runs.Command) {
	q := d.question(c.Question)
	if q == nil || q.By != "" || len(c.By) > runs.MaxBy {
		return
	}
	fits := c.Option == "" || q.Kind == Form && (c.Option == runs.Accept || c.Option == runs.Decline) ||
		slices.ContainsFunc(q.Options, func(o choice) bool { return o.Hash == hash32(c.Option) })
	if fits {
		q.By, q.Chose = strings.Clone(c.By), hash32(c.Option)
	}
}

// answered maps an answer of the client.
func (d *dialect) answered(m *Message, out *normalizer.Out) {
	i := d.openQuestion(m.RequestID())
	if i < 0 {
		return
	}
	q := d.Asked[i]
	outcome, chosen := q.outcome(m)
	if q.By != "" && q.Kind == Permission && q.Chose != hash32(chosen) { // a cancel came before the command
		q.By = ""
	}
	by := q.decider(outcome)
	if q.By != "" {
		d.by = "by " + q.By
	}
	d.by = strings.TrimPrefix(strings.TrimSuffix(d.by+": "+chosen, ": "), ": ")
	d.told.Outcome, d.told.By = outcome, by
	d.status(out, "answered", answerData(&q, outcome, by))
	d.settle(i, out)
	if c := d.find(q.Call); c != nil && c.Asked && outcome != "allow" { // no update tells of its end
		c.Ended = true
		out.Facts.Closed = c.ID
		f := normalizer.Facet{
			ThreadID: string(d.Session), TurnID: d.turnID(), Kind: c.Kind, Status: "failed", Phase: "fail", ToolName: c.Name,
			UseID: c.ID,
		}
		out.Tool(normalizer.ToolResult, &f)
	}
}

// outcome returns what an answer says, and the option that it chose, as it is in the line.
func (q *question) outcome(m *Message) (outcome, chosen string) {
	if q.Kind == Form {
		switch action := wire.At(m.Result, "action"); {
		case action.Equal("accept"):
			return "submitted", ""
		case action.Equal("decline"):
			return "declined", ""
		}
		return "cancelled", ""
	}
	result := wire.At(m.Result, "outcome")
	if !wire.At(result, "outcome").Equal("selected") {
		return "cancelled", ""
	}
	chosen = wire.At(result, "optionId").Text()
	i := slices.IndexFunc(q.Options, func(c choice) bool { return c.Hash == hash32(chosen) })
	switch {
	case i >= 0 && q.Options[i].Allow:
		return "allow", chosen
	case i >= 0 && q.Options[i].Deny:
		return "deny", chosen
	}
	return "unknown", chosen
}

// decider returns who decided: person, policy, timeout or cancel; "": the log does not tell.
func (q *question) decider(outcome string) string {
	switch q.By {
	case "":
		if outcome == "cancelled" {
			return "cancel"
		}
		return ""
	case runs.ByPolicy, runs.ByTimeout:
		return q.By
	case runs.ByLimit:
		return "cancel"
	}
	return "person"
}

func answerData(q *question, outcome, by string) []byte {
	b := appendText([]byte(`{"schema":"backend.answer.v1","answer":{"id":`), q.name())
	b = appendText(append(b, `,"outcome":`...), outcome)
	b = appendText(append(b, `,"by":`...), by)
	return append(b, "}}"...)
}

// withdraw maps that a question needs no answer any more; i is its index, and by says whose doing that
// is: the agent's, or unknown.
func (d *dialect) withdraw(i int, by string, out *normalizer.Out) {
	if i < 0 {
		return
	}
	d.told.Outcome, d.told.By = "cancelled", by
	d.status(out, "question withdrawn", answerData(&d.Asked[i], "cancelled", by))
	d.settle(i, out)
}

func (d *dialect) withdrawAll(by string, out *normalizer.Out) {
	for len(d.Asked) > 0 {
		if d.Heard {
			d.withdraw(0, by, out)
		} else {
			d.settle(0, out)
		}
	}
}

// settle closes a question.
func (d *dialect) settle(i int, out *normalizer.Out) {
	d.told.Settled = append(d.told.Settled, d.Asked[i].name())
	d.Asked = slices.Delete(d.Asked, i, i+1)
	out.Facts.Resumed = len(d.Asked) == 0
}

// proceeds closes the question that a call waits for: it has ended. With the lines to the agent in the
// log, a tool that has run was not allowed to.
func (d *dialect) proceeds(c *toolCall, out *normalizer.Out) {
	i := slices.IndexFunc(d.Asked, func(q question) bool { return q.Call == c.ID && c.ID != "" })
	switch {
	case i < 0:
	case !d.Heard:
		d.settle(i, out)
	case c.Status == "completed":
		text := "a tool ran without an answer to its question"
		out.Facts.Error, out.Facts.ErrorSource = text, runs.ErrorTop
		d.event(out, normalizer.ErrorMessage(text))
		d.settle(i, out)
	}
}

func hash32(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // never fails
	return h.Sum32()
}
