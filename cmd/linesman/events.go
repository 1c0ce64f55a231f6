package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
)

type eventsCmd struct {
	Run_    runID         `name:"run" placeholder:"ID" help:"Only this run."`
	Agent   agentKind     `placeholder:"KIND" help:"Only runs of this agent."`
	Kind    []eventKind   `placeholder:"KIND" help:"Only these kinds: text_output tool_call tool_result status error unknown completion. Repeat it or separate them with commas."`
	Follow  bool          `short:"f" help:"Go on with what comes; with --run until its completion."`
	Since   time.Duration `placeholder:"DURATION" xor:"start" help:"Begin with what was stored so long ago."`
	FromSeq uint64        `name:"from-seq" placeholder:"N" xor:"start" help:"Begin with this sequence of the stream."`
	JSON    bool          `name:"json" help:"Print JSON lines, not for people."`
}

// Help is printed by `linesman events --help`.
func (eventsCmd) Help() string {
	return `Begins with the oldest event that is kept. On a terminal the events are laid out for people, with a line at the bottom
that says how it stands; otherwise every event is one line, whose first fields are time, run, agent, position and kind.
With --follow a run that is not known yet is waited for.

Examples:

    linesman events --follow
    linesman events --run T-local-1 --kind tool_result,error
    linesman events --since 1h --json | jq -r 'select(.event.kind == "TextOutput").event.text'

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 NATS is out of reach, 4 there is no such run.`
}

func (c *eventsCmd) check(*app) error {
	if c.Since < 0 {
		return fmt.Errorf("--since: must not be negative, got %v", c.Since)
	}
	return nil
}

func (c *eventsCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	a.asks = true
	user := embedded.SubscriberUser
	if a.config.NATS == "" { // here all passwords are known, and readers may be limited
		user = embedded.OperatorUser
	}
	b, err := a.client(ctx, user)
	if err != nil {
		return err
	}
	l := client.New(b)
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
	n, err := a.printer(c.JSON).watch(ctx, l, f)
	if errors.Is(err, client.ErrUnreachable) {
		err = exitWith(exitNATS, err)
	}
	if err != nil || n > 0 || c.Run_ == "" || c.Follow || ctx.Err() != nil {
		return err
	}
	return c.mustKnow(ctx, a)
}

// mustKnow tells a run without events to show from one that does not exist.
func (c *eventsCmd) mustKnow(ctx context.Context, a *app) error {
	l, err := a.responder(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	ctx, cancel := soon(ctx)
	defer cancel()
	known, err := l.Known(ctx, string(c.Run_))
	if err != nil || known {
		return err
	}
	return exitWith(exitNoRun, fmt.Errorf("there is no run %s", c.Run_))
}
