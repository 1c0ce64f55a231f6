package tools

import (
	"context"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// submit queues a task.
func submit(c *call) action {
	q := request.Submission(c.service, c.tool.name, c.args)
	return func(ctx context.Context) (outcome, error) {
		done, err := c.submit(ctx, q)
		return queued(done), err
	}
}

func (c *call) submit(ctx context.Context, q api.Submission) (api.Submitted, error) {
	done, err := request.Submit(ctx, c.service, c.tool.name, c.args, q)
	c.replayed = done.Replayed
	return done, err
}

func queued(done api.Submitted) outcome { return outcome{v36.Queued(done), adcp.OfSubmission(done)} }

// run queues a task and, unless the caller does not want that, waits for its end.
func run(c *call) action {
	q := request.Submission(c.service, c.tool.name, c.args)
	if c.args.Flag("async") {
		return func(ctx context.Context) (outcome, error) {
			done, err := c.submit(ctx, q)
			return queued(done), err
		}
	}
	return func(ctx context.Context) (outcome, error) {
		webhook := q.Webhook
		if err := c.service.CanNotify(webhook); err != nil {
			return outcome{}, c.args.Name(err)
		}
		q.Webhook = nil // the answer tells how the task ended
		done, err := c.submit(ctx, q)
		if err != nil {
			return outcome{}, err
		}
		v, err := c.follow(ctx, done.Run)
		if ctx.Err() != nil { // from now on the webhook tells; the service logs why it does not
			_ = c.service.Register(context.WithoutCancel(ctx), done.Run, webhook)
			if v.State == "" {
				v.State = runs.StateQueued // it was accepted, whatever the table has of it
			}
			return outcome{}, responder.WaitOver(done.Run, v.State, c.begun)
		}
		if err != nil {
			return outcome{}, err
		}
		return c.ended(ctx, done)
	}
}

// ended is the outcome of a task that was waited for.
func (c *call) ended(ctx context.Context, done api.Submitted) (outcome, error) {
	record, err := c.service.Record(ctx, done.Run)
	if err != nil {
		return outcome{}, err
	}
	if record.State == runs.StateTimeout {
		return outcome{}, c.service.TimedOut(ctx, record)
	}
	const most = 20_000 // bytes of output on the page
	r, err := c.service.ResultOf(ctx, record, api.ResultRequest{Output: true, MaxBytes: most})
	if err != nil {
		return outcome{}, err
	}
	preview := runs.Mode(c.args.Text("mode")) == api.Preview
	return outcome{v36.Ended(done, r, preview), adcp.OfRecord(record)}, nil
}

func localStatus(c *call) action {
	c.args.CheckDir()
	return func(ctx context.Context) (outcome, error) {
		all, one, err := request.Status(ctx, c.service, c.args)
		if err != nil {
			return outcome{}, err
		}
		var r outcome
		if one != nil && c.args.ADCP() {
			r.of = adcp.OfView(*one)
		}
		if c.args.Flag("verbose") {
			r.reply = c.verbose(ctx, all)
		} else {
			r.reply = v36.Snapshot(all, c.service.Basis())
		}
		return r, nil
	}
}

func localResults(c *call) action {
	return func(ctx context.Context) (outcome, error) {
		const param = "task_id"
		v, err := request.Local(ctx, c.service, c.args, c.tool.name, param)
		if err != nil {
			return outcome{}, err
		}
		return c.results(ctx, v, param)
	}
}

// results is the outcome of a request for the results of the run that a
// parameter names.
func (c *call) results(ctx context.Context, v responder.View, param string) (outcome, error) {
	r, err := c.service.Result(ctx, v.ID, api.ResultRequest{
		Output: c.args.Flag("include_output"), MaxBytes: int(c.args.Number("max_output_bytes")),
		Events: c.args.Flag("include_events"), Count: true,
	})
	if err != nil {
		return outcome{}, c.args.Name(err)
	}
	return outcome{v36.Results(r), adcp.OfRecord(r.Record)}, nil
}

func localWait(c *call) action {
	return func(ctx context.Context) (outcome, error) {
		v, err := request.Local(ctx, c.service, c.args, c.tool.name, "task_id")
		if err != nil {
			return outcome{}, err
		}
		return c.wait(ctx, v)
	}
}

func localCancel(c *call) action {
	return func(ctx context.Context) (outcome, error) {
		done, v, err := request.Cancel(ctx, c.service, c.args)
		c.replayed = done.Replayed
		if err != nil {
			return outcome{}, err
		}
		return outcome{v36.Cancelled(done, c.args.Text("reason")), adcp.OfCancel(v, done)}, nil
	}
}
