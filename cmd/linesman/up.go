package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/worker"
)

var (
	//go:embed demo/run.jsonl
	demoRun string // what the real Codex printed; see test/corpus/codex

	//go:embed demo/end.txt
	demoEnd string // a format for the id of the run: what to try after the demonstration
)

type upCmd struct {
	NATSListen string `name:"nats-listen" setting:"nats_listen" placeholder:"HOST:PORT" help:"${nats_listen}"`
	httpFlag
	workerFlags
	Background bool `hidden:"" help:"Set by a command that starts the process in the background."`
	Demo       bool `help:"Play a recorded agent run once everything is ready."`
}

func (c *upCmd) check(a *app) error {
	if a.config.NATS != "" {
		return errors.New("nats: `up` has a server of its own; for another one run `linesman worker`, `linesman " +
			"normalizer` and `linesman responder`")
	}
	return nil
}

func (c *upCmd) Run(ctx context.Context, a *app) error {
	if c.Background {
		return c.inBackground(ctx, a)
	}
	host := a.host()
	host.Heed()
	lock, err := a.dialer.TakeOver(ctx) // released at the end of the process
	if err != nil {
		return quiet(err)
	}
	err = daemon.Up(ctx, host, lock, func(ctx context.Context, d *daemon.Daemon) error {
		ready := []string{"ready nats=" + d.Server.URL(), "http=" + d.Responder.URL(), "data=" + a.config.DataDir}
		fmt.Fprintln(a.stdout, a.shown(a.stdout).OneLine(ready))
		if a.shown(a.stdout).Terminal() && d.Responder.URL() != "" { // a log must not have the link
			fmt.Fprintf(a.stdout, "page %s\n", d.Responder.SignInLink())
		}
		if c.Demo {
			return quiet(a.demo(ctx, d))
		}
		return nil
	})
	var end []string
	if err == nil && ctx.Err() == nil {
		end = append(end, "stopped by `linesman down`")
	}
	backlog, _ := worker.ReadBacklog(datadir.RunsDir(a.config.DataDir))
	if n := backlog.Writing; n > 0 && (ctx.Err() != nil || end != nil) {
		end = append(end, fmt.Sprintf("runs still at work: %d; their agents continue under their limits, and the "+
			"next `linesman up` on this data directory resumes the runs", n))
	}
	if end != nil {
		fmt.Fprintf(a.stderr, "linesman: %s\n", strings.Join(end, "; "))
	}
	return quiet(err)
}

// inBackground is an `up` that another command started with
// [datadir.Dialer.DialOrStart].
func (c *upCmd) inBackground(ctx context.Context, a *app) error {
	from := config.Sources{Environ: a.environ, File: a.file}
	err := daemon.UpInBackground(ctx, a.host(), from, a.stdout)
	if errors.Is(err, datadir.ErrLocked) {
		return exitWith(exitBusy, nil)
	}
	return err
}

// quiet returns err, or nil if a context was cancelled.
func quiet(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// demo plays the recorded run through the whole path, as an agent of its own.
func (a *app) demo(ctx context.Context, up *daemon.Daemon) error {
	run, err := up.Demo(ctx, a.host(), func(ctx context.Context, s *daemon.Session, run string) error {
		_, err := a.printer(false).Events(s.Client(), nil)(ctx, client.Filter{Run: run, Follow: true})
		return err
	})
	if err == nil && ctx.Err() == nil {
		_, err = fmt.Fprintf(a.stdout, demoEnd, run)
	}
	return err
}

// playCmd prints the recorded run at about the pace of an agent.
type playCmd struct{}

func (playCmd) Run(ctx context.Context, a *app) error {
	for line := range strings.Lines(demoRun) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
		if _, err := io.WriteString(a.stdout, line); err != nil {
			return err
		}
	}
	return nil
}
