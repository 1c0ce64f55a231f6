package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
)

type upCmd struct {
	NATSListen string `name:"nats-listen" setting:"nats_listen" placeholder:"HOST:PORT" help:"${nats_listen}"`
	Demo       bool   `help:"Show what it does: play a recorded agent run once everything is ready."`
}

// Help is printed by `linesman up --help`.
func (upCmd) Help() string {
	return `Worker, normalizer and an embedded NATS server, all in one process. Only one of them can have a data directory. Once it
is ready it prints one line on stdout,

    ready nats=URL data=DIR

and writes the same to linesman.json in the data directory, where the other commands find it. SIGTERM or Ctrl-C ends it
in order; agents that run go on under their limits, and the next start finds them.

Examples:

    linesman up
    linesman up --data-dir ./data --nats-listen 127.0.0.1:0

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings.`
}

func (c *upCmd) Run(ctx context.Context, a *app) (err error) {
	if a.config.NATS != "" {
		return exitWith(exitUsage, errors.New("nats: `up` has a server of its own; for another one run `linesman worker` and `linesman normalizer`"))
	}
	data := a.config.DataDir
	lock, err := lockData(data)
	switch {
	case errors.Is(err, errLocked):
		return fmt.Errorf("%w: end it first, or choose another directory with --data-dir", err)
	case err != nil:
		return err
	}
	defer lock.Close()
	s, err := a.newStation(ctx, data, a.config.NATSListen)
	switch {
	case errors.Is(err, bus.ErrListen):
		return fmt.Errorf("--nats-listen: %w; choose another address, or port 0 for a free one", err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	w, err := a.worker(s.workBus)
	if err != nil {
		return err
	}

	here := instance{NATS: s.server.URL(), Data: data, PID: os.Getpid(), Version: build().Version}
	if err := here.write(); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	defer os.Remove(instanceFile(data))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return quiet(w.Adopt(ctx)) })
	group.Go(func() error { return here.keep(ctx, a.log) })
	group.Go(func() error { // a normalizer that ends by itself has found something that no waiting mends
		select {
		case <-ctx.Done():
			return nil
		case <-s.ended:
			return s.group.Wait()
		}
	})
	fmt.Fprintf(a.stdout, "ready nats=%s data=%s\n", here.NATS, data)
	a.log.Info("ready", zap.String("nats", here.NATS), zap.String("data", data))
	if c.Demo {
		group.Go(func() error { return quiet(a.demo(ctx)) })
	}
	return group.Wait()
}

// keep writes linesman.json again when it is gone, or another's.
func (i instance) keep(ctx context.Context, log *zap.Logger) error {
	tick := time.NewTicker(2 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if now, err := readInstance(i.Data); err == nil && now == i {
			continue
		}
		if err := i.write(); err != nil {
			log.Warn("linesman.json cannot be written", zap.Error(err))
		}
	}
}

// quiet makes an end that was asked for no error.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
