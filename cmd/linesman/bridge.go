package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bridge"
	"github.com/linesman/linesman/bridge/runner"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
)

type bridgeCmd struct {
	Watch  bridgeWatchCmd  `cmd:"" default:"withargs" help:"Watch directories, and answer what is asked there (default)."`
	List   bridgeListCmd   `cmd:"" help:"List the requests that wait for an answer from outside."`
	Answer bridgeAnswerCmd `cmd:"" help:"Answer a request from outside."`
	Check  bridgeCheckCmd  `cmd:"" settings:"none" help:"Name every mistake of a response file."`
}

type bridgeWatchCmd struct {
	Dir        []string      `sep:"none" placeholder:"DIR" help:"Directory to watch; can be repeated. By default ~/.agentecflow/state and the current one."`
	External   bool          `help:"Have nobody work: requests wait for an answer from outside."`
	Mode       string        `default:"read-only" enum:"read-only,workspace-write,danger-full-access" placeholder:"MODE" help:"What agents may do: read-only, workspace-write or danger-full-access (default read-only)."`
	WorkingDir string        `placeholder:"DIR" help:"Where agents work: a directory on the worker's machine. By default the current one."`
	Model      string        `placeholder:"MODEL" help:"Model of the agents, whatever a request asks for. By default that, or their own choice."`
	SkipGit    bool          `name:"skip-git-repo-check" help:"Work outside of a git repository, too."`
	Env        string        `default:"inherit-none" enum:"inherit-none,inherit-all,allow-list" placeholder:"POLICY" help:"Which of the worker's variables agents get beyond what every program needs: inherit-none, inherit-all or allow-list (default inherit-none)."`
	AllowEnv   []string      `placeholder:"NAME" help:"Give agents this variable of the worker's: the policy is then allow-list. Repeat it or separate names with commas."`
	MaxTimeout time.Duration `placeholder:"DURATION" help:"Most time that a request gets, whatever it asks for. By default work.hard."`
	AtOnce     int           `default:"16" placeholder:"N" help:"Requests of one directory that wait for their answers at a time, 1 to 256 (default 16)."`
}

// Help is printed by `linesman bridge --help`.
func (bridgeCmd) Help() string {
	return `A program that needs an agent writes .agent-request*.json and ends with the status 42. This has Codex do what the file
asks for, writes .agent-response*.json beside it, and removes the request; the program, started again, goes on from there.
It works with the "linesman up" of this data directory, which it starts in the background where none runs, or with the
NATS server of --nats. Once it watches it prints one line,

    ready dir=DIR dir=DIR

A request is answered once: after a crash the next bridge on this data directory goes on. Who can write files as you into
a watched directory gives tasks as you; files of others are left alone.

Examples:

    linesman bridge
    linesman bridge --dir ~/.agentecflow/state --working-dir ~/src/project --mode workspace-write
    linesman bridge --external
    linesman bridge answer 32ecfadc-2b66-4daa-a7c0-a03c449fcea5 "Use the second one."
    linesman bridge check .agent-response.json

What can be asked for is told by "linesman bridge watch --help".

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 NATS is out of reach. Of check: 0 no mistake,
1 mistakes.`
}

// Help is printed by `linesman bridge watch --help`.
func (bridgeWatchCmd) Help() string {
	return `What "linesman bridge" does without another word; see its help. An explicit --dir must be there; the default in the home
directory is waited for.

Examples:

    linesman bridge --dir ~/.agentecflow/state --working-dir ~/src/project --mode workspace-write
    linesman bridge --max-timeout 10m --skip-git-repo-check
    linesman bridge --external --dir ~/.agentecflow/state

With --external each request is a run in the state input-required until somebody answers it: with "linesman bridge answer",
a NATS request, or a response file beside the request. Its time counts all the same.

Exit status: 0 ended by a signal, 1 failed, 2 bad flags or settings, 3 NATS is out of reach.`
}

func (c *bridgeWatchCmd) Run(ctx context.Context, a *app) error {
	dirs, task, err := c.plan(a)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	return quiet(a.withService(ctx, func(ctx context.Context, s *daemon.Service) error {
		if c.External {
			return c.watch(ctx, a, dirs, &runner.External{Service: s.Service})
		}
		return c.watch(ctx, a, dirs, &runner.Agents{Service: s.Service, Task: task})
	}))
}

