package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/worker"
)

type pipeCmd struct {
	Agent agentKind `default:"codex" placeholder:"KIND" help:"The dialect of the input."`
	Run_  runID     `name:"run" placeholder:"ID" help:"Id of the run: 1 to 64 of A-Z a-z 0-9 _ -. By default a new one."`
	Label labels    `placeholder:"K=V" mapsep:"none" help:"Label of the run; can be repeated."`
	Wait  bool      `help:"End only once the run's completion is stored."`
}

// Help is printed by `linesman pipe --help`.
func (pipeCmd) Help() string {
	return `Reads stdin to its end and never makes the writer wait for NATS: what NATS does not take yet is kept on disk. Ends when
all of it is stored, and prints the run's id. Killed, what it read is not lost: "linesman up" takes it.

Examples:

    codex exec --json "Go." </dev/null | linesman pipe
    linesman pipe --run T-local-1 --wait <recorded.jsonl

Exit status: 0 done, 1 failed, or the run is known already, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *pipeCmd) check(a *app) error {
	_, err := a.backend(c.Agent)
	return err
}

func (c *pipeCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	t, err := a.attach(ctx, false)
	if err != nil {
		return err
	}
	return errors.Join(c.run(ctx, a, t.bus), t.close())
}

func (c *pipeCmd) run(ctx context.Context, a *app, b *bus.Bus) error {
	id := string(c.Run_)
	if id == "" {
		id = newID()
	}
	d, err := a.createRun(ctx, b, worker.Spec{Run: id, Agent: string(c.Agent), Source: worker.SourcePipe, Labels: c.Label, Limits: a.runLimits()})
	if err != nil {
		return err
	}
	w, err := a.worker(b)
	if err != nil {
		return errors.Join(err, d.Remove())
	}
	defer a.alive(ctx, b, w, worker.Tasks{})()
	path := d.Path()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return worker.Pipe(groupCtx, a.stdin, d) })
	group.Go(func() error {
		_, err := w.Run(d).Drive(groupCtx)
		return err
	})
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("run %s: broken off; what was read is in %s, and the next `linesman up` takes it", id, path)
		}
		return fmt.Errorf("run %s: %w", id, err)
	}
	if c.Wait {
		if err := awaitCompletion(ctx, b, id); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(a.stdout, id)
	return err
}

// awaitCompletion waits for the completion of a run.
func awaitCompletion(ctx context.Context, b *bus.Bus, run string) error {
	err := b.Read(ctx, bus.Filter{Run: run, Tokens: []string{normalizer.CompletionToken}, Follow: true}, func(bus.Stored) error { return errComplete })
	switch {
	case errors.Is(err, errComplete):
		return nil
	case err == nil:
		return ctx.Err()
	}
	return err
}
