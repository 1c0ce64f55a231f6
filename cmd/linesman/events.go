package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/normalizer"
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
	defer b.Close()
	f := bus.Filter{Agent: string(c.Agent), Run: string(c.Run_), Follow: c.Follow, FromSeq: c.FromSeq}
	for _, k := range c.Kind {
		f.Tokens = append(f.Tokens, string(k))
	}
	if c.Since > 0 {
		f.Since = time.Now().Add(-c.Since)
	}
	if f.Follow && f.Run != "" && (f.FromSeq > 0 || c.Since > 0) {
		ended, err := hasEnded(ctx, b, f.Run)
		if err != nil {
			return err
		}
		f.Follow = !ended // its completion may lie before the start, and nothing comes behind it
	}
	_, n, err := a.printer(c.JSON).watch(ctx, b, f)
	if errors.Is(err, bus.ErrUnreachable) {
		err = exitWith(exitNATS, err)
	}
	if err != nil || n > 0 || c.Run_ == "" || c.Follow || ctx.Err() != nil {
		return err
	}
	return c.mustKnow(ctx, a)
}

// hasEnded reports whether the completion of a run is stored.
func hasEnded(ctx context.Context, b *bus.Bus, run string) (bool, error) {
	err := b.Read(ctx, bus.Filter{Run: run, Tokens: []string{normalizer.CompletionToken}}, func(bus.Stored) error { return errComplete })
	if errors.Is(err, errComplete) {
		return true, nil
	}
	return false, quiet(err)
}

// mustKnow tells a run without events to show from one that does not exist.
func (c *eventsCmd) mustKnow(ctx context.Context, a *app) error {
	b, err := a.client(ctx, embedded.OperatorUser)
	if err != nil {
		return err
	}
	defer b.Close()
	ctx, cancel := soon(ctx)
	defer cancel()
	known, err := b.Known(ctx, string(c.Run_))
	if err != nil || known {
		return err
	}
	return exitWith(exitNoRun, fmt.Errorf("there is no run %s", c.Run_))
}
