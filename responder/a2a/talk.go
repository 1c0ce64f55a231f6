package a2a

import (
	"cmp"
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

// Messages for the task of a live run that is kept: each is a turn of its agent.

// endData is the member of the data of a message that ends a run.
const endData = "end"

// kept reports whether a run takes messages until it has ended.
func kept(record *runs.Record) bool { return record != nil && record.Live != nil && record.Live.Keep }

// talkIn reads a message for a run of a context, if that is kept: the one that it was sent to, or the newest one, which
// is open, or has ended since it was sent there. Nil: it is for none.
func (h *handler) talkIn(ctx context.Context, m *sdk.Message, texts []string, data json.RawMessage) (*message, error) {
	sentTo, err := h.Service.RunOf(ctx, keyOf(m.ID))
	if err != nil {
		return nil, h.unsent(err)
	}
	v, ok := h.Service.Get(sentTo)
	if !ok || !h.Service.InContext(v, m.ContextID) {
		v, ok = h.Service.Get(m.ContextID)
		if !ok || v.State.Final() {
			v, ok = h.Service.Thread(cmp.Or(v.Thread, m.ContextID))
		}
	}
	if !ok {
		return nil, nil
	}
	v, record, err := h.record(ctx, v)
	switch {
	case err != nil || !kept(record):
		return nil, err
	case v.State.Final():
		return h.sentBefore(ctx, v, m, texts)
	case isAnswer(data):
		return nil, fail(sdk.ErrInvalidParams, "message.taskId: is required for an answer")
	}
	return h.readForTask(ctx, m, v, texts, data)
}

// sentBefore reads a message that a run that has ended already has. Nil: it has not.
func (h *handler) sentBefore(ctx context.Context, v runs.Header, m *sdk.Message, texts []string) (*message, error) {
	if _, err := h.sendOnce(ctx, textOf(v.ID, m, texts)); err != nil {
		if api.Is(err, api.Ended) || api.Is(err, api.Validation) { // it was not sent
			err = nil
		}
		return nil, h.unsent(err)
	}
	return &message{run: v.ID, do: carriedOut, context: m.ContextID, again: true}, nil
}

// carriedOut is what is left to do for a message that was carried out before.
func carriedOut(context.Context) (func(runs.Header) bool, error) { return asksAnew(""), nil }

// textOf is a message for the agent of a run.
func textOf(run string, m *sdk.Message, texts []string) api.SendRequest {
	return api.SendRequest{Run: run, Text: strings.Join(texts, "\n\n"), Key: keyOf(m.ID), Unique: true}
}

// readForTask reads a message for a task: an answer to a question of its run, a message for the agent of a run that is
// kept, or its end. All others are refused: a task has only its first one.
func (h *handler) readForTask(
	ctx context.Context, m *sdk.Message, v runs.Header, texts []string, data json.RawMessage,
) (*message, error) {
	v, record, err := h.record(ctx, v)
	if err != nil {
		return nil, err
	}
	out := &message{run: v.ID, context: m.ContextID, keeps: kept(record)}
	answers, scope := isAnswer(data) && record != nil && record.Live != nil, scopeSubmit
	if answers {
		scope = scopeAnswer
	}
	switch {
	case !h.allows(ctx, scope):
		return nil, lacks(scope)
	case m.TaskID != "" && m.ContextID != "" && m.ContextID != v.ID && !strings.EqualFold(m.ContextID, v.Thread):
		return nil, fail(sdk.ErrInvalidParams, "message.contextId: is not that of the task")
	case answers: // also after the end: the same one again is no error
		var a api.AnswerRequest
		a, err = answerOf(v.ID, len(texts) > 0, data)
		out.do = h.decide(a)
	case v.State.Final():
		if out.keeps && data == nil {
			if out, err = h.sentBefore(ctx, v, m, texts); out != nil || err != nil {
				return out, err
			}
		}
		return nil, fail(sdk.ErrUnsupportedOperation, "the task has ended, it is "+string(v.State)+
			": go on in its context, without its taskId")
	case out.keeps && gjson.GetBytes(data, endData).Exists():
		out.do, err = h.endOf(v.ID, len(texts) > 0, data)
	case len(v.Questions) > 0 && out.keeps && data == nil && h.Service.WasSent(ctx, textOf(v.ID, m, texts)):
		out.do, out.again = carriedOut, true
	case len(v.Questions) > 0:
		err = h.refuseText(ctx, v, record)
	case out.keeps && data != nil:
		err = fail(sdk.ErrInvalidParams, `message.parts: a message for the agent is text alone; data is {"answer": …}, or `+
			`{"end": true}`)
	case out.keeps:
		out.do = h.send(textOf(v.ID, m, texts))
	case v.State == runs.StateInputRequired:
		err = fail(sdk.ErrUnsupportedOperation, "the task waits for an answer that does not come over A2A")
	default:
		err = fail(sdk.ErrUnsupportedOperation, "a task takes no message while it is "+string(v.State)+
			": wait for its end, or cancel it")
	}
	if err != nil || !out.keeps {
		return out, err
	}
	last, err := h.Service.LastEvents(ctx, v, textOutput, 1)
	if err != nil {
		return nil, h.explain("read events", err)
	}
	for _, e := range last {
		out.after = e.Seq
	}
	return out, nil
}

// send sends a message to the agent of a run.
func (h *handler) send(q api.SendRequest) order {
	return func(ctx context.Context) (func(runs.Header) bool, error) {
		sent, err := h.sendOnce(ctx, q)
		return responder.Reached(api.WaitRequest{Until: api.UntilInput, After: sent.Entry}), h.unsent(err)
	}
}

func (h *handler) sendOnce(ctx context.Context, q api.SendRequest) (api.Sent, error) {
	return once(ctx, func(ctx context.Context) (api.Sent, error) { return h.Service.Send(ctx, q) })
}

// endOf reads the data of a message that ends a run.
func (h *handler) endOf(run string, text bool, data json.RawMessage) (order, error) {
	var said struct {
		End bool `json:"end"`
	}
	if strict.Unmarshal(data, &said, strict.RejectUnknownMembers(true)) != nil || !said.End || text {
		return nil, fail(sdk.ErrInvalidParams, `message.parts: the end of a run is the data {"end": true} alone`)
	}
	return func(ctx context.Context) (func(runs.Header) bool, error) {
		_, err := h.Service.End(ctx, api.RunRequest{Run: run})
		return func(v runs.Header) bool { return v.State.Final() || len(v.Questions) > 0 }, h.unsent(err)
	}, nil
}

// unsent is the error of a message for a run, for callers.
func (h *handler) unsent(err error) error {
	e := api.Known(err)
	switch {
	case err == nil:
		return nil
	case e.Code == api.Validation && e.Field != "":
		return fail(sdk.ErrInvalidParams, "message.parts: "+e.Error())
	case e.Code == api.Ended:
		return fail(sdk.ErrUnsupportedOperation, e.Message)
	}
	return h.explain("send a message", err)
}
