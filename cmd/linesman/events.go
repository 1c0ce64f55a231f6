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

type eventsCmd struct {
	Run_    runID         `name:"run" placeholder:"ID" help:"Only this run."`
	Agent   agentKind     `placeholder:"KIND" help:"Only runs of this agent."`
	Kind    []eventKind   `placeholder:"KIND" help:"Only these kinds: text_output tool_call tool_result status error unknown completion. Repeat the flag or separate them with commas."`
	Follow  bool          `short:"f" help:"Also print new events; with --run until its completion."`
	Since   time.Duration `placeholder:"DURATION" xor:"start" help:"Begin with the events stored this long ago."`
	FromSeq uint64        `name:"from-seq" placeholder:"N" xor:"start" help:"Begin with this sequence of the stream."`
	JSON    bool          `name:"json" help:"Print JSON lines, not for people."`
}

func (c *eventsCmd) check(*app) error {
	if c.Since < 0 {
		return fmt.Errorf("--since: must not be negative, got %v", c.Since)
	}
	return nil
}

func (c *eventsCmd) Run(ctx context.Context, a *app) error {
	l, err := a.dialer.Reader(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	f := client.Filter{Agent: string(c.Agent), Run: string(c.Run_), Follow: c.Follow}
	if c.FromSeq > 0 {
		f.After = c.FromSeq - 1
	}
	for _, k := range c.Kind {
		f.Kinds = append(f.Kinds, string(k))
	}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	n, err := a.printer(l, c.JSON, nil)(ctx, f)
	if errors.Is(err, client.ErrUnreachable) {
		err = exitWith(exitNATS, err)
	}
	if err != nil || n > 0 || c.Run_ == "" || c.Follow || ctx.Err() != nil {
		return err
	}
	// A run without events to show, or one that does not exist.
	return a.ask(ctx, func(l *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		known, err := l.Known(ctx, string(c.Run_))
		if err != nil || known {
			return err
		}
		return errNoRun(c.Run_)
	})
}

// printer returns a function that prints the events of a filter, for people or as
// JSON lines, until there are no more, and returns how many it printed. It calls
// seen, which may be nil, with each event before it is printed.
func (a *app) printer(
	l *client.Client, asJSON bool, seen func(record),
) func(context.Context, client.Filter) (int, error) {
	on := a.shown(a.stdout)
	each := func(e client.Event) error {
		r := record{Seq: e.Seq, Time: e.Time, Agent: e.Agent, Run: e.Run, Line: e.Line, Part: e.Part}
		if e.Kind == api.Completion {
			r.Completion = e.Body
		} else {
			r.Event = e.Body
		}
		if seen != nil {
			seen(r)
		}
		if asJSON {
			return console.WriteJSON(a.stdout, r)
		}
		return on.Write(r)
	}
	return func(ctx context.Context, f client.Filter) (int, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return console.Follow(ctx, on, l.Follow(ctx, f), each)
	}
}

type waitCmd struct {
	Run_    runID         `arg:"" name:"run" help:"Id of the run."`
	Timeout time.Duration `placeholder:"DURATION" help:"Wait no longer than this, in whole seconds; the run continues. By default without a limit."`
	envelopeFlag
}

func (c *waitCmd) Run(ctx context.Context, a *app) error {
	if c.Timeout < 0 {
		return exitWith(exitUsage, fmt.Errorf("--timeout: must not be negative, got %s", c.Timeout))
	}
	return a.ask(ctx, func(l *client.Client) error { return a.wait(ctx, l, c.Run_, c.Timeout, c.JSON) })
}

// wait waits for the end of a run, at most for timeout unless that is 0, and
// prints its result. The progress line is on stderr, because stdout may be a file.
func (a *app) wait(ctx context.Context, l *client.Client, run runID, timeout time.Duration, asJSON bool) error {
	a.log.Debug("waiting", zap.String("run", string(run)))
	line := a.shown(a.stderr)
	var each func(*api.Run)
	if line.Terminal() {
		each = func(run *api.Run) { _ = line.Progress(run) } // fails if the terminal is gone
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if timeout > 0 {
		slice := timeout
		if asJSON { // the tool waits for the rest
			slice = max(timeout-time.Second, time.Millisecond)
		}
		waiting, cancel = context.WithTimeout(ctx, slice)
		defer cancel()
	}
	_, err := l.Wait(waiting, string(run), each)
	_ = line.Close()
	if asJSON && ctx.Err() == nil {
		err = a.waitEnvelope(ctx, l, run, waiting.Err() != nil)
	} else if ctx.Err() == nil {
		err = a.waitResult(ctx, l, run, waiting.Err() != nil, err)
	}
	if ctx.Err() != nil {
		return exitWith(exitFailed, fmt.Errorf("no longer waiting; run %s continues", run))
	}
	return err
}

func (a *app) waitResult(ctx context.Context, l *client.Client, run runID, late bool, err error) error {
	if late && errors.Is(err, context.DeadlineExceeded) {
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
	return completed(r.Run.State)
}

func (a *app) waitEnvelope(ctx context.Context, l *client.Client, run runID, late bool) error {
	e, err := l.RunTool(ctx, "wait", string(run), map[string]any{"timeout_sec": 1})
	said := a.printEnvelope(e, err, nil, run)
	var timeout *api.Error
	switch {
	case errors.As(err, &timeout) && timeout.Code == api.Timeout && timeout.Limit == api.LimitWait:
		return unended(run, timeout.State)
	case exitCode(said) == exitNATS && late:
		return unknown(run, said)
	case said != nil:
		return said
	}
	return completed(e.State)
}

func unended(run runID, state runs.State) error {
	return exitWith(exitTimeout, fmt.Errorf("run %s has not ended: it is %s", run, console.Word(string(state))))
}

func unknown(run runID, err error) error {
	return exitWith(exitTimeout, fmt.Errorf("run %s has not ended, as far as is known: %w", run, err))
}
