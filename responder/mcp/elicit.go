package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// The user of a client that has the capability elicitation is asked what the agent of a run asks, while the client
// waits for that run. This is between the client and the tools, wherever they are: the answer of
// [api.ToolAgentWait] or [api.ToolLiveWait] has the questions, and [api.ToolAgentAnswer] takes the answer.

// elicits is the first revision with elicitation.
const elicits = "2025-06-18"

// maxState bounds a requestState, in bytes.
const maxState = 4 << 10

// waiter is a call of one of the two waits by a client that can ask its user.
type waiter struct {
	tools    toolSet
	args     waitArgs
	req      *sdk.CallToolRequest
	progress func(v36.Progress)
	until    time.Time
	asked    map[string]bool // questions that the user was asked
}

// waitArgs are arguments of a wait, in both spellings, as far as they are needed here.
type waitArgs struct {
	Seconds  float64         `json:"timeout_seconds"`
	Seconds2 float64         `json:"timeoutSeconds"`
	Until    json.RawMessage `json:"until"`
	After    json.RawMessage `json:"after"`
}

// waiter returns nil if the client cannot ask its user, or has no tool to answer.
func (s *server) waiter(ctx context.Context, req *sdk.CallToolRequest, progress func(v36.Progress)) *waiter {
	can := req.ClientCapabilities()
	waits := req.Params.Name == api.ToolAgentWait || req.Params.Name == api.ToolLiveWait
	if !waits || s.known[api.ToolAgentAnswer].Name == "" || req.ProtocolVersion() < elicits || can == nil ||
		can.Elicitation == nil || can.Elicitation.Form == nil && can.Elicitation.URL != nil {
		return nil
	}
	var args waitArgs
	_ = json.Unmarshal(req.Params.Arguments, &args)
	most := time.Duration(min(cmp.Or(args.Seconds, args.Seconds2, api.AgentWaitSeconds), 3600) * float64(time.Second))
	if patience, bounded := responder.Patience(ctx); bounded {
		most = min(most, patience)
	}
	return &waiter{
		tools: s.tools, args: args, req: req, progress: progress, until: time.Now().Add(most), asked: map[string]bool{},
	}
}

// result asks the user what an answer of the wait has, and returns that of the whole call.
func (w *waiter) result(ctx context.Context, a v36.Answer) *sdk.CallToolResult {
	for ctx.Err() == nil && time.Now().Before(w.until) { // a client that has left hears nothing more
		run, open := asking(a)
		if !open {
			break
		}
		fresh := w.fresh(run)
		switch {
		case len(fresh) > 0 && w.req.ProtocolVersion() >= stateless:
			return required(run.ID, fresh)
		case len(fresh) > 0:
			a = w.put(ctx, fresh[0], a)
		case len(run.Questions) > 0, run.Reached: // the user has not decided, or the turn has ended
			return result(a)
		default: // all are decided
			a = w.wait(ctx, run.ID, nil)
		}
	}
	return result(a)
}

// asking returns what an answer of the wait tells of a run that has not ended.
func asking(a v36.Answer) (run api.Asking, open bool) {
	if a.IsError || json.Unmarshal(a.Envelope, &run) != nil || run.Run == nil || run.State.Final() {
		return run, false
	}
	return run, true
}

// fresh returns the questions that the user was not asked, and can be.
func (w *waiter) fresh(run api.Asking) (fresh []api.Question) {
	for _, q := range run.Asked {
		if !w.asked[q.ID] && form(q, w.req.ProtocolVersion()) != nil {
			fresh = append(fresh, q)
		}
	}
	return fresh
}

// wait waits until other questions than the known ones are open, or the run or the time of the call ends.
func (w *waiter) wait(ctx context.Context, run string, known []string) v36.Answer {
	seconds := max(int64((time.Until(w.until)+time.Second-1)/time.Second), 1)
	args := map[string]any{"run": run, "timeout_seconds": seconds, "known_questions": append([]string{}, known...)}
	if w.args.Until != nil {
		args["until"] = w.args.Until
	}
	if w.args.After != nil {
		args["after"] = w.args.After
	}
	return w.call(ctx, w.req.Params.Name, args, w.progress)
}

