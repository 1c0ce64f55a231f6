package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/cmd/setup"
	"github.com/linesman/linesman/daemon/datadir"
)

type setupSessionsCmd struct {
	Agent  string `placeholder:"NAME" help:"Only this agent."`
	Remove bool   `help:"Remove the hooks again."`
	DryRun bool   `name:"dry-run" help:"Only print what would be written."`
	jsonFlag
}

func (c *setupSessionsCmd) Run(a *app) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	s := setup.Sessions{
		Program: program, DataDir: a.config.DataDir, Getenv: a.getenv, Remove: c.Remove, DryRun: c.DryRun,
	}
	only := ""
	if c.Agent != "" {
		one, err := known.Agents.Named(c.Agent)
		if err != nil {
			return exitWith(exitUsage, fmt.Errorf("--agent: %w", err))
		}
		if only = one.Short; one.Sessions.Hooks.File == "" {
			return exitWith(exitUsage, fmt.Errorf("--agent: %s has no hooks that linesman could use", one.Name))
		}
	}
	done := []setup.Hooked{}
	var errs []error
	for _, one := range known.Agents {
		if one.Sessions.Hooks.File == "" || only != "" && one.Short != only {
			continue
		}
		h, err := s.Hook(one)
		switch {
		case errors.Is(err, fs.ErrNotExist) && c.Agent == "": // the agent is not used here
		case err != nil:
			errs = append(errs, err)
		default:
			done = append(done, h)
		}
	}
	if len(done) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no agent with hooks is used here: neither Claude Code nor Codex has its directory"))
	}
	err = a.print(done, func() error {
		for _, h := range done {
			fmt.Fprintf(a.stdout, "%s: %s %s\n", h.Agent, h.File, c.did(h))
			if h.Command != "" {
				fmt.Fprintf(a.stdout, "  on %s: %s\n", strings.Join(h.Events, ", "), h.Command)
			}
			if h.After != "" && h.Changed && !c.DryRun {
				fmt.Fprintf(a.stdout, "  %s\n", h.After)
			}
		}
		return nil
	})
	return errors.Join(append(errs, err)...)
}

// did says for people what was done.
func (c *setupSessionsCmd) did(h setup.Hooked) string {
	switch {
	case !h.Changed && c.Remove:
		return "has none of these hooks"
	case !h.Changed:
		return "has the hooks already"
	case c.DryRun:
		return "would be changed"
	case c.Remove:
		return "has these hooks no more"
	}
	return "has new hooks"
}

// hookCmd is started by agents. It prints nothing, never fails, and takes a second at most.
type hookCmd struct {
	Agent string `arg:"" help:"The agent that starts it."`
}

func (c *hookCmd) Run(a *app) error {
	one, err := known.Agents.Named(c.Agent)
	if err != nil {
		return nil
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// An error must not reach the agent: without a note, linesman only knows less.
		_ = setup.LeaveNote(a.stdin, datadir.HookDir(a.config.DataDir, one.Kind()), time.Now())
	}()
	select {
	case <-done:
	case <-time.After(time.Second): // stdin stays open
	}
	return nil
}
