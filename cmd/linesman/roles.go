package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/doctor"
	"github.com/linesman/linesman/worker"
)

type workerCmd struct{ workerFlags }

func (*workerCmd) Run(ctx context.Context, a *app) error { return daemon.RunWorker(ctx, a.host()) }

type normalizerCmd struct{}

func (*normalizerCmd) Run(ctx context.Context, a *app) error {
	return daemon.RunNormalizer(ctx, a.host())
}

type responderCmd struct {
	httpFlag
	lostFlag
}

func (*responderCmd) Run(ctx context.Context, a *app) error {
	return daemon.RunResponder(ctx, a.host(), func(url string) { fmt.Fprintf(a.stdout, "ready http=%s\n", url) })
}

type mcpCmd struct{}

func (*mcpCmd) Run(ctx context.Context, a *app) error {
	return daemon.WithService(ctx, a.host(), func(ctx context.Context, s *daemon.Service) error {
		return s.ServeMCP(ctx, a.stdin, a.stdout)
	})
}

// shimCmd is the process that owns one agent. Only a worker starts it.
type shimCmd struct {
	Dir string `arg:"" name:"dir" help:"The run's directory."`
}

func (c *shimCmd) Run() error {
	err := worker.Shim(c.Dir)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, worker.ErrNotNeeded):
		return exitWith(worker.NotNeeded, err)
	}
	return exitWith(exitLinesman, err)
}

type downCmd struct{}

func (*downCmd) check(a *app) error {
	if a.config.NATS != "" {
		return errors.New("nats: `down` stops the `linesman up` of a data directory; it cannot stop another server")
	}
	return nil
}

func (*downCmd) Run(ctx context.Context, a *app) error { return a.dialer.Stop(ctx) }

type healthCmd struct{}

func (*healthCmd) Run(ctx context.Context, a *app) error {
	user, unchecked, err := doctor.Health(ctx, a.dialer)
	switch {
	case exitCode(err) == exitUsage:
		return err
	case err != nil:
		return exitWith(exitNATS, err)
	}
	if len(unchecked) > 0 {
		fmt.Fprintf(a.stderr, "linesman: not checked, as the keys of %s do not permit it: %s\n", user,
			strings.Join(unchecked, ", "))
	}
	return nil
}
