package delegator

import (
	"context"
	"fmt"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

func localWait(c *call, ctx context.Context) (*reply, error) {
	v, err := c.local(ctx, "task_id")
	if err != nil {
		return nil, err
	}
	return c.wait(ctx, v)
}

func cloudWait(c *call, ctx context.Context) (*reply, error) {
	if c.Cloud == nil {
		return nil, noCloud()
	}
	v, err := c.ofTheCloud(ctx, "task_id")
	if err != nil {
		return nil, err
	}
	return c.wait(ctx, v)
}

type waitMeta struct {
	Started   string `json:"started_ts"`
	Completed string `json:"completed_ts"`
	Duration  int64  `json:"duration_ms"`
	ExitCode  *int   `json:"exit_code,omitempty"`
}

// wait answers once the task has ended, or its time is over.
func (c *call) wait(ctx context.Context, v responder.View) (*reply, error) {
	most := time.Duration(c.args.number("timeout_sec")) * time.Second
	waiting, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	now, err := c.follow(waiting, v.ID)
	if now.ID == "" {
		now = v
	}
	if waiting.Err() != nil && !now.State.Final() {
		return nil, c.late(now)
	}
	if err != nil {
		return nil, err
	}
	record, err := c.Responder.Record(ctx, v.ID)
	if err != nil {
		return nil, err
	}
	d, err := c.result(ctx, record, resultOptions{output: c.args.flag("include_output"), most: int(c.args.number("max_output_bytes"))})
	if err != nil {
		return nil, err
	}
	d.wait = true
	m := waitMeta{Started: moment(started(record.Row())), Completed: moment(record.EndedAt), Duration: lasted(record.Row())}
	if record.Exit != nil {
		m.ExitCode = record.Exit.Code
	}
	return &reply{meta: m, data: d, of: ofRecord(record)}, nil
}

// follow waits for the end of a task, and tells how far it is.
func (c *call) follow(ctx context.Context, id string) (responder.View, error) {
	return c.Responder.Wait(ctx, id, func(v responder.View) {
		percent, message := 0.0, ""
		if v.Progress != nil {
			percent = float64(v.Progress.Percent)
		}
		switch {
		case v.State == runs.StateQueued && v.Position == 1:
			message = "Queued behind one task"
		case v.State == runs.StateQueued:
			message = fmt.Sprintf("Queued behind %d tasks", v.Position)
		case v.State == runs.StateWorking && v.Activity != "":
			message = v.Activity
		case v.State == runs.StateWorking:
			message = "Working"
		case v.State == runs.StateInputRequired:
			message = "Waiting for an answer from outside"
		default:
			message = "Ended: " + string(v.State)
		}
		c.tell(percent, message)
	})
}

// late is the error of a wait that ended before the task.
func (c *call) late(v responder.View) error {
	waited := time.Since(c.begun)
	elapsed := int64(waited / time.Second)
	return &failure{wireError{
		Code: codeTimeout, Message: "the task has not ended yet: it goes on", Retryable: true, Duration: waited.Milliseconds(),
		Details: details{TaskID: v.ID, State: string(v.State), TimeoutType: "wait", Elapsed: &elapsed},
	}}
}

// started is when a run began, or else when it was queued, or ended.
func started(r runs.Row) int64 {
	for _, at := range []int64{r.StartedAt, r.QueuedAt} {
		if at != 0 {
			return at
		}
	}
	return r.EndedAt
}

// lasted is how many milliseconds a run that has ended took. One that was
// never started took none.
func lasted(r runs.Row) int64 {
	if r.StartedAt == 0 {
		return 0
	}
	return max(r.EndedAt-r.StartedAt, 0)
}
