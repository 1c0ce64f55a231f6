package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// Why a run is left to the next `linesman up`.
var (
	errAway = errors.New("NATS is away")
	errLeft = errors.New("left by a signal")
)

func (c *runCmd) run(ctx context.Context, a *app, b *bus.Bus, d *worker.Dir, signals <-chan os.Signal) (int, error) {
	id := d.Spec.Run
	w, stop, err := a.driver(ctx, b)
	if err != nil {
		return exitLinesman, errors.Join(err, d.Remove())
	}
	defer stop()
	fmt.Fprintf(a.stderr, "linesman: run %s\n", id)

	ctx, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel(nil)
	printed := make(chan error, 1)
	beside.Go(func() { printed <- c.print(ctx, a, b, id) })
	r, path := w.Run(d), d.Path()
	beside.Go(func() { a.relay(ctx, cancel, r, signals) })
	beside.Go(func() { a.abandon(ctx, cancel, b, r) })
	exit, err := r.Drive(ctx)
	switch cause := context.Cause(ctx); {
	case errors.Is(err, worker.ErrKnown):
		return exitFailed, err
	case errors.Is(err, worker.ErrEnded):
		return exitLinesman, err
	case err != nil && errors.Is(cause, errAway) && !r.AgentBegun():
		return exitLinesman, fmt.Errorf("run %s: %s is still away after %v, and the agent was not started: "+
			"`linesman doctor` says what is wrong; then run it again", id, a.server(), away)
	case err != nil && errors.Is(cause, errAway):
		return exitLinesman, fmt.Errorf("run %s: NATS is still away %v after the agent's end: its output is in %s, "+
			"and the next `linesman up` on this data directory takes it", id, away, path)
	case err != nil && errors.Is(cause, errLeft):
		return exitLinesman, fmt.Errorf("run %s: not all of its output is stored: it is in %s, and the next "+
			"`linesman up` on this data directory takes it", id, path)
	case err != nil:
		return exitLinesman, err
	}
	select {
	case err = <-printed:
		if cause := context.Cause(ctx); err == nil && cause != nil {
			err = fmt.Errorf("run %s: its events are stored later: %w", id, cause)
		}
	case <-time.After(away):
		err = fmt.Errorf("run %s: its events are not complete %v after its end: is a normalizer at work?", id, away)
	}
	if err != nil {
		return exitLinesman, err
	}
	a.tellStderr(ctx, b, string(c.Agent), id, exit)
	return agentCode(exit), c.explain(id, exit)
}

// print prints the events of the run up to its completion. While NATS gives no
// answer, or EVENTS is being recreated, it tries again until ctx ends.
func (c *runCmd) print(ctx context.Context, a *app, b *bus.Bus, run string) error {
	f := client.Filter{Run: run, Agent: string(c.Agent), Follow: true}
	p, wrong := a.printer(c.JSON), misread{argv: c.Command}
	p.seen = func(r record) {
		f.After = r.Seq
		if s := wrong.advice(r); s != "" {
			fmt.Fprintf(a.stderr, "linesman: %s\n", s)
		}
	}
	for {
		_, err := p.watch(ctx, client.New(b), f)
		if err == nil || ctx.Err() != nil || !bus.IsAway(err) && !errors.Is(err, bus.ErrNoStream) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// relay passes the first Ctrl-C on to the agent; the second one, or SIGTERM,
// cancels the run, and so does the first while there is no agent yet. The
// third leaves what is still to be stored to others.
func (a *app) relay(ctx context.Context, leave context.CancelCauseFunc, r *worker.Run, signals <-chan os.Signal) {
	for n := 1; ; n++ {
		var s os.Signal
		select {
		case <-ctx.Done():
			return
		case s = <-signals:
		}
		switch {
		case n >= 3:
			leave(errLeft)
			return
		case n == 1 && s == os.Interrupt && r.Interrupt() == nil:
		case r.AgentEnded():
			fmt.Fprintln(a.stderr, "linesman: the agent has ended, but not all is stored yet; the third Ctrl-C leaves "+
				"the rest to the next `linesman up`")
		default:
			if err := r.Cancel(ctx, "asked for by a signal"); err != nil && ctx.Err() == nil {
				fmt.Fprintf(a.stderr, "linesman: cancel the run: %v\n", err)
			}
		}
	}
}

// abandon gives up when NATS is still away some time after the agent's end, or
// before its beginning. While the agent works it may be away for as long.
func (a *app) abandon(ctx context.Context, cancel context.CancelCauseFunc, b *bus.Bus, r *worker.Run) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var since time.Time
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if b.Connected() || r.AgentBegun() && !r.AgentEnded() {
				since = time.Time{}
				continue
			}
			if since.IsZero() {
				since = now
				if !said {
					said = true
					a.sayAway()
				}
			}
			if now.Sub(since) >= away {
				cancel(errAway)
				return
			}
		}
	}
}

// tellStderr shows the end of a failed agent's stderr to whoever started it on a
// terminal, and to nobody else: it is in no event and no log.
func (a *app) tellStderr(ctx context.Context, b *bus.Bus, agent, run string, x runs.Exit) {
	failed := x.Reason == runs.ReasonExited && (x.Signal != 0 || x.Code != nil && *x.Code != 0 &&
		*x.Code != runs.ExitNeedsAgent)
	if !failed || !a.shown(a.stderr).Terminal() {
		return
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	_, said, err := b.Output(ctx, agent, run, 2*console.StderrShown, true)
	if err == nil { // else what is wrong with NATS is said elsewhere
		_ = console.StderrTail(a.stderr, append(said.Head, said.Tail...))
	}
}