// plan is what the flags ask for: where requests are, and what tasks have in
// common. The error has all that is wrong.
func (c *bridgeWatchCmd) plan(a *app) (dirs []bridge.Dir, q api.Submission, err error) {
	var wrong []error
	for _, dir := range c.Dir {
		info, err := os.Stat(dir)
		if err != nil {
			wrong = append(wrong, fmt.Errorf("--dir: %w", err))
		} else if !info.IsDir() {
			wrong = append(wrong, fmt.Errorf("--dir: %s is not a directory", dir))
		}
		dirs = append(dirs, bridge.Dir{Path: dir, Must: true})
	}
	if c.Dir == nil {
		if home := lookup(a.environ, "HOME"); filepath.IsAbs(home) {
			dirs = append(dirs, bridge.Dir{Path: filepath.Join(home, ".agentecflow", "state")})
		}
		dirs = append(dirs, bridge.Dir{Path: ".", Must: true})
	}
	if c.External && (c.Mode != string(runs.ReadOnly) || c.WorkingDir != "" || c.Model != "" || c.SkipGit ||
		c.Env != runs.InheritNone || c.AllowEnv != nil) {
		wrong = append(wrong, errors.New("--external: nobody works here, so no other flag can say how"))
	}
	task := runs.Task{
		Agent: api.DefaultAgent, Mode: runs.Mode(c.Mode), Model: c.Model, SkipGit: c.SkipGit,
		Env: runs.EnvPolicy{Policy: c.Env, Allow: c.AllowEnv},
	}
	if task.Dir, err = filepath.Abs(c.WorkingDir); err != nil { // "" is the current one
		wrong = append(wrong, fmt.Errorf("--working-dir: %w", err))
	}
	if c.AllowEnv != nil && c.Env == runs.InheritNone {
		task.Env.Policy = runs.InheritList
	}
	if task.Mode == runs.DangerFull && !a.config.Work.Danger {
		wrong = append(wrong, errors.New("--mode: danger-full-access is not allowed here: see the setting work.danger"))
	}
	if c.MaxTimeout < 0 {
		wrong = append(wrong, fmt.Errorf("--max-timeout: must not be negative, got %s", c.MaxTimeout))
	}
	if most := a.config.Work.MaxLimit; c.MaxTimeout > most {
		wrong = append(wrong, fmt.Errorf("--max-timeout: at most %s, which is work.max_limit, got %s", most, c.MaxTimeout))
	}
	if c.AtOnce < 1 || c.AtOnce > 256 {
		wrong = append(wrong, fmt.Errorf("--at-once: must be 1 to 256, got %d", c.AtOnce))
	}
	example := task
	example.Run, example.Prompt = "T-local-unnamed", "x"
	names := map[string]string{"model": "--model", "dir": "--working-dir", "env.policy": "--env",
		"env.allow": "--allow-env"}
	if bad := example.Check(); bad != nil {
		for line := range strings.SplitSeq(bad.Error(), "\n") {
			field, problem, _ := strings.Cut(line, ": ")
			if flag := names[field]; flag != "" {
				field = flag
			}
			wrong = append(wrong, fmt.Errorf("%s: %s", field, problem))
		}
	}
	q = api.Submission{
		// the owner of the directories has chosen the mode
		Agent: task.Agent, Mode: task.Mode, Confirm: true, DestructiveGit: true,
		Dir: task.Dir, Model: task.Model, SkipGit: task.SkipGit, Env: task.Env,
	}
	return dirs, q, errors.Join(wrong...)
}

// watch answers requests until ctx ends.
func (c *bridgeWatchCmd) watch(ctx context.Context, a *app, dirs []bridge.Dir, runner bridge.Runner) error {
	most := c.MaxTimeout
	if most == 0 {
		most = a.config.Work.Hard
	}
	err := bridge.New(bridge.Config{
		Dirs: dirs, State: filepath.Join(a.config.DataDir, "bridge"), Runner: runner,
		MaxTimeout: most, MaxAtOnce: c.AtOnce, Log: a.log,
		Ready: func() {
			line := "ready"
			for _, dir := range dirs {
				path, err := filepath.Abs(dir.Path)
				if err != nil { // it was absolute a moment ago
					path = dir.Path
				}
				line += " dir=" + path
			}
			fmt.Fprintln(a.stdout, line)
		},
	}).Run(ctx)
	if err != nil {
		return fmt.Errorf("bridge: %w", err)
	}
	return nil
}
