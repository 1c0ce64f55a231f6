package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bridge"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
)

type bridgeCmd struct {
	Watch  bridgeWatchCmd  `cmd:"" logs:"" default:"withargs" help:"Watch directories, and answer the requests there (default)."`
	List   bridgeListCmd   `cmd:"" help:"List the requests that wait for an answer from outside."`
	Answer bridgeAnswerCmd `cmd:"" help:"Answer a request from outside."`
	Check  bridgeCheckCmd  `cmd:"" settings:"none" help:"List the mistakes of a response file."`
}

type bridgeWatchCmd struct {
	Dir        []string `sep:"none" placeholder:"DIR" help:"Directory to watch; can be repeated. By default ~/.agentecflow/state and the current one."`
	External   bool     `help:"Start no agents: requests wait for an answer from outside."`
	WorkingDir string   `placeholder:"DIR" help:"Working directory of the agents, on the worker's machine. By default the current one."`
	taskFlags
	MaxTimeout time.Duration `placeholder:"DURATION" help:"Maximum time limit of a request. By default work.hard."`
	AtOnce     int           `default:"16" placeholder:"N" help:"Maximum number of requests of one directory that wait for answers at the same time, 1 to 256 (default 16)."`
}

func (c *bridgeWatchCmd) Run(ctx context.Context, a *app) error {
	dirs, task, err := c.plan(a)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	if c.External {
		task = nil
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
	}, task)
}

// plan is what the flags specify: the directories with requests, and what their
// tasks have in common. The error has all mistakes.
func (c *bridgeWatchCmd) plan(a *app) (dirs []bridge.Dir, q *api.Submission, err error) {
	var wrong problems
	for _, dir := range c.Dir {
		info, err := os.Stat(dir)
		wrong.add(err != nil, "--dir: %w", err)
		wrong.add(err == nil && !info.IsDir(), "--dir: %s is not a directory", dir)
		dirs = append(dirs, bridge.Dir{Path: dir, Must: true})
	}
	if c.Dir == nil {
		if home := a.getenv("HOME"); filepath.IsAbs(home) {
			dirs = append(dirs, bridge.Dir{Path: filepath.Join(home, ".agentecflow", "state")})
		}
		dirs = append(dirs, bridge.Dir{Path: ".", Must: true})
	}
	wrong.add(c.External && (c.Mode != string(runs.ReadOnly) || c.WorkingDir != "" || c.Model != "" || c.SkipGit ||
		c.Env != runs.InheritNone || c.AllowEnv != nil), "--external: not with flags for agents, which it does not start")
	task := runs.Task{
		Run: "T-local-unnamed", Prompt: "x", Agent: api.DefaultAgent, Mode: runs.Mode(c.Mode), Model: c.Model,
		SkipGit: c.SkipGit, Env: c.env(),
	}
	task.Dir, err = filepath.Abs(c.WorkingDir) // "" is the current one
	wrong.add(err != nil, "--working-dir: %w", err)
	wrong.add(task.Mode == runs.DangerFull && !a.config.Work.Danger,
		"--mode: danger-full-access is not allowed here: see the setting work.danger")
	wrong.add(c.MaxTimeout < 0, "--max-timeout: must not be negative, got %s", c.MaxTimeout)
	most := a.config.Work.MaxLimit
	wrong.add(c.MaxTimeout > most, "--max-timeout: at most %s, which is work.max_limit, got %s", most, c.MaxTimeout)
	wrong.add(c.AtOnce < 1 || c.AtOnce > 256, "--at-once: must be 1 to 256, got %d", c.AtOnce)
	names := map[string]string{"model": "--model", "dir": "--working-dir", "env.policy": "--env",
		"env.allow": "--allow-env"}
	if bad := task.Check(); bad != nil {
		for line := range strings.SplitSeq(bad.Error(), "\n") {
			field, problem, _ := strings.Cut(line, ": ")
			wrong.add(true, "%s: %s", cmp.Or(names[field], field), problem)
		}
	}
	return dirs, &api.Submission{
		// the owner of the directories has chosen the mode
		Agent: task.Agent, Mode: task.Mode, Confirm: true, DestructiveGit: true,
		Dir: task.Dir, Model: task.Model, SkipGit: task.SkipGit, Env: task.Env,
	}, errors.Join(wrong...)
}

type bridgeCheckCmd struct {
	File string `arg:"" help:"The response file. \"-\" is stdin."`
}

func (c *bridgeCheckCmd) Run(a *app) error {
	text, err := a.readFile(c.File, bridge.MaxResponse)
	if err != nil {
		return err
	}
	name := c.File
	if name == "-" {
		name = "stdin"
	}
	var wrong problems
	for _, m := range bridge.Check(text) {
		wrong.add(true, "%s: %s", name, m)
	}
	return errors.Join(wrong...)
}
