package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/cmd/doctor"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/responder/mcp"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

type workerCmd struct {
	workerFlags
	monitorFlag
}

func (c *workerCmd) Run(ctx context.Context, a *app) error { return daemon.RunWorker(ctx, c.host(a)) }

type normalizerCmd struct{ monitorFlag }

func (c *normalizerCmd) Run(ctx context.Context, a *app) error {
	return daemon.RunNormalizer(ctx, c.host(a))
}

type responderCmd struct {
	httpFlag
	lostFlag
}

func (*responderCmd) Run(ctx context.Context, a *app) error {
	return daemon.RunResponder(ctx, a.host(), func(url string) { fmt.Fprintf(a.stdout, "ready http=%s\n", url) })
}

type mcpCmd struct {
	Tools string `default:"all" enum:"agents,live,local,adcp,all" placeholder:"SET" help:"Tools to offer: agents, for every agent; live, for conversations with them; local, for Codex on this machine; adcp, for clients of AdCP; or all, also for Codex Cloud (default all)."`
}

func (c *mcpCmd) Run(ctx context.Context, a *app) error {
	return a.session(ctx, func(s *daemon.Session) error {
		var without []string
		if worker.InAgent(a.environ) { // what an agent asks is decided outside of it
			without = append(without, api.ToolAgentAnswer)
		}
		offer, err := mcp.Remote(ctx, s.Client(), c.Tools, a.dialer.TaskDir, without...)
		if err != nil {
			return err
		}
		offer.Version, offer.Log = a.host().Version, a.log
		return mcp.ServeStdio(ctx, mcp.NewServer(offer), a.stdin, a.stdout)
	})
}

type downCmd struct{ jsonFlag }

func (*downCmd) check(a *app) error {
	if a.config.NATS != "" {
		return errors.New("nats: `down` stops the `linesman up` of a data directory; it cannot stop another server")
	}
	return nil
}

func (*downCmd) Run(ctx context.Context, a *app) error {
	if err := a.dialer.Stop(ctx); err != nil || !a.json {
		return err
	}
	return console.PrintJSON(a.stdout, map[string]any{"data": a.config.DataDir, "running": false})
}

type healthCmd struct {
	HTTP bool   `name:"http" help:"Ask the role on this machine by /readyz, without keys."`
	URL  string `arg:"" optional:"" name:"url" help:"With --http: where it serves. By default the address of monitor_http or http."`
	jsonFlag
}

func (c *healthCmd) check(*app) error {
	if c.URL != "" && !c.HTTP {
		return errors.New("URL: is for --http")
	}
	return nil
}

func (c *healthCmd) Run(ctx context.Context, a *app) (err error) {
	var user string
	var unchecked []string
	h := map[string]any{}
	if c.HTTP && (c.URL != "" || !doctor.IsUp(a.config)) {
		h["url"], h["role"], err = doctor.Ready(ctx, a.config, c.URL)
	} else {
		user, unchecked, err = doctor.Health(ctx, a.dialer)
		h["user"], h["unchecked"] = user, append([]string{}, unchecked...)
	}
	if h["healthy"] = err == nil; err != nil && exitCode(err) != exitUsage {
		err = exitWith(exitNATS, err)
	}
	if a.json {
		if err != nil {
			h["message"] = err.Error()
		}
		return errors.Join(err, console.PrintJSON(a.stdout, h))
	}
	if err == nil && len(unchecked) > 0 {
		fmt.Fprintf(a.stderr, "linesman: not checked, as the keys of %s do not permit it: %s\n", user,
			strings.Join(unchecked, ", "))
	}
	return err
}

type forgetCmd struct {
	Run_ runRef `arg:"" name:"run" help:"${run}"`
	jsonFlag
}

func (c *forgetCmd) Run(ctx context.Context, a *app) error {
	return a.session(ctx, func(s *daemon.Session) error {
		run, err := resolveRun(ctx, s.Client(), string(c.Run_))
		if err != nil {
			return err
		}
		f, err := s.Forget(ctx, run)
		switch {
		case errors.Is(err, runs.ErrNoRun):
			return noSuchRun(run)
		case errors.Is(err, runs.ErrOpen):
			e := &api.Error{Code: api.Conflict, Message: err.Error(), Run: run}
			return refuse(fmt.Errorf("run %s: %w: `linesman cancel %[1]s` ends it", run, err), e)
		case err != nil:
			return err
		}
		return a.print(f, func() error {
			_, err = fmt.Fprintf(a.stdout, "%s forgotten: %d entries of its raw log, %d events\n", run, f.Entries, f.Events)
			return err
		})
	})
}

type rebuildCmd struct{ jsonFlag }

func (c *rebuildCmd) Run(ctx context.Context, a *app) error {
	return a.session(ctx, func(s *daemon.Session) error {
		r, err := s.Rebuild(ctx)
		switch {
		case err != nil:
			return err
		case c.JSON:
			r.Differences = append([]string{}, r.Differences...) // an empty list is a list in JSON, too
			err = console.PrintJSON(a.stdout, r)
		default:
			for _, d := range r.Differences {
				fmt.Fprintln(a.stdout, d)
			}
			_, err = fmt.Fprintf(a.stdout, "%d raw records read, %d runs and %d events compared, %d runs only kept in part, "+
				"%d differences\n", r.Entries, r.Runs, r.Events, r.Partial, len(r.Differences))
		}
		if err == nil && len(r.Differences) > 0 {
			return exitWith(exitFailed, nil)
		}
		return err
	})
}
