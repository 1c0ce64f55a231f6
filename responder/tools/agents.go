package tools

import (
	"context"
	"crypto/sha256"
	"slices"
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
				Name: api.ToolAgentWait, Title: "Wait for a run", Hints: reading,
				Description: "Waits until a run has ended, and returns its outcome: the agent's answer, changed files, tests, " +
					"tokens, error; or until its agent asks people. If it has not ended in time, the state is not final: " +
					"call again.",
			},
			reads: true, act: (*call).agentWait,
			params: waitParams,
		},
		{
			Tool: v36.Tool{
				Name: api.ToolAgentAnswer, Title: "Answer a question", Hints: v36.Hints{Destructive: true, Idempotent: true},
				Description: "Answers a question of a run, which may allow a command. A person decides it: ask your user, " +
					"unless you were told to decide. The first answer counts.",
			},
			reads: true, act: (*call).agentAnswer,
			params: []request.Param{
				request.AgentRefParam,
				request.Text("question", maxQuestion, "Its id; default: the only one that is open."),
				request.Text("option", maxOption, "Id of an option, or allow or deny; of a form decline or cancel."),
				request.Object("content", runs.MaxContent, "Of a form: what its fields ask for."),
				request.Text("digest", sha256.Size*2, "That of the question; required if it is cut, and the user has read all "+
					"of it."),
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

var waitParams = []request.Param{
	request.AgentRefParam,
	request.Integer("timeout_seconds", 1, 3600, api.AgentWaitSeconds,
		"How long to wait. Without a progressToken it is at most 50."),
	request.Names(knownQuestions, maxKnown,
		"Ids of open questions that others answer: the wait ends when other ones are open."),
}

// The parameter of a wait with the questions that do not end it, and limits: of their number, and of texts in bytes.
const (
	knownQuestions = "known_questions"
	maxKnown       = 16
	maxQuestion    = 64
	maxOption      = 4096
)

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

// agentWait waits for the end of a run, or until its open questions are others than those that the caller knows. If
// the time is over before, it answers with the state of the run, which is not an error.
func (c *call) agentWait(ctx context.Context) (outcome, error) {
	v, err := c.agentRef(ctx)
	if err != nil {
		return outcome{}, err
	}
	v, err = c.await(ctx, v, c.asksOthers)
	switch {
	case err != nil:
		return outcome{}, err
	case v.State.Final():
		return c.agentResult(ctx, v, api.ResultRequest{NoOutput: true})
	}
	return c.agentAsks(ctx, api.Asking{Run: responder.Summarize(v)},
		"The run has not ended yet. Call _agent_wait again with this run, or _agent_cancel to end it.")
}

// await waits for the end of a run or for a state before it, as long as the call has time, and returns the last state.
func (c *call) await(ctx context.Context, v runs.Header, is func(runs.Header) bool) (runs.Header, error) {
	waiting, cancel := context.WithTimeout(ctx, c.patience(ctx, c.args.Number("timeout_seconds")))
	defer cancel()
	now, err := c.follow(waiting, v.ID, is)
	if err != nil && !now.State.Final() && waiting.Err() == nil {
		return v, err
	}
	if now.ID != "" {
		v = now
	}
	return v, nil
}

// asksOthers reports whether the open questions of a run are others than those that the caller knows.
func (c *call) asksOthers(v runs.Header) bool {
	known := slices.Sorted(slices.Values(c.args.Names(knownQuestions)))
	return !slices.Equal(slices.Sorted(slices.Values(v.Questions)), known)
}

// agentAsks returns the state of a run that has not ended, with its open questions. Next is for callers if there are
// none.
func (c *call) agentAsks(ctx context.Context, out api.Asking, next string) (outcome, error) {
	switch {
	case len(out.Questions) == 0 || ctx.Err() != nil: // then nobody reads it
		return outcome{plain: out, next: next}, nil
	case !responder.MayAnswer(ctx):
		return outcome{plain: out, next: "People are asked; you may not answer. Tell your user, and call " + c.tool.Name +
			" with these questions as known_questions."}, nil
	}
	open, err := c.service.Waiting(ctx, api.QuestionsRequest{Request: out.ID})
	if err != nil && !api.Is(err, api.NotFound) { // none is open any more
		return outcome{}, err
	}
	if len(open.Unread) > 0 {
		return outcome{}, &api.Error{Code: api.Internal, Run: out.ID, Message: "the questions of the run cannot be read: " +
			"its record is damaged"}
	}
	out.Asked, out.Unlisted = open.Requests, open.Unlisted
	return outcome{plain: out, next: "Show your user what is asked, and call _agent_answer with the answer; decide it " +
			"yourself only if you were told to. If others answer: " + c.tool.Name + " with these questions as known_questions."},
		nil
}

// agentAnswer answers a question.
func (c *call) agentAnswer(ctx context.Context) (outcome, error) {
	if !responder.MayAnswer(ctx) {
		return outcome{}, &api.Error{Code: api.Unsupported, Message: "this token may not answer: it lacks the scope answer"}
	}
	v, err := c.agentRef(ctx)
	if err != nil {
		return outcome{}, err
	}
	done, err := c.service.Decide(ctx, api.AnswerRequest{
		Request: v.ID, Question: c.args.Text("question"), Option: c.args.Text("option"), Content: c.args.Raw("content"),
		Digest: c.args.Text("digest"),
	})
	if err != nil {
		return outcome{}, c.args.Name(err)
	}
	return outcome{plain: done, next: "Wait again for this run."}, nil
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
