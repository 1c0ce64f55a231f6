package main

import (
	"context"
	"fmt"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
)

// detailFlags select how much of the details of a run is printed.
type detailFlags struct {
	Diffs bool `help:"Also print the diffs of changed files, as far as the agent reports them."`
	Full  bool `help:"Print texts and outputs as far as they are kept, and all events."`
}

func (f detailFlags) options() console.TimelineOptions {
	return console.TimelineOptions{Full: f.Full, Diffs: f.Diffs}
}

type logsCmd struct {
	Run_   runRef `arg:"" name:"run" help:"${run}"`
	Follow bool   `short:"f" help:"Also print what comes, until the run has ended."`
	Last   int    `placeholder:"N" help:"Begin with the last N items, 1 to 1000. By default with the first one."`
	detailFlags
	jsonFlag
}

func (c *logsCmd) check(*app) error {
	if c.Last < 0 || c.Last > api.MaxDetailItems {
		return fmt.Errorf("--last: must be 1 to %d", api.MaxDetailItems)
	}
	return nil
}

func (c *logsCmd) Run(ctx context.Context, a *app) error {
	return a.withRun(ctx, c.Run_, nil, func(l *client.Client, run string) error {
		r, err := a.printer(a.json).Details(ctx, l, run, c.Last, c.Follow, c.options())
		if err == nil && r.State.Final() && !a.json {
			a.seen(ctx, l, run)
		}
		return err
	})
}

type attachCmd struct {
	Run_ runRef `arg:"" name:"run" help:"${run}"`
	detailFlags
	jsonFlag
}

// attachItems is how many of the items before it attach prints.
const attachItems = 10

func (c *attachCmd) Run(ctx context.Context, a *app) error {
	return a.withRun(ctx, c.Run_, nil, func(l *client.Client, run string) error {
		p := a.printer(a.json)
		p.Asks = a.asks(ctx, l)
		r, err := p.Details(ctx, l, run, attachItems, true, c.options())
		if err != nil {
			return err
		}
		if !a.json {
			a.seen(ctx, l, run)
		}
		return exitWith(attachCode(r), nil)
	})
}

type diffCmd struct {
	Run_ runRef `arg:"" name:"run" help:"${run}"`
	Stat bool   `help:"Print only the files with the number of changed lines."`
	jsonFlag
}

func (c *diffCmd) Run(ctx context.Context, a *app) error {
	return a.withRun(ctx, c.Run_, nil, func(l *client.Client, run string) error {
		d, err := l.Diff(ctx, run)
		if err != nil {
			return err
		}
		if c.Stat {
			d.Patch, d.Truncated = "", false
		}
		err = a.print(d, func() error {
			a.seen(ctx, l, run)
			return a.shown(a.stdout).Diff(d)
		})
		if err == nil && d.Reason != "" {
			err = exitWith(exitFailed, nil)
		}
		return err
	})
}
