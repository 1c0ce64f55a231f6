package client

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Envelope is the answer of a tool.
type Envelope struct {
	Body  []byte     // JSON of the v3.6 contract, as it came
	Run   string     // that it is about; "": none, or several
	State runs.State // of that run, where the answer has it
}

// Tool calls a tool of the v3.6 contract, such as _codex_local_status, with its
// arguments, which are encoded as JSON. An error that the tool answers is an
// [*api.Error] with the fields as the tool calls them, and comes with its
// envelope; without an answer the envelope has no body.
//
// The methods for single requests are simpler to use. Tool is for programs that
// pass envelopes on.
func (c *Client) Tool(ctx context.Context, name string, args any) (Envelope, error) {
	body, _, err := c.ask(ctx, name, args, answerTime)
	if err != nil {
		return Envelope{}, err
	}
	var e struct {
		Status string
		Data   json.RawMessage
		Error  *problem
	}
	if err := json.Unmarshal(body, &e); err != nil || e.Status != "ok" && e.Error == nil {
		return Envelope{}, errForm()
	}
	if e.Error != nil {
		return Envelope{Body: body}, e.Error.err()
	}
	var data struct {
		TaskID string `json:"task_id"`
		State  any
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return Envelope{}, errForm()
	}
	state, _ := data.State.(string)
	return Envelope{Body: body, Run: data.TaskID, State: runs.State(state)}, nil
}

// RunTool is [Client.Tool] with the tool of a verb, such as status, for a run: those
// for runs of Codex Cloud have names of their own. If run is empty it is the tool
// for runs on this machine, and the arguments name no run.
func (c *Client) RunTool(ctx context.Context, verb, run string, args map[string]any) (Envelope, error) {
	prefix, key := "_codex_local_", "task_id"
	if strings.HasPrefix(run, "T-cloud-") {
		prefix = "_codex_cloud_"
		if verb == "status" || verb == "results" {
			key = "taskId"
		}
	}
	all := map[string]any{}
	maps.Copy(all, args)
	if run != "" {
		all[key] = run
	}
	return c.Tool(ctx, prefix+verb, all)
}

// AgentOf returns the agent of a submission: the one that it names, else that of the thread
// to resume, else [api.DefaultAgent]. [Client.SubmitEnvelope] is for the last one only.
func (c *Client) AgentOf(ctx context.Context, q api.Submission) (string, error) {
	if q.Agent != "" || q.Thread == "" {
		return cmp.Or(q.Agent, api.DefaultAgent), nil
	}
	page, err := c.List(ctx, api.List{Thread: q.Thread, Limit: 1})
	if err != nil || len(page.Runs) == 0 {
		return api.DefaultAgent, err
	}
	return page.Runs[0].Agent, nil
}

// SubmitEnvelope is [Client.Submit] by the tool that answers with an envelope. The tools
// are those of Codex: the agent of q is not read.
func (c *Client) SubmitEnvelope(ctx context.Context, q api.Submission) (Envelope, error) {
	args := map[string]any{"task": q.Prompt, "mode": q.Mode}
	set := func(name string, value any, given bool) {
		if given {
			args[name] = value
		}
	}
	set("confirm", true, q.Confirm)
	set("model", q.Model, q.Model != "")
	set("outputSchema", q.Schema, q.Schema != nil)
	set("idleTimeoutSec", q.Idle, q.Idle > 0)
	set("timeoutSec", q.Hard, q.Hard > 0)
	if q.Thread != "" {
		args["threadId"] = q.Thread
		return c.Tool(ctx, "_codex_local_resume", args)
	}
	args["async"], args["workingDir"], args["envPolicy"] = true, q.Dir, q.Env.Policy
	set("skipGitRepoCheck", true, q.SkipGit)
	set("envAllowList", q.Env.Allow, q.Env.Allow != nil)
	return c.Tool(ctx, "_codex_local_run", args)
}

// problem is the error of an envelope.
type problem struct {
	Code      string
	Message   string
	Retryable bool
	Details   struct {
		Field  string
		Issues []struct {
			Field   string
			Problem string
			Meant   string `json:"did_you_mean"`
		}
		Unlisted    int    `json:"issues_unlisted"`
		TaskID      string `json:"task_id"`
		State       string
		TimeoutType string `json:"timeout_type"`
		Reason      string
		Suggestion  string
		WebURL      string `json:"web_ui_url"`
	}
}

// err is the problem as an error of package api. The v3.6 contract has fewer
// codes: a conflict with the state of a run is [api.Validation] with that state.
func (p *problem) err() error {
	d := p.Details
	e := &api.Error{
		Code: api.Code(p.Code), Message: p.Message, Field: d.Field, Suggestion: d.Suggestion, Unlisted: d.Unlisted,
		Run: d.TaskID, State: runs.State(d.State), Reason: d.Reason, Limit: d.TimeoutType, WebURL: d.WebURL,
		Retryable: p.Retryable,
	}
	if p.Code == "TOOL_ERROR" {
		e.Code = api.ProgramFailed
	}
	if d.Field != "" {
		e.Message = strings.TrimPrefix(p.Message, d.Field+": ")
	}
	for _, i := range d.Issues {
		e.Issues = append(e.Issues, api.Issue{Field: i.Field, Problem: i.Problem, Meant: i.Meant})
	}
	return e
}