func (w *waiter) call(ctx context.Context, tool string, args map[string]any, progress func(v36.Progress)) v36.Answer {
	body, err := json.Marshal(args)
	if err != nil {
		panic(err) // texts, numbers, and JSON that was decoded
	}
	a, err := w.tools.Call(ctx, tool, body, progress)
	if err != nil { // an unknown tool: the list has both
		a.IsError = true
	}
	return a
}

// put asks the user a question, until it is not open any more; a is the answer that has it. It returns the newest
// answer of the wait, which goes on meanwhile.
func (w *waiter) put(ctx context.Context, q api.Question, a v36.Answer) v36.Answer {
	w.asked[q.ID] = true
	eliciting, stop := context.WithCancel(ctx)
	defer stop()
	waiting, end := context.WithCancel(ctx)
	defer end()
	said := make(chan *sdk.ElicitResult, 1)
	go func() {
		r, err := w.req.Session.Elicit(eliciting, form(q, w.req.ProtocolVersion()))
		switch {
		case errors.Is(err, context.Canceled):
			recalled(ctx)
			fallthrough
		case err != nil:
			r = &sdk.ElicitResult{Action: "cancel"}
		}
		said <- r
		end()
	}()
	run, open := asking(a)
	for open && slices.Contains(run.Questions, q.ID) && time.Now().Before(w.until) && waiting.Err() == nil {
		if next := w.wait(waiting, run.ID, run.Questions); waiting.Err() == nil {
			a = next
			run, open = asking(a)
		}
	}
	stop()
	r := <-said
	if r.Action != "accept" {
		return a
	}
	known := run.Questions // that are decided may be open for a moment, in the table of runs
	if !w.answer(ctx, q.Run, q.ID, shown{q.Kind, q.Digest}, r) {
		known = nil
	}
	return w.wait(ctx, q.Run, known)
}

// answer passes on what the user said of the question that was shown. It reports whether that is decided now, by this
// answer or another.
func (w *waiter) answer(ctx context.Context, run, question string, as shown, r *sdk.ElicitResult) bool {
	args := map[string]any{"run": run, "question": question, "digest": as.Digest}
	if as.Kind == api.KindForm {
		args["content"] = r.Content
	} else {
		args["option"] = r.Content[choice]
	}
	a := w.call(ctx, api.ToolAgentAnswer, args, nil)
	return !a.IsError || gjson.GetBytes(a.Envelope, "error.code").String() == string(api.Conflict)
}

// state is what a retry in [stateless] brings back. It is not signed, since it gives no right: what the client says
// becomes a call of [api.ToolAgentAnswer], which the same caller may make.
type state struct {
	Run       string           `json:"run"`
	Questions map[string]shown `json:"questions"` // that the user was asked, by id
}

// shown is what the user was shown.
type shown struct {
	Kind   string `json:"kind"`
	Digest string `json:"digest"` // of the request: the answer is for no other one
}

// required is the result that asks the user of a client in [stateless].
func required(run string, fresh []api.Question) *sdk.CallToolResult {
	asked, r := state{run, map[string]shown{}}, &sdk.CallToolResult{InputRequests: sdk.InputRequestMap{}}
	for _, q := range fresh {
		asked.Questions[q.ID], r.InputRequests[q.ID] = shown{q.Kind, q.Digest}, form(q, stateless)
	}
	r.RequestState = string(runs.Encode(asked))
	return r
}

// readState reads a requestState. Its parts are checked by the tools.
func readState(text string) (asked state, err error) {
	if len(text) > maxState || json.Unmarshal([]byte(text), &asked) != nil || runs.CheckID(asked.Run) != nil {
		return asked, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not one of a wait"}
	}
	return asked, nil
}

// again continues the call of a client in [stateless] with what its user said.
func (w *waiter) again(ctx context.Context, asked state) v36.Answer {
	ids := slices.Sorted(maps.Keys(asked.Questions))
	known := []string(nil)
	for _, id := range ids {
		r, ok := w.req.Params.InputResponses[id].(*sdk.ElicitResult)
		if w.asked[id] = ok; ok && r.Action == "accept" { // without an answer it is asked again
			if known = nil; w.answer(ctx, asked.Run, id, asked.Questions[id], r) {
				known = ids
			}
		}
	}
	return w.wait(ctx, asked.Run, known)
}
