package tools

import (
	"context"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// agentTools are the tools for agents of every kind. They are not in the v3.6 contract: they
// answer with the types of package api, as JSON, and have no category.
func agentTools(limits string) []*tool {
	return []*tool{
		{
			Tool: v36.Tool{
				Name: "_agent_run", Title: "Start an agent", Hints: working,
				Description: "Starts a coding agent on a task in the background, and answers at once with the id of the run. " +
					"Then call _agent_wait. " + limits,
			},
			reads: true, params: request.AgentRunParams, check: (*call).readTask, act: (*call).agentRun,
		},
		{
			Tool: v36.Tool{
				Name: "_agent_status", Title: "Status of a run", Hints: reading,
				Description: "Returns the state of a run, and what its agent is doing, without its output.",
			},
			reads: true, params: []request.Param{request.AgentRefParam}, act: (*call).agentStatus,
		},
		{
			Tool: v36.Tool{
				Name: "_agent_wait", Title: "Wait for a run", Hints: reading,
				Description: "Waits until a run has ended, and returns its outcome: the agent's answer, changed files, tests, " +
					"tokens, error. If it has not ended in time, the state is not final: call again.",
			},
			reads: true, act: (*call).agentWait,
			params: []request.Param{
				request.AgentRefParam,
				request.Integer("timeout_seconds", 1, 3600, 300, "How long to wait. Without a progressToken it is at most 50."),
			},
		},
		{
			Tool: v36.Tool{
				Name: "_agent_results", Title: "Results of a run", Hints: reading,
				Description: "Returns the outcome of a run that has ended, and on request what the agent printed.",
			},
			reads: true, act: (*call).agentResults,
			params: []request.Param{request.AgentRefParam, includeParam, maxBytesParam},
		},
		{
			Tool: v36.Tool{
				Name: "_agent_cancel", Title: "Cancel a run", Hints: v36.Hints{Destructive: true, Idempotent: true},
				Description: "Ends a run: a queued one is never started, a running one is ended with its process group.",
			},
			reads: true, params: request.AgentCancelParams, act: (*call).agentCancel,
		},
		{
			Tool: v36.Tool{
				Name: "_agent_list", Title: "List runs", Hints: reading,
				Description: "Lists runs of all agents, the newest first.",
			},
			reads: true, params: request.AgentListParams, act: (*call).agentList,
		},
	}
}

func (c *call) agentRun(ctx context.Context) (outcome, error) {
	done, err := request.Submit(ctx, c.service, c.tool.Name, c.args, c.task)
	if err != nil {
		return outcome{}, err
	}
	return outcome{plain: done, next: "Call _agent_wait with this run."}, nil
}

// agentRef returns the run that a call names.
func (c *call) agentRef(ctx context.Context) (runs.Header, error) {
	id, err := c.service.Resolve(ctx, c.args.Text("run"))
	if err != nil {
		return runs.Header{}, c.args.Name(err)
	}
	return c.service.Look(ctx, id)
}

func (c *call) agentStatus(ctx context.Context) (outcome, error) {
	v, err := c.agentRef(ctx)
	if err != nil {
		return outcome{}, err
	}
	return outcome{plain: responder.Summarize(v)}, nil
}

// agentWait waits for the end of a run. If the time is over before, it answers with the state of
// the run, which is not an error.
func (c *call) agentWait(ctx context.Context) (outcome, error) {
	v, err := c.agentRef(ctx)
	if err != nil {
		return outcome{}, err
	}
	waiting, cancel := context.WithTimeout(ctx, c.patience(ctx, c.args.Number("timeout_seconds")))
	defer cancel()
	now, err := c.follow(waiting, v.ID)
	switch {
	case now.State.Final():
		return c.agentResult(ctx, now, api.ResultRequest{NoOutput: true})
	case waiting.Err() == nil:
		return outcome{}, err
	}
	if now.ID != "" {
		v = now
	}
	return outcome{plain: responder.Summarize(v),
		next: "The run has not ended yet. Call _agent_wait again with this run, or _agent_cancel to end it."}, nil
}

func (c *call) agentResults(ctx context.Context) (outcome, error) {
	v, err := c.agentRef(ctx)
	if err != nil {
		return outcome{}, err
	}
	output := c.args.Flag(includeParam.Name)
	return c.agentResult(ctx, v, api.ResultRequest{
		Output: output, NoOutput: !output, MaxBytes: int(c.args.Number(maxBytesParam.Name)),
	})
}

func (c *call) agentResult(ctx context.Context, v runs.Header, q api.ResultRequest) (outcome, error) {
	r, err := c.service.Result(ctx, v.ID, q)
	if err != nil {
		return outcome{}, c.args.Name(err)
	}
	return outcome{plain: &api.Result{
		Run: responder.Describe(v, r.Record), Output: r.Output, Partial: r.Partial, Basis: r.Basis,
	}}, nil
}

func (c *call) agentCancel(ctx context.Context) (outcome, error) {
	v, err := c.agentRef(ctx)
	if err != nil {
		return outcome{}, err
	}
	done, err := c.service.Cancel(ctx, api.Cancel{Run: v.ID, Reason: c.args.Text("reason")})
	return outcome{plain: done}, c.args.Name(err)
}

func (c *call) agentList(context.Context) (outcome, error) {
	q := api.List{
		Agent: c.args.Text("agent"), Dir: c.args.Text("directory"), Limit: int(c.args.Number("limit")),
		Cursor: c.args.Text("cursor"),
	}
	if state := c.args.Text("state"); state != "" {
		q.States = []runs.State{runs.State(state)}
	}
	page, err := c.service.List(q)
	if err != nil {
		return outcome{}, c.args.Name(err)
	}
	answer := &api.RunPage{Runs: []*api.Run{}, Next: page.Next}
	for _, v := range page.Runs {
		answer.Runs = append(answer.Runs, responder.Summarize(v))
	}
	return outcome{plain: answer}, nil
}

// patience is how long a call waits that asks for a number of seconds.
func (c *call) patience(ctx context.Context, asked int64) time.Duration {
	wait := time.Duration(asked) * time.Second
	if most, bounded := responder.Patience(ctx); bounded {
		wait = min(wait, most)
	}
	return wait
}
