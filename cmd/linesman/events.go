package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

type eventsCmd struct {
	Run_    runRef        `name:"run" placeholder:"RUN" help:"Only this run: its id, a unique beginning or end of it, \"last\", or a label such as ticket=42."`
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
	run, err := c.run(ctx, a)
	if err != nil {
		return err
	}
	l, err := a.dialer.Reader(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	f := client.Filter{Agent: string(c.Agent), Run: run, Follow: c.Follow}
	if c.FromSeq > 0 {
		f.After = c.FromSeq - 1
	}
	for _, k := range c.Kind {
		f.Kinds = append(f.Kinds, string(k))
	}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	n, err := a.printer(c.JSON).Events(l, nil)(ctx, f)
	if errors.Is(err, client.ErrUnreachable) {
		err = exitWith(exitNATS, err)
	}
	if err != nil || n > 0 || run == "" || c.Follow || ctx.Err() != nil {
		return err
	}
	// A run without events to show, or one that does not exist.
	return a.ask(ctx, func(l *client.Client) error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		known, err := l.Known(ctx, run)
		if err != nil || known {
			return err
		}
		return noSuchRun(run)
	})
}

// run is the id of --run. A subscriber of another server cannot ask for it: it must give
// the whole id, as for a run that does not exist yet.
func (c *eventsCmd) run(ctx context.Context, a *app) (run string, err error) {
	asks := a.config.NATS == "" || c.Run_ == "last" || strings.Contains(string(c.Run_), "=")
	if run = string(c.Run_); run == "" || !asks {
		return run, nil
	}
	err = a.ask(ctx, func(l *client.Client) error {
		run, err = resolveRun(ctx, l, string(c.Run_))
		return err
	})
	return run, err
}

type waitCmd struct {
	Run_    runRef        `arg:"" name:"run" help:"${run}"`
	Timeout time.Duration `placeholder:"DURATION" help:"Wait no longer than this, in whole seconds; the run continues. By default without a limit."`
	Until   string        `enum:"end,turn,input" default:"end" help:"What to wait for: the end of the run; or of a live run that no turn runs (turn), or the same or an open question (input). Exit code 1: the turn was not completed; 5: a question is open."`
	jsonFlag
}

func (c *waitCmd) Run(ctx context.Context, a *app) error {
	if c.Timeout < 0 {
		return exitWith(exitUsage, fmt.Errorf("--timeout: must not be negative, got %s", c.Timeout))
	}
	return a.withRun(ctx, c.Run_, nil, func(l *client.Client, run string) error {
		return a.waitUntil(ctx, l, api.WaitRequest{Run: run, Until: c.Until}, c.Timeout)
	})
}

// wait waits for the end of a run, at most for timeout unless that is 0, and
// prints its result. The progress line is on stderr, because stdout may be a file.
func (a *app) wait(ctx context.Context, l *client.Client, run string, timeout time.Duration) error {
	return a.waitUntil(ctx, l, api.WaitRequest{Run: run}, timeout)
}

// waitUntil is wait for what a request says.
func (a *app) waitUntil(ctx context.Context, l *client.Client, q api.WaitRequest, timeout time.Duration) error {
	run := q.Run
	a.log.Debug("waiting", zap.String("run", run))
	line := a.shown(a.stderr)
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	if timeout > 0 {
		waiting, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	each := a.asks(waiting, l)
	if asks := each; asks != nil {
		each = func(run *api.Run) {
			_ = line.Progress(run) // fails if the terminal is gone
			asks(run)
		}
	}
	now, err := l.WaitUntil(waiting, q, each)
	_ = line.Close()
	if errors.Is(err, context.DeadlineExceeded) && waiting.Err() != nil && ctx.Err() == nil {
		if now, err = l.Describe(ctx, run); err != nil {
			err = explain(err, nil, run)
			return exitWith(exitTimeout, fmt.Errorf("run %s has not ended, as far as is known: %w", run, err))
		}
	}
	switch {
	case ctx.Err() != nil:
		return exitWith(exitFailed, fmt.Errorf("no longer waiting; run %s continues", run))
	case err != nil:
		return explain(err, nil, run)
	}
	if q.Until != "" && q.Until != api.UntilEnd && now.State == runs.StateInputRequired && waiting.Err() == nil {
		return a.turned(now)
	}
	if err := a.waited(ctx, l, now); err != nil {
		return err
	}
	return completed(now.State)
}

// waited prints a run after a wait, if it has ended, its result.
func (a *app) waited(ctx context.Context, l *client.Client, run *api.Run) error {
	var err error
	if a.json {
		err = console.PrintJSON(a.stdout, run)
	}
	switch {
	case err == nil && !run.State.Final():
		state := console.Word(string(run.State))
		return exitWith(exitTimeout, fmt.Errorf("run %s has not ended: it is %s", run.ID, state))
	case err != nil || a.json:
		return err
	}
	r, err := l.Results(ctx, api.ResultsRequest{Run: run.ID})
	if err != nil {
		return explain(err, nil, run.ID)
	}
	a.seen(ctx, l, run.ID)
	return a.shown(a.stdout).Result(r, console.ResultOptions{})
}

// turned prints what the last turn of a live run said, and returns how that ended.
func (a *app) turned(run *api.Run) error {
	err := a.print(run, func() error {
		if run.Detail == nil || run.FinalText == nil {
			return nil
		}
		var b strings.Builder
		for line := range strings.Lines(*run.FinalText) {
			b.WriteString(console.Safe(strings.TrimRight(line, "\r\n")) + "\n")
		}
		_, err := io.WriteString(a.stdout, b.String())
		if n := int64(len(*run.FinalText)); err == nil && n < run.FinalBytes {
			const cut = "linesman: these are the first %d of %d bytes: linesman logs --full %s\n"
			_, err = fmt.Fprintf(a.stderr, cut, n, run.FinalBytes, run.ID)
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case len(run.Questions) > 0:
		return exitWith(exitAsks, fmt.Errorf("run %s asks: linesman answer %[1]s", run.ID))
	case run.Detail == nil || run.Conversation == nil || run.Conversation.Last != "completed":
		return exitWith(exitFailed, fmt.Errorf("run %s: the turn was not completed", run.ID))
	}
	return nil
}
