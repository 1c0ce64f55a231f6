package main

import (
	"context"
	"fmt"
	"os"

	"github.com/linesman/linesman/agents"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/worker"
	"github.com/linesman/linesman/worker/launch"
)

// roles is what the roles in this process are built from.
func (a *app) roles() (daemon.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return daemon.Config{}, fmt.Errorf("find this program: %w", err)
	}
	return daemon.Config{
		Settings: a.config, Version: build().Version, Environ: a.environ, Rules: a.rules, Log: a.log,
		Shim: []string{self, "shim"}, Program: func() string { return sameProgram(self) },
	}, nil
}

// rules are those of the worker of the `linesman up` of the data directory.
func (a *app) rules() (launch.Rules, bool) {
	here, err := readInstance(a.config.DataDir)
	return launch.Rules{Dir: here.Dir, Roots: here.Roots}, a.config.NATS == "" && err == nil && len(here.Roots) > 0
}

// withService does something with a service beside the `linesman up` of the data
// directory, or at the server of --nats. The service ends when do does.
func (a *app) withService(ctx context.Context, do func(context.Context, *daemon.Service) error) error {
	b, err := a.client(ctx, embedded.ResponderUser)
	if err != nil {
		return err
	}
	defer b.Close()
	c, err := a.roles()
	if err != nil {
		return err
	}
	if a.config.NATS == "" {
		c.Dir = a.clientDir()
	}
	s, err := daemon.NewService(b, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Run(ctx) })
	group.Go(func() error {
		defer cancel()
		return do(ctx, s)
	})
	return group.Wait()
}

// clientDir returns a function that chooses the directory of a task that names
// none: this client's own directory if the `linesman up` of the data directory
// runs in the background, else "", which means the directory of that `up`. It is
// called at each submission, because one `up` can replace the other.
func (a *app) clientDir() func() (string, error) {
	dir, err := os.Getwd()
	return func() (string, error) {
		if here, unread := readInstance(a.config.DataDir); unread == nil && !here.Background {
			return "", nil
		}
		return dir, err
	}
}

// driver is a worker for the runs of a command. It sends heartbeats until stop is
// called.
func (a *app) driver(ctx context.Context, b *bus.Bus) (w *worker.Worker, stop func(), err error) {
	c, err := a.roles()
	if err != nil {
		return nil, nil, err
	}
	return daemon.Driver(ctx, b, c)
}

// backend is that of an agent, or a mistake of the command line.
func (a *app) backend(kind agentKind) (normalizer.Backend, error) {
	known, ok := agents.Known.Find(string(kind))
	if !ok {
		return nil, exitWith(exitUsage, fmt.Errorf("--agent: %q is not known; there is: %s", kind, knownNames()))
	}
	return daemon.Scrubbed(a.config, known.Backend)[0], nil
}

func (a *app) runsDir() string { return daemon.RunsDir(a.config) }

func (a *app) runLimits() worker.Limits {
	c := a.config
	return worker.Limits{Idle: c.Limits.Idle, Hard: c.Limits.Hard, Grace: c.Limits.Grace, Spool: int64(c.Spool.MaxBytes)}
}
