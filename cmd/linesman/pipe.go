package main

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
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
	var b *bus.Bus
	if a.config.NATS != "" || !a.config.Background.Start { // else one is there, or will be
		var err error
		if b, err = a.client(ctx, embedded.OperatorUser); err != nil {
			return err
		}
		defer b.Close()
	}
	id := string(c.Run_)
	if id == "" {
		id = newID()
	}
	d, err := a.createDir(worker.Spec{Run: id, Agent: string(c.Agent), Source: worker.SourcePipe, Labels: c.Label,
		Limits: a.runLimits()})
	if err != nil {
		return err
	}
	path := d.Path()
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var read errgroup.Group // the writer waits for nobody: it is read while NATS is looked for
	read.Go(func() error { return worker.Pipe(reading, a.stdin, d) })
	b, err = c.reach(ctx, a, b, id)
	if b != nil {
		defer b.Close()
	}
	switch {
	case errors.Is(err, worker.ErrKnown):
		stop()
		_ = read.Wait() // what was read is not wanted
		return errors.Join(err, d.Remove())
	case err == nil:
		err = c.drive(ctx, a, b, d)
	}
	if err == nil || !bus.IsAway(err) && exitCode(err) != exitNATS {
		stop()
	}
	if readErr := read.Wait(); err == nil && readErr != nil {
		err = readErr
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("run %s: broken off; what was read is in %s, and the next `linesman up` takes it", id, path)
	case exitCode(err) == exitNATS:
		return exitWith(exitNATS, fmt.Errorf("run %s: what was read is in %s, and the next `linesman up` takes it: %w", id,
			path, err))
	case err != nil:
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

// reach finds a server, where there is none yet, and the error where the run is
// known there.
func (c *pipeCmd) reach(ctx context.Context, a *app, b *bus.Bus, id string) (*bus.Bus, error) {
	if b == nil {
		var err error
		if b, err = a.client(ctx, embedded.OperatorUser); err != nil {
			return nil, err
		}
	}
	is, err := a.isKnown(ctx, b, id)
	if is {
		err = errKnown(id)
	}
	return b, err
}

// drive publishes what is read, to its end.
func (c *pipeCmd) drive(ctx context.Context, a *app, b *bus.Bus, d *worker.Dir) error {
	w, stop, err := a.driver(ctx, b)
	if err != nil {
		return err
	}
	defer stop()
	_, err = w.Run(d).Drive(ctx)
	return err
}

// awaitCompletion waits for the completion of a run.
func awaitCompletion(ctx context.Context, b *bus.Bus, run string) error {
	err := b.Read(ctx, bus.Filter{Run: run, Tokens: []string{normalizer.CompletionToken}, Follow: true},
		func(bus.Stored) error { return errComplete })
	switch {
	case errors.Is(err, errComplete):
		return nil
	case err == nil:
		return ctx.Err()
	}
	return err
}
