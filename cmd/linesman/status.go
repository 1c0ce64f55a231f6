package main

import (
	"context"
	"errors"

	"github.com/linesman/linesman/api"
)

type statusCmd struct {
	Run_  runID `arg:"" name:"run" optional:"" help:"Only this run."`
	Limit int   `default:"10" placeholder:"N" help:"How many runs to list that have ended, 1 to 100 (default 10)."`
	Tasks bool  `help:"Only runs that came by the work queue."`
	JSON  bool  `name:"json" help:"Print the responder's answer, a v3.6 envelope, on one line."`
}

// Help is printed by `linesman status --help`.
func (statusCmd) Help() string {
	return `Says which runs work and how far they are, which wait and at which place, and which ended last. One line is one run: its
state, its id, and what there is to say. Steps are those of the agent's own to-do list; without one, none are shown.

Examples:

    linesman status
    linesman status T-local-0mwqeheq41ojmir
    linesman status --tasks --json | jq .data.summary

Exit status: 0 done, 1 failed, 2 bad flags or settings, 3 NATS or the responder is out of reach, 4 there is no such run.`
}

func (c *statusCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	if c.Run_ != "" && c.Tasks {
		return exitWith(exitUsage, errors.New("--tasks: not for a single run"))
	}
	l, err := a.responder(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	flags := map[string]string{"limit": "--limit"}
	switch {
	case c.JSON:
		tool, args := c.tool()
		e, err := l.Tool(ctx, tool, args)
		return a.printEnvelope(e, err, flags, c.Run_)
	case c.Run_ != "":
		look := l.Status
		if c.Run_.inCloud() { // its record has the address of its page
			look = l.Describe
		}
		run, err := look(ctx, string(c.Run_))
		if err != nil {
			return explain(err, nil, c.Run_)
		}
		return a.shown(a.stdout).Run(run)
	case c.Limit == 0: // which is the default of a request
		return exitWith(exitUsage, errors.New("--limit: must be 1 to 100"))
	}
	all, err := l.Overview(ctx, api.OverviewRequest{Limit: c.Limit, Queue: c.Tasks})
	if err != nil {
		return explain(err, flags, "")
	}
	return a.shown(a.stdout).Overview(all)
}

// tool is the tool for the envelope, with its arguments.
func (c *statusCmd) tool() (string, map[string]any) {
	if c.Run_ != "" {
		return c.Run_.tool("status"), c.Run_.named()
	}
	return "_codex_local_status", map[string]any{"limit": c.Limit, "showAll": !c.Tasks}
}
