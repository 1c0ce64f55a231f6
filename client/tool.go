package client

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
)

// Tools returns the tools of the responder: those of a set, agents, live, local, adcp or all. It retries while no
// responder answers, for up to 30 s.
func (c *Client) Tools(ctx context.Context, set string) (api.Tools, error) {
	p := patience{met: true}
	for {
		all, err := api.OpTools.Call(ctx, c, api.ToolsRequest{Set: set})
		if err == nil {
			return all, nil
		}
		if err := p.wait(ctx, err); err != nil {
			if errors.Is(err, ErrNoResponder) {
				e := unanswered(ErrNoResponder)
				e.Message += ": is one running that is not older than this program?"
				return all, e
			}
			return all, err
		}
	}
}

// Tool calls a tool, and reports its progress, unless that is nil, from the goroutine of the call. If ctx
// ends, so does the call; the run that it waits for continues.
//
// A call that was not carried out is sent again, for up to 30 s. So is one whose answer was lost, if repeat is
// set: because the tool changes nothing, or the arguments have an idempotency key. Otherwise the error is
// [api.OutcomeUnknown].
func (c *Client) Tool(
	ctx context.Context, q api.ToolRequest, repeat bool, progress func(api.ToolProgress),
) (api.ToolAnswer, error) {
	q.Progress = progress != nil
	asking, cancel, until := ctx, func() {}, time.Time{}
	if q.Patience > 0 {
		until = time.Now().Add(time.Duration(q.Patience) * time.Second)
		asking, cancel = context.WithDeadline(ctx, until.Add(answerTime/3))
	}
	defer cancel()
	p := patience{met: true}
	for {
		begun := time.Now()
		a, err := c.tool(asking, q, progress)
		if err == nil {
			return a, nil
		}
		undone := errors.Is(err, ErrNoResponder) || errors.Is(err, errNotSent) || api.Is(err, api.TooMany)
		switch lost := api.Is(err, api.Unavailable) && !undone && !errors.Is(err, ErrDenied); {
		case ctx.Err() != nil:
			return a, ctx.Err()
		case lost && !repeat:
			return a, &api.Error{Code: api.OutcomeUnknown, Err: err,
				Message:    "the answer was lost, and the call may have been carried out: " + err.Error(),
				Suggestion: "Look at the state of the tasks before the call is repeated"}
		case asking.Err() != nil:
			return a, err
		case lost && time.Since(begun) > maxResponderOutage:
			p.answered() // it was carried out for a while
		}
		if err := p.wait(asking, err); err != nil {
			return a, err
		}
		if q.Patience > 0 {
			q.Patience = max(wholeSeconds(time.Until(until)), 1)
		}
	}
}

// tool is one attempt of Tool.
func (c *Client) tool(ctx context.Context, q api.ToolRequest, progress func(api.ToolProgress)) (api.ToolAnswer, error) {
	body, err := encodeTool(q)
	if err != nil {
		return api.ToolAnswer{}, api.Invalid("request", "is no JSON")
	}
	if why := c.bus.TooLarge(len(body)); why != "" {
		return api.ToolAnswer{}, api.Invalid("arguments", why)
	}
	a, err := c.bus.Hold(ctx, "tool", body, func(part []byte) {
		var p api.ToolProgress
		if progress != nil && json.Unmarshal(part, &p) == nil {
			progress(p)
		}
	})
	if err != nil {
		e := unanswered(err)
		if errors.Is(err, context.DeadlineExceeded) {
			e.Message = "the responder gave no answer in time"
		}
		return api.ToolAnswer{}, e
	}
	if a.Type == "" { // no tool answered
		e := &api.Error{}
		if json.Unmarshal(a.Body, e) != nil || e.Code == "" {
			e = errForm()
		}
		return api.ToolAnswer{}, e
	}
	return api.ToolAnswer{Text: a.Body, JSON: a.Type == api.TypeJSON, IsError: a.Failed}, nil
}

// encodeTool is the JSON of a call, with the arguments as they are: encoders change white space and escapes.
func encodeTool(q api.ToolRequest) ([]byte, error) {
	args := q.Arguments
	q.Arguments = nil
	body, err := bounds.Encode(q)
	if err != nil || len(args) == 0 {
		return body, err
	}
	body = append(body[:len(body)-1], `,"arguments":`...)
	return append(append(body, args...), '}'), nil
}
