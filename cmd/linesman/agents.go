package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/cmd/doctor"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/worker"
	"github.com/linesman/linesman/worker/programs"
)

type agentsCmd struct {
	Agent agentKind `arg:"" optional:"" help:"Print all about this agent."`
	jsonFlag
}

func (c *agentsCmd) Run(ctx context.Context, a *app) error {
	table := a.config.Table()
	here := programs.Here{Launches: a.config.Launches(table), Danger: a.config.Work.Danger,
		Boxed: a.config.Work.ExternalSandbox, Environ: a.environ}
	all, err := here.List(ctx, table, string(c.Agent))
	if err != nil {
		return exitWith(exitUsage, err)
	}
	if !slices.ContainsFunc(all, programs.Agent.Ready) {
		err = exitWith(exitFailed, nil)
	}
	doctor.AddDrift(ctx, a.dialer, all)
	return errors.Join(err, a.print(map[string]any{"agents": all}, func() error {
		return a.shown(a.stdout).Agents(all, c.Agent != "")
	}))
}

// auto is the agent whose dialect the input itself tells.
const auto agentKind = "auto"

// detect sets kind, if it is auto, to the agent that printed in, or the files at paths, and
// says so. It returns a reader of all of in, until ctx ends.
func (a *app) detect(ctx context.Context, in io.Reader, kind *agentKind, paths ...string) (io.Reader, error) {
	if in = worker.Interruptible(ctx, in); *kind != auto {
		return in, nil
	}
	found, in, err := daemon.Detect(in, known.Agents, paths...)
	if err == nil {
		*kind = agentKind(found.Kind())
		fmt.Fprintf(a.stderr, "linesman: this is the output of %s\n", found.Name)
	}
	return in, err
}

// assume makes the default agent of a kind that was not given, and reports whether it was not.
func (kind *agentKind) assume() bool {
	if *kind != "" {
		return false
	}
	*kind = api.DefaultAgent
	return true
}

// misread says that an output, which was read as that of an assumed agent, looks like that of the one that was found.
func (a *app) misread(found agent.Agent, known bool, assumed agentKind, command, rest string) {
	if known && found.Kind() != string(assumed) {
		fmt.Fprintf(a.stderr, "its output looks like that of %s: type `linesman %s --agent %s%s`\n", found.Name, command,
			found.Short, rest)
	}
}
