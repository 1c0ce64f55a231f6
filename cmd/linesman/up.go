package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
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
		return errors.New("nats: `up` has a server of its own; for another one run `linesman worker`, `linesman normalizer` and `linesman responder`")
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
			return quiet(a.demo(ctx))
		}
		return nil
	})
	var end []string
	if err == nil && ctx.Err() == nil {
		end = append(end, "stopped by `linesman down`")
	}
	if n := worker.StillWriting(a.runsDir()); n > 0 && (ctx.Err() != nil || end != nil) {
		end = append(end, fmt.Sprintf("runs still at work: %d; their agents continue under their limits, and the next `linesman up` on this data directory resumes the runs", n))
	}
	if end != nil {
		fmt.Fprintf(a.stderr, "linesman: %s\n", strings.Join(end, "; "))
	}
	return quiet(err)
}

// upRole is an `up` at work.
type upRole struct {
	*station
	here         instance
	registration *local.Registration // once it is ready
	desk         *desk
	worker       *worker.Worker
}

// everything runs all roles on the data directory, whose lock the caller has,
// until ctx ends or something breaks that no waiting mends. Ready is called
// once all of it works, and beside it.
func (a *app) everything(ctx context.Context, natsListen, httpListen string, ready func(context.Context, *upRole) error) (err error) {
	data := a.config.DataDir
	if err := os.Remove(instanceFile(data)); err != nil && !errors.Is(err, fs.ErrNotExist) { // one that was killed left it
		return fmt.Errorf("data directory: %w", err)
	}
	s, err := a.newStation(ctx, data, natsListen)
	switch {
	case errors.Is(err, embedded.ErrListen):
		return fmt.Errorf("--nats-listen: %w; choose another address, or port 0 for a free one", err)
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	w, err := a.worker(s.workBus)
	if err != nil {
		return err
	}
	tasks, err := a.tasks(s.workBus)
	if err != nil {
		return err
	}
	deskBus, err := s.connect(ctx, a, embedded.ResponderUser)
	if err != nil {
		return err
	}
	d, err := a.newDesk(deskBus, httpListen)
	if err != nil {
		return err
	}

	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	u := &upRole{station: s, desk: d, worker: w, here: instance{
		NATS: s.server.URL(), HTTP: d.url(), TokenFile: a.tokenFile(), Data: data, PID: os.Getpid(), Version: build().Version,
		Program: self, Background: a.background,
	}}
	if tasks.Slots > 0 {
		u.here.Dir, u.here.Roots = tasks.Rules.Dir, tasks.Rules.Allowed()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := s.operator.ListenStop(u.here.PID, stop); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.carry(ctx, s.workBus, w, tasks) })
	group.Go(func() error { return d.serve(ctx) })
	group.Go(func() error { // a normalizer that ends by itself has found something that no waiting mends
		select {
		case <-ctx.Done():
			return nil
		case <-s.ended:
			return s.group.Wait()
		}
	})
	group.Go(func() error {
		if err := d.open(ctx); err != nil { // ctx ended
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

// carry has a worker do its work until ctx ends: what it finds, and tasks.
func (a *app) carry(ctx context.Context, b *bus.Bus, w *worker.Worker, tasks worker.Tasks) error {
	defer a.alive(ctx, b, w, tasks)()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return quiet(w.Adopt(ctx)) })
	if tasks.Slots > 0 {
		group.Go(func() error { return w.Serve(ctx, tasks) })
	}
	return group.Wait()
}

// quiet makes an end that was asked for no error.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
