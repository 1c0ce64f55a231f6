package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
)

type statusCmd struct {
	Run_  runRef `arg:"" name:"run" optional:"" help:"${run}"`
	Limit int    `default:"10" placeholder:"N" help:"How many runs to list that have ended, 1 to 100 (default 10)."`
	Tasks bool   `help:"Only runs of the work queue."`
	filterFlags
	jsonFlag
}

// filterFlags select runs.
type filterFlags struct {
	Label  labels    `placeholder:"K=V" mapsep:"none" help:"Only runs with this label; can be repeated."`
	Agent  agentKind `placeholder:"NAME" help:"Only runs of this agent."`
	Dir    string    `placeholder:"DIR" help:"Only runs in this working directory."`
	State  []string  `placeholder:"STATE" enum:"queued,working,input-required,completed,failed,cancelled,timeout" help:"Only runs in this state: queued, working, input-required, completed, failed, cancelled or timeout. Repeat the flag or separate them with commas."`
	Since  moment    `placeholder:"TIME" help:"Only runs that have entered their state since then: a duration such as 2h, a date, or a time of RFC 3339."`
	Until  moment    `placeholder:"TIME" help:"Only runs that entered their state before that time."`
	Unseen bool      `help:"Only runs that have ended and that were not looked at since."`
}

// request is what the flags select; the zero value means all runs.
func (f filterFlags) request() (q api.OverviewRequest, err error) {
	if f.Dir != "" {
		f.Dir, err = filepath.Abs(f.Dir)
	}
	for _, s := range f.State {
		q.States = append(q.States, runs.State(s))
	}
	for k, v := range f.Label {
		q.Labels = append(q.Labels, k+"="+v)
	}
	slices.Sort(q.Labels)
	q.Agent, q.Dir, q.Unseen, q.Since, q.Until = string(f.Agent), f.Dir, f.Unseen, runs.Time(f.Since), runs.Time(f.Until)
	return q, err
}

func (c *statusCmd) Run(ctx context.Context, a *app) error {
	q, err := c.request()
	switch {
	case err != nil:
		return fmt.Errorf("--dir: %w", err)
	case c.Run_ != "" && c.Tasks:
		return exitWith(exitUsage, errors.New("--tasks: not for a single run"))
	case c.Run_ != "" && !reflect.DeepEqual(q, api.OverviewRequest{}):
		return exitWith(exitUsage, errors.New("filters: not for a single run"))
	case c.Run_ != "":
		return a.withRun(ctx, c.Run_, nil, func(l *client.Client, run string) error {
			r, err := l.Describe(ctx, run)
			if err != nil {
				return err
			}
			return a.print(r, func() error {
				a.seen(ctx, l, run)
				return a.shown(a.stdout).Run(r)
			})
		})
	case c.Limit == 0: // the default of a request
		return exitWith(exitUsage, errors.New("--limit: must be 1 to 100"))
	}
	return a.ask(ctx, func(l *client.Client) error {
		q.Limit, q.Queue = c.Limit, c.Tasks
		all, err := l.Overview(ctx, q)
		if err != nil {
			return explain(err, map[string]string{"limit": "--limit"}, "")
		}
		return a.print(console.RunsJSON(all), func() error { return a.shown(a.stdout).Overview(all) })
	})
}

type resultsCmd struct {
	Run_     runRef `arg:"" name:"run" help:"${run}"`
	Output   bool   `help:"Also show the output of the agent: of a run in the cloud, its diff. Of a failed run its last lines for people are always shown."`
	Events   bool   `help:"Show the last events, at most 50."`
	MaxBytes int    `name:"max-output-bytes" placeholder:"N" default:"65536" help:"Maximum bytes of output to show, 1024 to 1048576 (default 65536): of a longer one its beginning and its end."`
	jsonFlag
}

func (c *resultsCmd) Run(ctx context.Context, a *app) error {
	if c.Events && c.Run_.inCloud() {
		return exitWith(exitUsage, errors.New("--events: not for a run in the cloud; see `linesman events`"))
	}
	const flag = "--max-output-bytes"
	if c.MaxBytes == 0 { // the default of a request
		return exitWith(exitUsage, errors.New(flag+": must be 1024 to 1048576"))
	}
	return a.withRun(ctx, c.Run_, map[string]string{"maxOutputBytes": flag}, func(l *client.Client, run string) error {
		r, err := l.Results(ctx, api.ResultsRequest{Run: run, ResultRequest: api.ResultRequest{
			Output: c.Output, MaxBytes: c.MaxBytes, Events: c.Events,
		}})
		if err != nil {
			return err
		}
		return a.print(r, func() error {
			a.seen(ctx, l, run)
			return a.shown(a.stdout).Result(r, console.ResultOptions{Ended: true, WholeText: c.Output})
		})
	})
}

type unfollowCmd struct {
	Run_ runRef `arg:"" name:"run" help:"${run}"`
	jsonFlag
}

func (c *unfollowCmd) Run(ctx context.Context, a *app) error {
	return a.session(ctx, func(s *daemon.Session) error {
		run, err := resolveRun(ctx, s.Client(), string(c.Run_))
		if err != nil {
			return err
		}
		r, err := s.Unfollow(ctx, run)
		if err != nil {
			return explain(err, nil, run)
		}
		return a.print(r, func() error {
			_, err := fmt.Fprintf(a.stdout, "%s ended: its session is not followed any more, and its agent keeps running\n", run)
			return err
		})
	})
}

type cancelCmd struct {
	Run_   runRef `arg:"" name:"run" help:"${run}"`
	Reason string `placeholder:"TEXT" help:"Reason, stored with the run."`
	Turn   bool   `help:"Cancel only the current turn. The run stays open; it must be one of \"linesman submit --keep\"."`
	jsonFlag
}

func (c *cancelCmd) Run(ctx context.Context, a *app) error {
	if c.Turn && c.Reason != "" {
		return exitWith(exitUsage, errors.New("--reason: not with --turn"))
	}
	if c.Turn {
		return a.order(ctx, c.Run_, func(l *client.Client, run string) (api.Sent, error) {
			return api.OpStop.Call(ctx, l, api.TurnRequest{Run: run})
		})
	}
	return a.withRun(ctx, c.Run_, map[string]string{"reason": "--reason"}, func(l *client.Client, run string) error {
		r, err := l.CancelRun(ctx, api.Cancel{Run: run, Reason: c.Reason})
		if err != nil {
			return err
		}
		state := "cancelling"
		if r.State.Final() {
			state = "cancelled"
		}
		return a.print(r, func() error {
			_, err := fmt.Fprintf(a.stdout, "%s %s\n", run, state)
			return err
		})
	})
}
