package tools

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// readTask reads a submission.
func (c *call) readTask() { c.task = request.Submission(c.service, c.tool.Name, c.args) }

// requestName is the name of the request of the tool for idempotency keys.
func (c *call) requestName() string { return cmp.Or(c.tool.request, c.tool.Name) }

// submit queues a task.
func (c *call) submit(ctx context.Context) (outcome, error) {
	done, err := request.Submit(ctx, c.service, c.requestName(), c.args, c.task)
	c.replayed = done.Replayed
	return outcome{reply: v36.Queued(done), of: adcp.OfSubmission(done, c.task.Labels)}, err
}

// run queues a task and, unless async is set, waits for its end.
func (c *call) run(ctx context.Context) (outcome, error) {
	if c.args.Flag("async") {
		return c.submit(ctx)
	}
	webhook := c.task.Webhook
	if err := c.service.CanNotify(webhook); err != nil && !request.Again(ctx, c.service, c.tool.Name, c.args) {
		return outcome{}, c.args.Name(err)
	}
	c.task.Webhook = nil // the answer has the outcome
	done, err := request.Submit(ctx, c.service, c.tool.Name, c.args, c.task)
	c.replayed = done.Replayed
	if err != nil {
		return outcome{}, err
	}
	waiting := ctx
	if most, bounded := responder.Patience(ctx); bounded {
		var cancel func()
		waiting, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	v, err := c.follow(waiting, done.Run, never)
	over := waiting.Err() != nil && !v.State.Final()
	if over && ctx.Err() == nil && c.service.Register(ctx, done.Run, webhook) == nil {
		// from now on it is a task in the background
		return outcome{reply: v36.Queued(done), of: adcp.OfSubmission(done, c.task.Labels)}, nil
	}
	if ctx.Err() != nil { // the webhook reports the end instead; the service logs a failure
		_ = c.service.Register(context.WithoutCancel(ctx), done.Run, webhook)
	}
	if over || ctx.Err() != nil {
		if v.State == "" {
			v.State = runs.StateQueued // it was accepted, even if it is not in the table yet
		}
		return outcome{}, c.service.WaitOver(done.Run, v.State, c.begun)
	}
	if err != nil {
		return outcome{}, err
	}
	return c.ended(ctx, done)
}

// ended returns the outcome of a task that has ended.
func (c *call) ended(ctx context.Context, done api.Submitted) (outcome, error) {
	record, err := c.service.Record(ctx, done.Run)
	if err != nil {
		return outcome{}, err
	}
	switch record.State {
	case runs.StateTimeout:
		return outcome{}, c.service.TimedOut(ctx, record)
	case runs.StateFailed:
		return outcome{}, c.service.Failed(ctx, record)
	}
	const most = 20_000 // bytes of output on the page
	r, err := c.service.ResultOf(ctx, record, api.ResultRequest{Output: true, MaxBytes: most})
	if err != nil {
		return outcome{}, err
	}
	preview := runs.Mode(c.args.Text("mode")) == api.Preview
	return outcome{reply: v36.Ended(done, r, preview), of: adcp.OfRecord(record)}, nil
}

func (c *call) localStatus(ctx context.Context) (outcome, error) {
	all, one, err := request.Status(ctx, c.service, c.args)
	if err != nil {
		return outcome{}, err
	}
	var r outcome
	if one != nil && c.args.ADCP() {
		r.of = adcp.OfView(*one)
	}
	var lines func(string) []string
	if c.args.Flag("verbose") {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		lines = func(run string) []string {
			all, _ := c.service.LastLines(ctx, run) // an error has none, and is logged
			return all
		}
	}
	r.reply = v36.Snapshot(all, c.service.Basis(), lines)
	return r, nil
}

// find returns the run that a call names.
func (c *call) find(ctx context.Context) (runs.Header, error) {
	if strings.HasPrefix(c.tool.Name, "_codex_cloud_") {
		return c.cloudRun(ctx)
	}
	return request.Local(ctx, c.service, c.args, c.tool.Name, c.tool.id)
}

func (c *call) results(ctx context.Context) (outcome, error) {
	v, err := c.find(ctx)
	if err != nil {
		return outcome{}, err
	}
	r, err := c.service.Result(ctx, v.ID, api.ResultRequest{
		Output: c.args.Flag("include_output"), MaxBytes: int(c.args.Number("max_output_bytes")),
		Events: c.args.Flag("include_events"), Count: true, Work: c.args.Flag("include_output"),
	})
	if err != nil {
		return outcome{}, c.args.Name(err)
	}
	return outcome{reply: v36.Results(r), of: adcp.OfRecord(r.Record)}, nil
}

func (c *call) localCancel(ctx context.Context) (outcome, error) {
	done, v, err := request.Cancel(ctx, c.service, c.args)
	c.replayed = done.Replayed
	if err != nil {
		return outcome{}, err
	}
	return outcome{reply: v36.Cancelled(done, c.args.Text("reason")), of: adcp.OfCancel(v, done)}, nil
}

// wait waits for the end of a run, and returns its result.
func (c *call) wait(ctx context.Context) (outcome, error) {
	v, err := c.find(ctx)
	if err != nil {
		return outcome{}, err
	}
	timeout := time.Duration(c.args.Number("timeout_sec")) * time.Second
	waiting, cancel := context.WithTimeout(ctx, c.patience(ctx, c.args.Number("timeout_sec")))
	defer cancel()
	now, err := c.follow(waiting, v.ID, never)
	if now.ID == "" {
		now = v
	}
	if waiting.Err() != nil && !now.State.Final() {
		over := c.service.WaitOver(now.ID, now.State, c.begun)
		if time.Since(c.begun) < timeout && ctx.Err() == nil {
			if c.args.ADCP() { // which has a status for it
				return outcome{reply: v36.Snapshot(request.Single(now), c.service.Basis(), nil), of: adcp.OfView(now)}, nil
			}
			over.Suggestion = "call " + c.tool.Name + " again; with a progressToken it waits as long as timeout_sec says"
		}
		return outcome{}, over
	}
	if err != nil && !now.State.Final() {
		return outcome{}, err
	}
	record, err := c.service.Record(ctx, v.ID)
	if err != nil {
		return outcome{}, err
	}
	r, err := c.service.ResultOf(ctx, record, api.ResultRequest{
		Output: c.args.Flag("include_output"), MaxBytes: int(c.args.Number("max_output_bytes")),
		Work: c.args.Flag("include_output"),
	})
	if err != nil {
		return outcome{}, err
	}
	return outcome{reply: v36.Waited(r), of: adcp.OfRecord(record)}, nil
}

// never is for a wait for the end alone.
func never(runs.Header) bool { return false }

// follow waits for the end of a task, or a state before it, and reports its progress.
func (c *call) follow(ctx context.Context, run string, is func(runs.Header) bool) (runs.Header, error) {
	return c.service.WaitUntil(ctx, run, func(v runs.Header) {
		percent, message := 0.0, ""
		if v.Steps != nil {
			percent = float64(v.Steps.Percent)
		}
		switch {
		case v.State == runs.StateQueued && v.Before() == 1:
			message = "Queued behind one task"
		case v.State == runs.StateQueued:
			message = fmt.Sprintf("Queued behind %d tasks", v.Before())
		case v.State == runs.StateWorking && v.Activity != "":
			message = v.Activity
		case v.State == runs.StateWorking:
			message = "Working"
		case len(v.Questions) > 0:
			message = "Waiting for an answer"
		case v.State == runs.StateInputRequired && (v.Agent == runs.AgentExternal || v.Waits()):
			message = "Waiting for an answer from outside"
		case v.State == runs.StateInputRequired:
			message = "Waiting for a message"
		default:
			message = "Ended: " + string(v.State)
		}
		c.tell(percent, message)
	}, func(v runs.Header) bool { return v.State.Final() || is(v) })
}
