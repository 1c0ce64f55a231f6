package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/runs"
)

type statusCmd struct {
	Run_  runID `arg:"" name:"run" optional:"" help:"Only this run."`
	Limit int   `default:"10" placeholder:"N" help:"How many runs to list that have ended, 1 to 100 (default 10)."`
	Tasks bool  `help:"Only runs of the work queue."`
	envelopeFlag
}

func (c *statusCmd) Run(ctx context.Context, a *app) error {
	if c.Run_ != "" && c.Tasks {
		return exitWith(exitUsage, errors.New("--tasks: not for a single run"))
	}
	return a.ask(ctx, func(l *client.Client) error {
		flags := map[string]string{"limit": "--limit"}
		switch {
		case c.JSON && c.Run_ != "":
			return a.envelope(ctx, l, "status", nil, flags, c.Run_)
		case c.JSON:
			return a.envelope(ctx, l, "status", map[string]any{"limit": c.Limit, "showAll": !c.Tasks}, flags, "")
		case c.Run_ != "":
			run, err := l.Describe(ctx, string(c.Run_))
			if err != nil {
				return explain(err, nil, c.Run_)
			}
			return a.shown(a.stdout).Run(run)
		case c.Limit == 0: // the default of a request
			return exitWith(exitUsage, errors.New("--limit: must be 1 to 100"))
		}
		all, err := l.Overview(ctx, api.OverviewRequest{Limit: c.Limit, Queue: c.Tasks})
		if err != nil {
			return explain(err, flags, "")
		}
		return a.shown(a.stdout).Overview(all)
	})
}

type resultsCmd struct {
	Run_     runID `arg:"" name:"run" help:"Id of the run."`
	Output   bool  `help:"Also show the output of the agent: of a run in the cloud, its diff. The output of a failed run is always shown."`
	Events   bool  `help:"Show the last events, at most 50."`
	MaxBytes int   `name:"max-output-bytes" placeholder:"N" default:"65536" help:"Maximum bytes of output to show, 1024 to 1048576 (default 65536): of a longer one its beginning and its end."`
	envelopeFlag
}

func (c *resultsCmd) Run(ctx context.Context, a *app) error {
	if c.Events && c.Run_.inCloud() {
		return exitWith(exitUsage, errors.New("--events: not for a run in the cloud; see `linesman events`"))
	}
	return a.ask(ctx, func(l *client.Client) error {
		const flag = "--max-output-bytes"
		flags := map[string]string{"max_output_bytes": flag, "maxOutputBytes": flag}
		if c.JSON {
			args := map[string]any{"include_output": c.Output, "max_output_bytes": c.MaxBytes}
			if c.Events {
				args["include_events"] = true
			}
			return a.envelope(ctx, l, "results", args, flags, c.Run_)
		}
		if c.MaxBytes == 0 { // the default of a request
			return exitWith(exitUsage, errors.New(flag+": must be 1024 to 1048576"))
		}
		r, err := l.Results(ctx, api.ResultsRequest{Run: string(c.Run_), ResultRequest: api.ResultRequest{
			Output: c.Output, MaxBytes: c.MaxBytes, Events: c.Events,
		}})
		if err != nil {
			return explain(err, flags, c.Run_)
		}
		return a.shown(a.stdout).Result(r, console.ResultOptions{Ended: true, WholeText: c.Output})
	})
}

type cancelCmd struct {
	Run_   runID  `arg:"" name:"run" help:"Id of the run."`
	Reason string `placeholder:"TEXT" help:"Reason, stored with the run."`
	envelopeFlag
}

func (c *cancelCmd) Run(ctx context.Context, a *app) error {
	return a.ask(ctx, func(l *client.Client) error {
		flags := map[string]string{"reason": "--reason"}
		if c.JSON {
			args := map[string]any{}
			if c.Reason != "" {
				args["reason"] = c.Reason
			}
			return a.envelope(ctx, l, "cancel", args, flags, c.Run_)
		}
		done, err := l.Cancel(ctx, api.Cancel{Run: string(c.Run_), Reason: c.Reason})
		if err != nil {
			return explain(err, flags, c.Run_)
		}
		state := "cancelling"
		if done.State == runs.StateCancelled {
			state = "cancelled"
		}
		_, err = fmt.Fprintf(a.stdout, "%s %s\n", c.Run_, state)
		return err
	})
}
