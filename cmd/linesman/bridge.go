package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/responder/bridge"
)

type bridgeCmd struct {
	Watch  bridgeWatchCmd  `cmd:"" logs:"" default:"withargs" help:"Watch directories, and answer the requests there (default)."`
	List   bridgeListCmd   `cmd:"" help:"List the requests that wait for an answer from outside."`
	Answer bridgeAnswerCmd `cmd:"" help:"Answer a request from outside."`
	Check  bridgeCheckCmd  `cmd:"" settings:"none" help:"List the mistakes of a response file."`
}

type bridgeWatchCmd struct {
	Dir        []string  `sep:"none" placeholder:"DIR" help:"Directory to watch; can be repeated. By default ~/.agentecflow/state and the current one."`
	External   bool      `help:"Start no agents: requests wait for an answer from outside."`
	Agent      agentKind `default:"auto" placeholder:"NAME" help:"Agent of the tasks: ${one_agent}. By default auto: that of the model of a request if its name tells it, such as claude-…, else codex."`
	WorkingDir string    `placeholder:"DIR" help:"Working directory of the agents, on the worker's machine. By default the current one."`
	taskFlags
	MaxTimeout time.Duration `placeholder:"DURATION" help:"Maximum time limit of a request. By default work.hard."`
	AtOnce     int           `default:"16" placeholder:"N" help:"Maximum number of requests of one directory that wait for answers at the same time, 1 to 256 (default 16)."`
}

func (c *bridgeWatchCmd) Run(ctx context.Context, a *app) error {
	kind := c.Agent
	if _, err := a.config.Table().Named(string(kind)); kind != auto && err != nil {
		return exitWith(exitUsage, fmt.Errorf("--agent: %w", err))
	}
	if kind == auto {
		kind = ""
	}
	task := c.task()
	task.Agent, task.Dir = string(kind), c.WorkingDir
	dirs, q, err := a.host().PlanBridge(daemon.BridgePlan{
		Dirs: c.Dir, External: c.External, MaxTimeout: c.MaxTimeout, AtOnce: c.AtOnce, Task: task,
	})
	if err != nil {
		return exitWith(exitUsage, err)
	}
	return daemon.Bridge(ctx, a.host(), bridge.Config{
		Dirs: dirs, MaxTimeout: cmp.Or(c.MaxTimeout, a.config.Work.Hard), MaxAtOnce: c.AtOnce,
		Ready: func() {
			line := "ready"
			for _, dir := range dirs {
				path, _ := filepath.Abs(dir.Path) // no error: the bridge has resolved it
				line += " dir=" + path
			}
			fmt.Fprintln(a.stdout, line)
		},
	}, q)
}

type bridgeCheckCmd struct {
	File string `arg:"" help:"The response file. \"-\" is stdin."`
	jsonFlag
}

func (c *bridgeCheckCmd) Run(a *app) error {
	text, err := daemon.ReadInput(a.stdin, c.File, bridge.MaxResponse)
	if err != nil {
		return err
	}
	name := c.File
	if name == "-" {
		name = "stdin"
	}
	var wrong problems
	mistakes := bridge.Check(text)
	for _, m := range mistakes {
		wrong.add(true, "%s: %s", name, m)
	}
	if a.json {
		answer := map[string]any{"ok": len(mistakes) == 0, "mistakes": append([]string{}, mistakes...)}
		err = console.PrintJSON(a.stdout, answer)
	}
	return errors.Join(append(wrong, err)...)
}
