package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

type pipeCmd struct {
	Agent agentKind `placeholder:"KIND" help:"Dialect of the input: ${agents}, or auto to tell it by the first lines (default codex)."`
	Run_  runID     `name:"run" placeholder:"ID" help:"Id of the run: 1 to 64 of A-Z a-z 0-9 _ -. By default a new one."`
	startFlags
	Wait bool `help:"Also wait until the run's completion is stored."`
	jsonFlag

	assumed bool // nothing tells the agent
}

func (c *pipeCmd) check(a *app) error {
	c.assumed = c.Agent.assume()
	_, err := a.backend(c.Agent)
	return err
}

func (c *pipeCmd) Run(ctx context.Context, a *app) error {
	in, err := a.detect(ctx, a.stdin, &c.Agent)
	if err != nil {
		return err
	}
	run, err := daemon.Pipe(ctx, a.host(), in, worker.Spec{
		Run: string(c.Run_), Attributes: runs.Attributes{Agent: string(c.Agent), Labels: runs.LabelsOf(c.Label),
			Title: c.Title}, Source: runs.SourcePipe,
	}, c.Wait)
	if err != nil {
		return err
	}
	if c.assumed {
		_ = a.session(ctx, func(s *daemon.Session) error {
			found, known := s.Printed(ctx, string(c.Agent), run, known.Agents)
			a.misread(found, known, c.Agent, "pipe", "")
			return nil
		})
	}
	return a.print(map[string]any{"run": run, "agent": c.Agent}, func() error {
		_, err := fmt.Fprintln(a.stdout, run)
		return err
	})
}

type tailCmd struct {
	Agent agentKind `placeholder:"KIND" help:"Dialect of the files: ${agents}, or auto to tell it by their first lines (default codex)."`
	startFlags
	Once  bool     `help:"Import the files: stop at the end of each, instead of waiting for more."`
	Again bool     `help:"With --once: also import files that were imported before and have not changed."`
	Path  []string `arg:"" name:"path" help:"JSONL files."`
	jsonFlag

	assumed bool // nothing tells the agent
}

func (c *tailCmd) check(a *app) error {
	c.assumed = c.Agent.assume()
	_, err := a.backend(c.Agent)
	a.quiet = c.Once
	if c.Again && !c.Once {
		err = errors.Join(err, errors.New("--again: needs --once"))
	}
	return err
}

func (c *tailCmd) Run(ctx context.Context, a *app) error {
	if _, err := a.detect(ctx, nil, &c.Agent, c.Path...); err != nil {
		return err
	}
	if c.assumed { // the first files tell
		found, _, err := daemon.Detect(nil, known.Agents, c.Path[:min(len(c.Path), 16)]...)
		a.misread(found, err == nil, c.Agent, "tail", " …")
	}
	files := filePrinter{out: a.stdout, err: a.stderr, json: a.json}
	spec := worker.TailSpec{
		Paths: c.Path, Agent: string(c.Agent), Labels: runs.LabelsOf(c.Label), Title: c.Title, Once: c.Once, Again: c.Again,
		Began: files.began, Skipped: files.skipped, Waiting: files.waiting,
	}
	err := a.session(ctx, func(s *daemon.Session) error { return s.Tail(ctx, spec) })
	files.end()
	if c.Once && ctx.Err() != nil {
		err = errors.Join(err, errors.New("interrupted: the same command imports the rest"))
	}
	return err
}

type sessionsCmd struct {
	Agent agentKind `placeholder:"KIND" help:"Only sessions of this agent: ${session_agents}. By default of all."`
	labelFlag
	Since time.Duration `placeholder:"DURATION" help:"Also sessions that changed in this time before the start. By default that of --idle."`
	Idle  time.Duration `default:"30m" placeholder:"DURATION" help:"The run of a session ends when its log has not changed for this time (default 30m)."`
	jsonFlag
}

func (c *sessionsCmd) Run(ctx context.Context, a *app) error {
	files := filePrinter{out: a.stdout, err: a.stderr, json: a.json}
	defer files.open()
	spec, err := a.host().Sessions(string(c.Agent), worker.SessionsSpec{
		Labels: runs.LabelsOf(c.Label), Since: c.Since, Idle: c.Idle, Began: files.began,
	})
	if err != nil {
		return exitWith(exitUsage, err)
	}
	return a.session(ctx, func(s *daemon.Session) error { return s.WatchSessions(ctx, spec) })
}

type normalizeCmd struct {
	Agent        agentKind `default:"codex" placeholder:"KIND" help:"Dialect of the input: ${agents}, or auto to tell it by the first lines (default codex)."`
	ExitCode     *int      `name:"exit-code" placeholder:"N" help:"Exit code of the process that printed it: then the completion is printed, too."`
	MaxLineBytes string    `name:"max-line-bytes" setting:"max_line_bytes" placeholder:"SIZE" help:"${max_line_bytes}"`
}

func (c *normalizeCmd) check(a *app) error {
	_, err := a.backend(c.Agent)
	if c.ExitCode != nil && (*c.ExitCode < 0 || *c.ExitCode > 255) {
		err = errors.Join(err, fmt.Errorf("--exit-code: must be from 0 to 255, got %d", *c.ExitCode))
	}
	return err
}

func (c *normalizeCmd) Run(ctx context.Context, a *app) error {
	in, err := a.detect(ctx, a.stdin, &c.Agent)
	if err != nil {
		return err
	}
	b, err := a.backend(c.Agent)
	if err != nil {
		return err
	}
	return daemon.Normalize(in, b, int(a.config.MaxLineBytes), c.ExitCode, func(lines []byte) error {
		_, err := a.stdout.Write(console.JSONFor(a.stdout, lines))
		return err
	})
}
