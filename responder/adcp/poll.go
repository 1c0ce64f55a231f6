package adcp

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Summary describes the state of a run in one line; the record may be nil.
func Summary(v runs.Header, record *runs.Record) string {
	switch {
	case len(v.Questions) > 0:
		return Needs(v.Questions[0])
	case v.State == runs.StateQueued:
		return "Queued, " + strconv.Itoa(v.Before()) + " before it"
	case !v.State.Final() && v.Activity != "":
		return v.Activity
	case record != nil:
		return record.Summary()
	}
	return "The task is " + string(v.State)
}

// Needs is all that callers read of a question who may not answer it.
func Needs(question string) string { return "The task needs an answer to question " + question }

// Outcome returns the envelope of a run that has ended: the result as the tools answer it, and what their contract has
// no place for: the agent, its version, and the tokens and the cost of the run. It has no output of the agent.
func Outcome(ctx context.Context, s *responder.Service, record *runs.Record, at runs.Time) (Response, error) {
	body, failed, err := result(ctx, s, record)
	if err != nil {
		return Response{}, err
	}
	spent := record.Spent()
	more := runs.Encode(struct {
		Agent   string       `json:"agent"`
		Version string       `json:"agent_version,omitempty"`
		Usage   runs.Spent   `json:"usage,omitzero"`
		Cost    *float64     `json:"cost_usd,omitempty"`
		Models  []runs.Model `json:"models,omitempty"`
	}{record.Agent, record.Version, spent, spent.Cost, spent.Models})
	a := ofRun(record)
	a.At, a.Error, a.Body = at, failed, slices.Concat(body[:len(body)-1], []byte{','}, more[1:])
	return a, nil
}

// polled are the members of the contract's tasks-get-response beside those of the envelope. Its protocol is none of the
// contract, which lists those of advertising only.
type polled struct {
	Type      string          `json:"task_type"`
	Protocol  string          `json:"protocol"`
	Created   runs.Time       `json:"created_at"`
	Updated   runs.Time       `json:"updated_at"`
	Completed runs.Time       `json:"completed_at,omitzero"`
	Webhook   bool            `json:"has_webhook"`
	Progress  *progress       `json:"progress,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *Error          `json:"error,omitempty"`
	Question  *api.Question   `json:"question,omitempty"` // what a live run asks people
}

type progress struct {
	Percent int    `json:"percentage"`
	Current string `json:"current_step,omitempty"`
	Total   int    `json:"total_steps"`
	Number  int    `json:"step_number"` // from 1
}

// Poll returns the state of a run, on request with its result, in a release. It succeeds whatever the run did: the
// error of a run that failed is in error, and in the result.
func Poll(ctx context.Context, s *responder.Service, v runs.Header, release string, withResult bool) (a Response,
	err error) {
	record, err := s.Record(ctx, v.ID)
	switch {
	case err == nil:
		v = responder.Newer(v, record)
	case !api.Is(err, api.NotFound): // else it is not recorded yet
		return a, err
	default:
		record = nil
	}
	a = Response{
		Status: StatusOf(v.State), TaskID: v.ID, ContextID: v.Labels.Context(v.Thread),
		Message: Summary(v, record), Governance: v.Governance,
	}
	if record != nil {
		a.Governance = record.Governance
	}
	p := polled{
		Type: s.SubmittedBy(v, record), Protocol: "linesman", Created: v.CreatedAt(), Updated: v.ChangedAt(),
		Completed: v.EndedAt, Progress: progressOf(v),
	}
	if p.Created == 0 { // nothing tells it
		p.Created = api.TimeOf(time.Now())
	}
	p.Updated = max(p.Updated, p.Created)
	if !v.State.Final() {
		p.Completed = 0
	}
	if p.Webhook, err = s.Notifies(ctx, v.ID); err != nil {
		return a, err
	}
	if a.Status == Failed {
		failed := failureOf(record)
		p.Error = &Error{Code: failed.Code, Message: failed.Message}
	}
	if withResult && (a.Status == completed || a.Status == Failed) {
		if record == nil { // it has just ended
			record = &runs.Record{ID: v.ID, Attributes: v.Attributes, State: v.State, Governance: v.Governance}
		}
		result, err := Outcome(ctx, s, record, p.Updated)
		if err != nil {
			return a, err
		}
		result.Release = release
		p.Result = result.Encode()
	}
	if len(v.Questions) > 0 && record != nil && responder.MayAnswer(ctx) {
		if p.Question, err = s.QuestionOf(ctx, record, v.Questions[0]); err != nil {
			return a, err
		}
	}
	a.Body = encode(p)
	return a, nil
}

// progressOf returns the progress by the to-do list of an agent, nil without one.
func progressOf(v runs.Header) *progress {
	plan := v.Plan()
	if plan.Total == 0 {
		return nil
	}
	p := &progress{Total: plan.Total, Number: min(plan.Done+1, plan.Total), Percent: 100 * plan.Done / plan.Total}
	if len(v.Questions) == 0 { // else what it does is what it asks
		p.Current = v.Activity
	}
	if v.Steps != nil {
		p.Percent = v.Steps.Percent
	}
	return p
}
