package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/runs"
)

type submitCmd struct {
	Agent agentKind `placeholder:"NAME" help:"Agent of the task: ${one_agent}. By default that of the thread to resume, else codex."`
	taskFlags
	Dir          string        `placeholder:"DIR" help:"Working directory of the agent, on the worker's machine. By default the current one."`
	Resume       string        `placeholder:"THREAD" help:"Resume the thread of an earlier run, with its agent, in its directory."`
	OutputSchema string        `placeholder:"FILE" help:"JSON Schema of the agent's final answer."`
	IdleTimeout  time.Duration `placeholder:"DURATION" help:"End the run after this time without output."`
	Timeout      time.Duration `placeholder:"DURATION" help:"End the run this long after its start."`
	Wait         bool          `help:"Wait for the end of the run, and print its result."`
	WaitTimeout  time.Duration `placeholder:"DURATION" help:"Wait no longer than this; the run continues."`
	Live         bool          `help:"Start the agent as a server of the Agent Client Protocol (ACP): it may ask while it works. What --mode allows is allowed; for all else it waits for \"linesman answer\", or the page."`
	NoAsk        bool          `name:"no-ask" help:"With --live: nobody is asked. What --mode does not allow is denied."`
	Keep         bool          `help:"With --live: keep the run open after its first turn. \"linesman send\" sends it messages, \"linesman end\" ends it."`
	Policy       []string      `placeholder:"RULE" sep:"none" help:"With --live: deny, or ask for, what the worker would allow, such as \"deny execute: git push\" or \"ask edit\". Repeatable."`
	startFlags
	DestructiveGit bool `name:"allow-destructive-git" help:"The task may name git commands that can lose work, such as a rebase."`
	jsonFlag

	File   string `placeholder:"FILE" help:"Read the task from this file, at most 1 MiB."`
	Prompt string `arg:"" optional:"" help:"The task of the agent, at most 1 MiB. \"-\" reads it from stdin."`
}

func (c *submitCmd) Run(ctx context.Context, a *app) error {
	q, err := c.submission(a)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	return a.ask(ctx, func(l *client.Client) error {
		run, err := l.SubmitRun(ctx, q)
		if err != nil {
			return c.notAccepted(err)
		}
		if c.Wait {
			fmt.Fprintf(a.stderr, "linesman: run %s\n", run.ID)
			return a.wait(ctx, l, run.ID, c.WaitTimeout)
		}
		return a.print(run, func() error {
			if _, err := fmt.Fprintln(a.stdout, run.ID); err != nil || !a.shown(a.stdout).Terminal() {
				return err
			}
			return console.Submitted(a.stderr, run.ID, *cmp.Or(run.Position, new(int)))
		})
	})
}

// notAccepted is the error of a submission.
func (c *submitCmd) notAccepted(err error) error {
	names := api.NamesOf(func(n api.Name) string { return n.Flag })
	if c.Dir == "" && c.Resume == "" {
		names[api.FieldDir] = "the current directory (--dir)"
	}
	said := explain(err, names, "")
	var e *api.Error
	answered := errors.As(err, &e) && e.Err == nil
	if answered || errors.Is(err, client.ErrNoResponder) || errors.Is(err, client.ErrDenied) {
		return said
	}
	return fmt.Errorf("it is not known whether the task was accepted: %w", said)
}

// submission is the request that the flags specify. The error has all mistakes
// that are known without the responder.
func (c *submitCmd) submission(a *app) (api.Submission, error) {
	wholeSeconds := func(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
	task := c.task()
	task.Agent, task.Thread, task.Title, task.Labels = string(c.Agent), c.Resume, c.Title, runs.LabelsOf(c.Label)
	if task.Live, task.Keep, task.Policy = c.Live, c.Keep, c.Policy; c.NoAsk {
		task.Ask = new(false)
	}
	task.Idle, task.Hard = wholeSeconds(c.IdleTimeout), wholeSeconds(c.Timeout)
	q := api.Submission{Task: task, Confirm: task.Mode.Writes(), DestructiveGit: c.DestructiveGit}
	var wrong problems
	var err error
	from := "PROMPT"
	if c.File != "" {
		from = "--file"
	}
	wrong.add(c.Prompt == "" && c.File == "", `expected "<prompt>", "-" to read it from stdin, or --file FILE`)
	wrong.add(c.Prompt != "" && c.File != "", "PROMPT: not with --file, which has it")
	q.Prompt, err = daemon.ReadPrompt(a.stdin, c.Prompt, c.File)
	wrong.add(err != nil, "%s: %w", from, err)
	q.Schema, err = daemon.ReadSchema(a.stdin, c.OutputSchema)
	wrong.add(err != nil, "--output-schema: %w", err)
	for _, l := range []struct {
		flag string
		d    time.Duration
	}{{"--idle-timeout", c.IdleTimeout}, {"--timeout", c.Timeout}, {"--wait-timeout", c.WaitTimeout}} {
		wrong.add(l.d < 0, "%s: must not be negative, got %s", l.flag, l.d)
	}
	wrong.add(c.WaitTimeout > 0 && !c.Wait, "--wait-timeout: is for --wait")
	if c.Resume != "" {
		for _, o := range []struct {
			flag  string
			given bool
		}{
			{"--dir", c.Dir != ""}, {"--skip-git-repo-check", c.SkipGit}, {"--env", c.Env != runs.InheritNone},
			{"--allow-env", c.AllowEnv != nil},
		} {
			wrong.add(o.given, "%s: not with --resume, which continues with the settings of the thread", o.flag)
		}
		q.SkipGit, q.Env = false, runs.EnvPolicy{}
		return q, errors.Join(wrong...)
	}
	q.Dir, err = filepath.Abs(c.Dir) // "" is the current one
	wrong.add(err != nil, "--dir: %w", err)
	return q, errors.Join(wrong...)
}
