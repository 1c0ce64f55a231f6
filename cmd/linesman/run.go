package main

import (
	"context"
	"errors"
	"slices"

	"github.com/alecthomas/kong"
)

type runCmd struct {
	Agent       agentKind `default:"codex" placeholder:"KIND" help:"The dialect the command prints."`
	Run_        runID     `name:"run" placeholder:"ID" help:"Id of the run: 1 to 64 of A-Z a-z 0-9 _ -. By default a new one."`
	Label       labels    `placeholder:"K=V" mapsep:"none" help:"Label of the run; can be repeated."`
	IdleTimeout string    `name:"idle-timeout" setting:"limits.idle" placeholder:"DURATION" help:"${limits_idle}"`
	Timeout     string    `name:"timeout" setting:"limits.hard" placeholder:"DURATION" help:"${limits_hard}"`
	JSON        bool      `name:"json" help:"Print the events as JSON lines, not for people."`
	Command     []string  `arg:"" name:"cmd" help:"The agent's command line, after --."`
}

// Help is printed by `linesman run --help`.
func (runCmd) Help() string {
	return `The agent is started at most once, as a child of this command, with /dev/null as its stdin. What it prints is kept
on this machine until NATS has it, so nothing is lost while NATS is away. Its events are printed as they are stored.

Examples:

    linesman run -- codex exec --json "Fix the failing test."
    linesman run --label ticket=42 --timeout 20m -- codex exec --json --sandbox workspace-write "Go."

Exit status: the agent's own; 128+N when signal N ended it; 124 when a limit did; 125 when linesman itself failed;
126 when the command cannot be executed; 127 when it is not found; 2 for bad flags or settings.`
}

// Validate is called by kong. Without the dashes, linesman would take flags of
// the agent for its own.
func (c *runCmd) Validate(kctx *kong.Context) error {
	if !slices.Contains(kctx.Args, "--") {
		return errors.New("the agent's command line must come after --")
	}
	return nil
}

func (c *runCmd) Run(ctx context.Context, a *app) error { return exitWith(exitLinesman, errNotBuilt) }
