package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
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
