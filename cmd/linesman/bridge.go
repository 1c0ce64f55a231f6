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
	"github.com/linesman/linesman/cmd/bridge"
	"github.com/linesman/linesman/cmd/console"
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
	dirs, q, err := c.plan(a, task)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	err = a.session(ctx, func(s *daemon.Session) error {
		config := bridge.Config{
			Dirs: dirs, MaxTimeout: cmp.Or(c.MaxTimeout, a.config.Work.Hard), MaxAtOnce: c.AtOnce,
			State: filepath.Join(a.config.DataDir, "bridge"), Log: a.log,
			Client: s.Client(), Table: a.config.Table(), Task: q, External: c.External,
			Ready: func() {
				line := "ready"
				for _, dir := range dirs {
					path, _ := filepath.Abs(dir.Path) // no error: the bridge has resolved it
					line += " dir=" + path
				}
				fmt.Fprintln(a.stdout, line)
			},
		}
		if err := bridge.Run(ctx, config); err != nil {
			return fmt.Errorf("bridge: %w", err)
		}
		return nil
	})
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// maxAtOnce is the highest number of requests of one directory that wait at the same time.
const maxAtOnce = 256

// plan returns the directories with requests, and what their tasks have in common: task, in the current
// directory unless it names one. The error joins all mistakes, in the words of the flags.
func (c *bridgeWatchCmd) plan(a *app, task runs.Task) (dirs []bridge.Dir, q api.Submission, err error) {
	var wrong []error
	add := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	for _, dir := range c.Dir {
		info, err := os.Stat(dir)
		add(err != nil, "--dir: %w", err)
		add(err == nil && !info.IsDir(), "--dir: %s is not a directory", dir)
		dirs = append(dirs, bridge.Dir{Path: dir, Must: true})
	}
	if c.Dir == nil {
		if home := a.getenv("HOME"); filepath.IsAbs(home) {
			dirs = append(dirs, bridge.Dir{Path: filepath.Join(home, ".agentecflow", "state")})
		}
		dirs = append(dirs, bridge.Dir{Path: ".", Must: true})
	}
	own := task.Attributes != runs.Attributes{Mode: runs.ReadOnly} || task.SkipGit ||
		task.Env.Policy != runs.InheritNone
	add(c.External && own, "--external: not with flags for agents, which it does not start")
	q = api.Submission{Task: task, Confirm: true,
		DestructiveGit: true} // the owner of the directories has chosen the mode
	q.Dir, err = filepath.Abs(q.Dir) // "" is the current one
	add(err != nil, "--working-dir: %w", err)
	task.Dir = q.Dir
	task.Agent, task.Prompt = cmp.Or(task.Agent, api.DefaultAgent), "x"
	add(task.Mode == runs.DangerFull && !a.config.Work.Danger,
		"--mode: danger-full-access is not allowed here: see the setting work.danger")
	add(c.MaxTimeout < 0, "--max-timeout: must not be negative, got %s", c.MaxTimeout)
	most := a.config.Work.MaxLimit
	add(c.MaxTimeout > most, "--max-timeout: at most %s, which is work.max_limit, got %s", most, c.MaxTimeout)
	add(c.AtOnce < 1 || c.AtOnce > maxAtOnce, "--at-once: must be 1 to %d, got %d", maxAtOnce, c.AtOnce)
	names := api.NamesOf(func(n api.Name) string { return n.Flag })
	names[api.FieldDir] = "--working-dir"
	if bad := task.Check(); bad != nil {
		for line := range strings.SplitSeq(bad.Error(), "\n") {
			field, problem, _ := strings.Cut(line, ": ")
			add(true, "%s: %s", cmp.Or(names[field], field), problem)
		}
	}
	return dirs, q, errors.Join(wrong...)
}

type bridgeCheckCmd struct {
	File string `arg:"" help:"The response file. \"-\" is stdin."`
	jsonFlag
}

func (c *bridgeCheckCmd) Run(ctx context.Context, a *app) error {
	text, err := readInput(ctx, a.stdin, c.File, bridge.MaxResponse)
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
