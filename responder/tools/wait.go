package tools

import (
	"context"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/runtable"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// wait is the outcome of a wait for a run: its result once it has ended.
func (c *call) wait(ctx context.Context, v responder.View) (outcome, error) {
	waiting, cancel := context.WithTimeout(ctx, time.Duration(c.args.Number("timeout_sec"))*time.Second)
	defer cancel()
	now, err := c.follow(waiting, v.ID)
	if now.ID == "" {
		now = v
	}
	if waiting.Err() != nil && !now.State.Final() {
		return outcome{}, responder.WaitOver(now.ID, now.State, c.begun)
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
	})
	if err != nil {
		return outcome{}, err
	}
	return outcome{v36.Waited(r), adcp.OfRecord(record)}, nil
}

// follow waits for the end of a task, and reports its progress.
func (c *call) follow(ctx context.Context, run string) (responder.View, error) {
	return c.service.Wait(ctx, run, func(v responder.View) {
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

// verbose is a snapshot with the last lines of running tasks. Those that cannot
// be read in time are left out.
func (c *call) verbose(ctx context.Context, all runtable.Snapshot) *v36.Reply {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return v36.VerboseSnapshot(all, c.service.Basis(), func(run string) []string {
		lines, err := c.service.LastLines(ctx, run)
		if err != nil {
			return nil
		}
		return lines
	})
}
