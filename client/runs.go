package client

import (
	"context"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// SubmitRun is [Client.Submit], and returns the queued run. If its state cannot be read, only
// what the submission told is in it: the task was accepted nevertheless.
func (c *Client) SubmitRun(ctx context.Context, q api.Submission) (*api.Run, error) {
	done, err := c.Submit(ctx, q)
	if err != nil {
		return nil, err
	}
	run, err := c.Status(ctx, done.Run)
	if err != nil {
		run = &api.Run{
			Key: done.Run, ID: done.Run, State: runs.StateQueued, ThreadID: done.Thread, Position: &done.Position,
			QueuedAt: api.Time(done.At),
		}
	}
	return run, nil
}

// CancelRun is [Client.Cancel], and returns the run with the details of its record. Its state
// is cancelled as soon as the request to cancel it is stored, even if its record follows.
func (c *Client) CancelRun(ctx context.Context, q api.Cancel) (*api.Run, error) {
	done, err := c.Cancel(ctx, q)
	if err != nil {
		return nil, err
	}
	run, err := c.Describe(ctx, done.Run)
	if err != nil {
		return nil, err
	}
	if done.State == runs.StateCancelled && !run.State.Final() {
		run.State, run.Position, run.CancelRequested = done.State, nil, true
	}
	return run, nil
}

// Selected returns the newest runs that a list selects, ordered as in [Client.Overview], and
// reports whether there are more. Counts are those of the returned runs.
func (c *Client) Selected(ctx context.Context, q api.List) (all *api.Overview, more bool, err error) {
	page, err := c.List(ctx, q)
	if err != nil {
		return nil, false, err
	}
	all = &api.Overview{}
	for _, run := range page.Runs {
		switch {
		case run.State.Final():
			all.Ended = append(all.Ended, run)
		case run.State == runs.StateQueued:
			all.Queued = append(all.Queued, run)
		default:
			all.Working = append(all.Working, run)
		}
	}
	all.Counts = api.Counts{Working: len(all.Working), Queued: len(all.Queued), Ended: len(all.Ended)}
	return all, page.Next != "", nil
}
