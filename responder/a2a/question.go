package a2a

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	strict "github.com/go-json-experiment/json"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Questions of live runs: a task that waits for people shows one question at a time,
// the oldest first, and takes its answer as data. Text is never taken for an answer.

// answerData is the member of the data of a message that is an answer.
const answerData = "answer"

// isAnswer reports whether the data of a message is an answer.
func isAnswer(data json.RawMessage) bool { return gjson.GetBytes(data, answerData).Exists() }

// neededBy returns the scope that a message needs before it is read: only to answer takes no right to
// submit. What it does then is checked by [handler.readForTask].
func neededBy(ctx context.Context, q *sdk.SendMessageRequest) string {
	if callsSkill(ctx, q) || q == nil || q.Message == nil || q.Message.TaskID == "" ||
		q.Config != nil && q.Config.PushConfig != nil {
		return scopeSubmit
	}
	for i, p := range q.Message.Parts {
		if p == nil || p.Data() == nil {
			continue
		}
		if data, err := dataOf(ctx, i, p); err == nil && isAnswer(data) {
			return scopeAnswer
		}
	}
	return scopeSubmit
}

// question returns the oldest question that a run asks people, for a caller who may
// answer it; nil: there is none, or this caller may not.
func (h *handler) question(ctx context.Context, v runs.Header, record *runs.Record) (*api.Question, error) {
	if len(v.Questions) == 0 || record == nil || !h.allows(ctx, scopeAnswer) {
		return nil, nil
	}
	q, err := h.Service.QuestionOf(ctx, record, v.Questions[0])
	if err != nil {
		return nil, h.explain("read a question", err)
	}
	return q, nil
}

// asks returns a question as text. What the agent says is behind a label, or indented, so that it cannot pass for the
// answers.
func asks(q *api.Question) string {
	lines := []string{q.Agent + " asks (" + q.Kind + " " + q.ID + "): " + responder.OneLine(q.Title)}
	for _, s := range []struct{ label, text string }{{"Command", q.Command}, {"Input", q.Input}, {"Text", q.Text}} {
		if s.text != "" {
			lines = append(lines, responder.Labelled(s.label, s.text))
		}
	}
	for _, f := range q.Files {
		lines = append(lines, "File: "+responder.OneLine(f.Path))
	}
	if q.Cut {
		lines = append(lines, "This is not all: to allow it takes the digest of the whole request.")
	}
	return strings.Join(append(lines, "Answer: "+strings.Join(choices(q), ", ")), "\n")
}

// choices returns what a question can be answered with, for people.
func choices(q *api.Question) (all []string) {
	if q.Kind == api.KindForm {
		return []string{"content, as the schema in fields says", runs.Decline, "cancel"}
	}
	for _, o := range q.Options {
		all = append(all, responder.OneLine(o.ID)+" ("+responder.OneLine(o.Name)+")")
	}
	return all
}

// refuseText refuses a message for a task that asks people, which is no answer.
func (h *handler) refuseText(ctx context.Context, v runs.Header, record *runs.Record) error {
	q, err := h.question(ctx, v, record)
	if err != nil {
		return err
	}
	why := "the task waits for the answer to question " + v.Questions[0] + ", and text is none: it takes a data part " +
		`{"answer": {"question": "` + v.Questions[0] + `", "option": …}} and the scope ` + scopeAnswer
	if q != nil {
		why += "; the options are " + strings.Join(choices(q), ", ")
	}
	return fail(sdk.ErrUnsupportedOperation, why)
}

// answerOf reads the data of an answer.
func answerOf(run string, text bool, data json.RawMessage) (a api.AnswerRequest, err error) {
	var said struct {
		Answer struct {
			Question string          `json:"question"`
			Option   string          `json:"option"`
			Content  json.RawMessage `json:"content"`
			Digest   string          `json:"digest"`
		} `json:"answer"`
	}
	err = strict.Unmarshal(data, &said, strict.RejectUnknownMembers(true))
	switch {
	case err != nil: // it may quote what was sent
		return a, fail(sdk.ErrInvalidParams,
			`message.parts: the data of an answer must be {"answer": {question, option, content, digest}}`)
	case text:
		return a, fail(sdk.ErrInvalidParams, "message.parts: an answer is data alone: text is not passed on")
	case said.Answer.Question == "":
		return a, fail(sdk.ErrInvalidParams, "answer.question: is required")
	}
	return api.AnswerRequest{Request: run, Question: said.Answer.Question, Option: said.Answer.Option,
		Content: said.Answer.Content, Digest: said.Answer.Digest}, nil
}

// decide gives an answer.
func (h *handler) decide(a api.AnswerRequest) order {
	return func(ctx context.Context) (func(runs.Header) bool, error) {
		_, err := h.Service.Decide(ctx, a)
		return asksAnew(a.Question), h.undecided(err)
	}
}

// undecided is the error of an answer for callers.
func (h *handler) undecided(err error) error {
	e := api.Known(err)
	switch {
	case err == nil:
		return nil
	case e.Code == api.Validation && e.Field != "":
		return fail(sdk.ErrInvalidParams, "answer."+e.Error())
	case e.Code == api.NotFound:
		return fail(sdk.ErrInvalidParams, "answer.question: "+e.Message)
	case e.Code == api.Ended:
		return fail(sdk.ErrUnsupportedOperation, e.Message)
	}
	return h.explain("answer", err)
}
