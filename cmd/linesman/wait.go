package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/runs"
)

type waitCmd struct {
	Run_    runID         `arg:"" name:"run" help:"Id of the run."`
	Timeout time.Duration `placeholder:"DURATION" help:"Wait no longer than this, in whole seconds; the run goes on. By default for ever."`
	JSON    bool          `name:"json" help:"Print the responder's answer, a v3.6 envelope, on one line."`
}

// Help is printed by `linesman wait --help`.
func (waitCmd) Help() string {
	return `Waits until a run has ended and prints its result. On a terminal the bottom line shows the progress of the run. Ctrl-C
ends this command, not the run. If the responder becomes unavailable, the command waits up to 30 s for its return.

Examples:

    linesman wait T-local-0mwqeheq41ojmir && git diff
    linesman wait --timeout 10m --json T-local-0mwqeheq41ojmir | jq -r .data.state

Exit status: 0 the run completed, 1 it ended otherwise, or something failed, 2 bad flags or settings, 3 NATS or the
responder is out of reach, 4 there is no such run, 124 --timeout passed.`
}

func (c *waitCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	if c.Timeout < 0 {
		return exitWith(exitUsage, fmt.Errorf("--timeout: must not be negative, got %s", c.Timeout))
	}
	l, err := a.responder(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	return a.wait(ctx, l, c.Run_, c.Timeout, c.JSON)
}

// wait waits for the end of a run, at most for timeout unless that is 0, and
// tells what came of it. The progress line is on stderr, for what comes of the
// run goes to stdout, which may lead elsewhere.
func (a *app) wait(ctx context.Context, l *client.Client, run runID, timeout time.Duration, asJSON bool) error {
	a.log.Debug("waiting", zap.String("run", string(run)))
	line := a.shown(a.stderr)
	var each func(*api.Run)
	if line.Terminal() {
		each = func(run *api.Run) { _ = line.Progress(run) } // a terminal that has gone needs none
	}
	var err error
	if asJSON {
		err = a.waitEnvelope(ctx, l, run, timeout, each, line)
	} else {
		err = a.waitResult(ctx, l, run, timeout, each, line)
	}
	if ctx.Err() != nil {
		return exitWith(exitFailed, fmt.Errorf("no longer waiting; run %s goes on", run))
	}
	return err
}

func (a *app) waitResult(
	ctx context.Context, l *client.Client, run runID, timeout time.Duration, each func(*api.Run), line *console.Renderer,
) error {
	waiting, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		waiting, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	_, err := l.Wait(waiting, string(run), each)
	_ = line.Close()
	if waiting.Err() != nil && ctx.Err() == nil {
		now, err := l.Status(ctx, string(run))
		switch {
		case err != nil:
			return unknown(run, explain(err, nil, run))
		case !now.State.Final():
			return unended(run, now.State)
		}
	} else if err != nil {
		return explain(err, nil, run)
	}
	r, err := l.Results(ctx, api.ResultsRequest{Run: string(run)})
	if err != nil {
		return explain(err, nil, run)
	}
	if err := a.shown(a.stdout).Result(r, console.ResultOptions{}); err != nil {
		return err
	}
	return goes(r.Run.State)
}

func (a *app) waitEnvelope(
	ctx context.Context, l *client.Client, run runID, timeout time.Duration, each func(*api.Run), line *console.Renderer,
) error {
	e, err := l.WaitTool(ctx, run.tool("wait"), string(run), timeout, each)
	_ = line.Close()
	said := a.printEnvelope(e, err, nil, run)
	var late *api.Error
	switch {
	case errors.As(err, &late) && late.Code == api.Timeout && late.Limit == api.LimitWait:
		return unended(run, late.State)
	case said != nil:
		return said
	}
	return goes(e.State)
}

func unended(run runID, state runs.State) error {
	return exitWith(exitTimeout, fmt.Errorf("run %s has not ended: it is %s", run, console.Word(string(state))))
}

func unknown(run runID, err error) error {
	return exitWith(exitTimeout, fmt.Errorf("run %s has not ended, as far as is known: %w", run, err))
}
