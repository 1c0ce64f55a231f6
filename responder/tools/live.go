package tools

import (
	"context"
	"fmt"
	"slices"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// liveTools are the tools for live runs: conversations with agents of every kind. Questions are answered by the same
// tool as those of other runs, which is one of the agents'.
func liveTools(limits string, agents []*tool) []*tool {
	change := v36.Hints{Destructive: true, Idempotent: true}
	answer := slices.IndexFunc(agents, func(t *tool) bool { return t.Name == api.ToolAgentAnswer })
	return []*tool{
		{
			Tool: v36.Tool{
				Name: "_agent_live_start", Title: "Start a live run", Hints: working,
				Description: "Starts a conversation with a coding agent, and answers at once with the id of the run. The agent " +
					"may ask people while it works. Then call _agent_live_wait. " + limits,
			},
			reads: true, params: request.LiveStartParams, check: (*call).readTask, act: (*call).liveStart,
		},
		{
			Tool: v36.Tool{
				Name: "_agent_live_send", Title: "Send a message", Hints: working,
				Description: "Sends a message to the agent of a live run. It waits until the turn that runs has ended. Then " +
					"call _agent_live_wait.",
			},
			reads: true, act: (*call).liveSend,
			params: []request.Param{
				request.AgentRefParam,
				{Name: "text", Required: true, Max: runs.MaxMessage, Any: true, Lines: true,
					About: "The message, at most 256 KiB."},
				request.Choice("when", "next", "now: cancel the turn that runs, and send this message first.",
					"next", runs.WhenNow),
				request.KeyParam,
			},
		},
		{
			Tool: v36.Tool{
				Name: api.ToolLiveWait, Title: "Wait for a turn", Hints: reading,
				Description: "Waits until the agent of a live run has ended its turn, and returns what it said (finalText); or " +
					"until it asks people. If neither has come in time, reached is absent: call again.",
			},
			reads: true, act: (*call).liveWait,
			params: slices.Concat(waitParams, []request.Param{
				request.Choice("until", api.UntilInput, "input: the end of the turn, or a question. turn: the end of the turn; "+
					"others answer. end: the end of the run.", api.UntilInput, api.UntilTurn, api.UntilEnd),
				request.Integer("after", 1, 1<<53-1, 0, "entry of the answer of _agent_live_send: not before its turn."),
			}),
		},
		agents[answer],
		{
			Tool: v36.Tool{
				Name: "_agent_live_stop", Title: "Cancel a turn", Hints: change,
				Description: "Cancels the turn of a live run. The run goes on; messages that wait are held until the next one.",
			},
			reads: true, act: (*call).liveStop,
			params: []request.Param{
				request.AgentRefParam,
				request.Integer("turn", 1, 1<<31-1, 0, "Its number; default: the turn that runs."),
				request.KeyParam,
			},
		},
		{
			Tool: v36.Tool{
				Name: "_agent_live_end", Title: "End a live run", Hints: change,
				Description: "Ends a live run after its turn, at once if none runs. Messages that wait are not sent.",
			},
			reads: true, act: (*call).liveEnd, params: []request.Param{request.AgentRefParam},
		},
	}
}

func (c *call) liveStart(ctx context.Context) (outcome, error) {
	done, err := request.Submit(ctx, c.service, c.tool.Name, c.args, c.task)
	if err != nil {
		return outcome{}, err
	}
	v, known := c.service.Get(done.Run)
	if !known { // removed already
		v = responder.Unknown(done.Run)
	}
	return outcome{plain: responder.Summarize(v), next: "Call _agent_live_wait with this run."}, nil
}

func (c *call) liveSend(ctx context.Context) (outcome, error) {
	return c.order(ctx, func(run string) (api.Sent, error) {
		return c.service.Send(ctx, api.SendRequest{
			Run: run, Text: c.args.Text("text"), When: c.args.Text("when"), Key: c.args.Text(request.Key),
		})
	})
}

func (c *call) liveStop(ctx context.Context) (outcome, error) {
	return c.order(ctx, func(run string) (api.Sent, error) {
		return c.service.StopTurn(ctx, api.TurnRequest{
			Run: run, Turn: int(c.args.Number("turn")), Key: c.args.Text(request.Key),
		})
	})
}

func (c *call) liveEnd(ctx context.Context) (outcome, error) {
	out, err := c.order(ctx, func(run string) (api.Sent, error) { return c.service.End(ctx, api.RunRequest{Run: run}) })
	if err == nil {
		out.next = "Call _agent_live_wait with this run and until end."
	}
	return out, err
}

// order carries out a request about a live run, after which one waits for a turn.
func (c *call) order(ctx context.Context, do func(run string) (api.Sent, error)) (outcome, error) {
	v, err := c.agentRef(ctx)
	if err != nil {
		return outcome{}, err
	}
	done, err := do(v.ID)
	if err != nil {
		return outcome{}, c.args.Name(err)
	}
	return outcome{plain: done, next: fmt.Sprintf("Call _agent_live_wait with this run and after %d.", done.Entry)}, nil
}

// liveWait waits for the end of a turn, until people are asked, or for the end of the run.
func (c *call) liveWait(ctx context.Context) (outcome, error) {
	v, err := c.agentRef(ctx)
	if err != nil {
		return outcome{}, err
	}
	reached := responder.Reached(api.WaitRequest{Until: c.args.Text("until"), After: uint64(c.args.Number("after"))})
	v, err = c.await(ctx, v, func(v runs.Header) bool {
		if c.asksOthers(v) { // a known question was decided, or a new one is open
			return len(c.args.Names(knownQuestions)) > 0 || reached(v)
		}
		return len(v.Questions) == 0 && reached(v)
	})
	if err != nil {
		return outcome{}, err
	}
	record, err := c.service.Record(ctx, v.ID)
	switch {
	case err == nil:
		v = responder.Newer(v, record)
	case !api.Is(err, api.NotFound): // not recorded yet
		return outcome{}, err
	}
	if v.State.Final() {
		return c.agentResult(ctx, v, api.ResultRequest{NoOutput: true})
	}
	out := api.Asking{Run: responder.Describe(v, record), Reached: reached(v)}
	next := "Not yet. Call _agent_live_wait again with the same arguments."
	switch {
	case out.Reached && out.Detail != nil && out.Conversation != nil && out.Conversation.Held:
		next = "The turn was not completed, so what waits is held until the next message: call _agent_live_send, or " +
			"_agent_live_end."
	case out.Reached:
		next = "The turn has ended. Call _agent_live_send with the next message, or _agent_live_end."
	}
	return c.agentAsks(ctx, out, next)
}
