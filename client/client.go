// Package client drives linesman from a Go program, over NATS: it queues tasks,
// waits for runs, reads their events and results, and ends them. It owns how
// requests are sent and errors come back; what they mean is package api.
//
//	c, err := client.Connect(ctx, client.Config{URL: "nats://127.0.0.1:4222", Creds: "operator.creds"})
//	task, err := c.Submit(ctx, api.Submission{Prompt: "Explain what this package does."})
//	run, err := c.Wait(ctx, api.WaitRequest{Run: task.Run, Timeout: 600})
//	fmt.Println(run.State, run.Summary)
//
// A client reconnects for ever; a request that was on its way when the
// connection broke fails with [api.Unavailable], and may have been carried out:
// give it an idempotency key to repeat it. Its methods may be called from
// several goroutines.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// Client is a connection to linesman.
type Client struct {
	bus *bus.Bus
}

// New returns a client of a connection. The caller closes the connection.
func New(b *bus.Bus) *Client { return &Client{bus: b} }

// answerTime is how long an answer may take, beyond what a request asks to wait.
const answerTime = 30 * time.Second

// call sends a request of a verb and reads its outcome into out. It waits at
// most so long, and no longer than ctx.
func call[A any](ctx context.Context, c *Client, verb string, request any, within time.Duration) (answer A, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return answer, err
	}
	asking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	data, failed, err := c.bus.Call(asking, verb, body)
	switch {
	case err != nil && ctx.Err() != nil:
		return answer, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return answer, &api.Error{
			Code: api.Unavailable, Message: fmt.Sprintf("the responder gave no answer within %s", within), Retryable: true, Err: err,
		}
	case err != nil:
		return answer, &api.Error{Code: api.Unavailable, Message: err.Error(), Retryable: !errors.Is(err, bus.ErrDenied), Err: err}
	}
	if failed {
		e := &api.Error{}
		if json.Unmarshal(data, e) != nil || e.Code == "" {
			return answer, errForm
		}
		return answer, e
	}
	if json.Unmarshal(data, &answer) != nil {
		return answer, errForm
	}
	return answer, nil
}

// errForm reports an answer that cannot be read.
var errForm = errors.New("the responder's answer is not of the known form: is it of another version?")

// Submit queues a task.
func (c *Client) Submit(ctx context.Context, q api.Submission) (api.Submitted, error) {
	return call[api.Submitted](ctx, c, "submit", q, answerTime)
}

// SubmitCloud submits a task to Codex Cloud.
func (c *Client) SubmitCloud(ctx context.Context, q api.CloudSubmission) (api.Submitted, error) {
	return call[api.Submitted](ctx, c, "submit_cloud", q, 5*time.Minute)
}

// Cancel ends a run.
func (c *Client) Cancel(ctx context.Context, q api.Cancel) (api.Cancelled, error) {
	return call[api.Cancelled](ctx, c, "cancel", q, answerTime)
}

// Status returns the state of a run without the details of its record.
func (c *Client) Status(ctx context.Context, run string) (*api.Run, error) {
	return call[*api.Run](ctx, c, "status", api.RunRequest{Run: run}, answerTime)
}

// Describe returns the state of a run with the details of its record.
func (c *Client) Describe(ctx context.Context, run string) (*api.Run, error) {
	return call[*api.Run](ctx, c, "describe", api.RunRequest{Run: run}, answerTime)
}

// Wait returns a run once it has ended, with the details of its record. The
// error is [api.Timeout] where the time of the request passes first.
func (c *Client) Wait(ctx context.Context, q api.WaitRequest) (*api.Run, error) {
	within := time.Minute
	if q.Timeout > 0 {
		within = time.Duration(q.Timeout) * time.Second
	}
	return call[*api.Run](ctx, c, "wait", q, within+answerTime)
}

// List returns a page of runs, the newest first.
func (c *Client) List(ctx context.Context, q api.List) (api.RunPage, error) {
	return call[api.RunPage](ctx, c, "list", q, answerTime)
}

// Results returns what came of a run that has ended.
func (c *Client) Results(ctx context.Context, q api.ResultsRequest) (*api.Result, error) {
	return call[*api.Result](ctx, c, "results", q, answerTime)
}

// Output returns a part of what the agent of a run printed.
func (c *Client) Output(ctx context.Context, q api.OutputRequest) (api.OutputPart, error) {
	return call[api.OutputPart](ctx, c, "output", q, answerTime)
}

// Events returns a page of the events of a run.
func (c *Client) Events(ctx context.Context, q api.EventsRequest) (api.EventPage, error) {
	return call[api.EventPage](ctx, c, "events", q, answerTime)
}

// Questions returns the runs that wait for an answer from outside.
func (c *Client) Questions(ctx context.Context, q api.QuestionsRequest) (api.Questions, error) {
	return call[api.Questions](ctx, c, "waiting", q, answerTime)
}

// Answer answers a run that waits.
func (c *Client) Answer(ctx context.Context, q api.AnswerRequest) (api.Answered, error) {
	return call[api.Answered](ctx, c, "answer", q, answerTime)
}

// Workers returns the workers that take tasks.
func (c *Client) Workers(ctx context.Context) (api.Workers, error) {
	return call[api.Workers](ctx, c, "workers", api.Nothing{}, answerTime)
}

// Environments returns the environments of Codex Cloud that the responder knows.
func (c *Client) Environments(ctx context.Context) (api.Environments, error) {
	return call[api.Environments](ctx, c, "environments", api.Nothing{}, answerTime)
}

// Forget erases a run that has ended.
func (c *Client) Forget(ctx context.Context, run string) (runs.Forgotten, error) {
	return call[runs.Forgotten](ctx, c, "forget", api.RunRequest{Run: run}, time.Minute)
}

// Cleanup ends stuck runs and removes old ones.
func (c *Client) Cleanup(ctx context.Context, q api.CleanupRequest) (api.CleanedUp, error) {
	return call[api.CleanedUp](ctx, c, "cleanup", q, 5*time.Minute)
}
