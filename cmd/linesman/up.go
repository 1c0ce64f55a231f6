package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/local"
	"github.com/linesman/linesman/worker"
)

type upCmd struct {
	NATSListen string `name:"nats-listen" setting:"nats_listen" placeholder:"HOST:PORT" help:"${nats_listen}"`
	HTTP       string `name:"http" setting:"http" placeholder:"HOST:PORT" help:"${http}"`
	MaxRuns    string `name:"max-runs" setting:"work.max_runs" placeholder:"N" help:"${work_max_runs}"`
	LostAfter  string `name:"lost-after" setting:"lost_after" placeholder:"DURATION" help:"${lost_after}"`
	Background bool   `hidden:"" help:"What another command starts where nothing runs."`
	Demo       bool   `help:"Show what it does: play a recorded agent run once everything is ready."`
}

// Help is printed by `linesman up --help`.
func (upCmd) Help() string {
	return `Worker, normalizer, responder and an embedded NATS server, all in one process. Only one of them can have a data
directory. Once it is ready it prints one line on stdout,

    ready nats=URL http=URL data=DIR

and writes the same to linesman.json in the data directory, where the other commands find it. SIGTERM or Ctrl-C ends it
in order; agents that run go on under their limits, and the next start finds them. HTTP serves MCP at /mcp, for callers
that show the token in the data directory, and /healthz and /readyz for all.

Examples:

    linesman up
    linesman up --data-dir ./data --nats-listen 127.0.0.1:0 --http 127.0.0.1:0

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings.`
}

func (c *upCmd) check(a *app) error {
	if a.config.NATS != "" {
		return errors.New("nats: `up` has a server of its own; for another one run `linesman worker`, `linesman " +
			"normalizer` and `linesman responder`")
	}
	return nil
}

func (c *upCmd) Run(ctx context.Context, a *app) (err error) {
	if c.Background {
		return a.inBackground(ctx)
	}
	if a.lock, err = a.takeOver(ctx); err != nil { // given back by the end of the process
		return quiet(err)
	}
	err = a.everything(ctx, a.config.NATSListen, a.config.HTTP, func(ctx context.Context, u *upRole) error {
		fmt.Fprintf(a.stdout, "ready nats=%s http=%s data=%s\n", u.here.NATS, u.here.HTTP, u.here.Data)
		if c.Demo {
			return quiet(a.demo(ctx, u.Daemon))
		}
		return nil
	})
	var end []string
	if err == nil && ctx.Err() == nil {
		end = append(end, "stopped by `linesman down`")
	}
	backlog, _ := worker.ReadBacklog(a.runsDir())
	if n := backlog.Writing; n > 0 && (ctx.Err() != nil || end != nil) {
		end = append(end, fmt.Sprintf("runs still at work: %d; their agents continue under their limits, and the "+
			"next `linesman up` on this data directory resumes the runs", n))
	}
	if end != nil {
		fmt.Fprintf(a.stderr, "linesman: %s\n", strings.Join(end, "; "))
	}
	return quiet(err)
}

// upRole is an `up` at work.
type upRole struct {
	*daemon.Daemon
	here         instance
	registration *local.Registration // once it is ready
}

// everything runs all roles on the data directory, whose lock the caller has,
// until ctx ends or something breaks that no waiting mends. Ready is called
// once all of it works, and beside it.
func (a *app) everything(
	ctx context.Context, natsListen, httpListen string, ready func(context.Context, *upRole) error,
) (err error) {
	data := a.config.DataDir
	if err := os.Remove(instanceFile(data)); err != nil && !errors.Is(err, fs.ErrNotExist) { // one that was killed left it
		return fmt.Errorf("data directory: %w", err)
	}
	roles, err := a.roles()
	if err != nil {
		return err
	}
	roles.Settings.NATSListen, roles.Settings.HTTP = natsListen, httpListen
	d, err := daemon.New(ctx, roles)
	if err != nil {
		return listenHint(err)
	}
	defer d.Close()

	u := &upRole{Daemon: d, here: instance{
		NATS: d.Server.URL(), HTTP: d.Responder.URL(), TokenFile: daemon.TokenFile(a.config), Data: data, PID: os.Getpid(),
		Version: roles.Version, Program: roles.Shim[0], Background: a.background,
	}}
	if rules, takes := d.Worker.Rules(); takes {
		u.here.Dir, u.here.Roots = rules.Dir, rules.Allowed()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := d.OnStop(stop); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.Run(ctx) })
	group.Go(func() error {
		if d.Ready(ctx) != nil { // ctx ended
			return nil
		}
		var err error
		if u.registration, err = local.Register(u.here, a.lock); err != nil {
			return err
		}
		defer u.registration.Withdraw()
		beside, ctx := errgroup.WithContext(ctx)
		beside.Go(func() error { return u.registration.Keep(ctx, a.log) })
		beside.Go(func() error { return ready(ctx, u) })
		return beside.Wait()
	})
	return group.Wait()
}

// quiet makes an end that was asked for no error.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
