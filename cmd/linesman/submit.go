package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/runs"
)

// newRunFlags are the flags of commands that submit a task of the command line.
type newRunFlags struct {
	Agent agentKind `placeholder:"NAME" help:"Agent of the task: ${one_agent}. By default that of the thread to resume, else codex."`
	taskFlags
	Dir         string         `placeholder:"DIR" help:"Working directory of the agent, on the worker's machine. By default the current one."`
	IdleTimeout *time.Duration `placeholder:"DURATION" help:"End the run after this time without output, at most 24h. By default the worker decides."`
	Timeout     *time.Duration `placeholder:"DURATION" help:"End the run this long after its start, at most 24h. By default the worker decides."`
	Policy      []string       `placeholder:"RULE" sep:"none" help:"Of a live run: deny, or ask for, what the worker would allow, such as \"deny execute: git push\" or \"ask edit\". Repeatable."`
	startFlags
	DestructiveGit bool `name:"allow-destructive-git" help:"The task may name git commands that can lose work, such as a rebase."`
}

type submitCmd struct {
	newRunFlags
	Resume       string        `placeholder:"THREAD" help:"Resume the thread of an earlier run, with its agent, in its directory; or \"last\": the one of the agent in the directory of the task that was used last."`
	Fork         string        `placeholder:"THREAD" help:"Begin with a copy of a thread, which stays as it is: its id, or \"last\"."`
	Force        bool          `help:"With --resume: also if the session changed in the last minute, not by a run of linesman: then its program may still use it."`
	OutputSchema string        `placeholder:"FILE" help:"JSON Schema of the agent's final answer."`
	Wait         bool          `help:"Wait for the end of the run, and print its result."`
	WaitTimeout  time.Duration `placeholder:"DURATION" help:"Wait no longer than this; the run continues."`
	Live         bool          `help:"Start the agent as a server of the Agent Client Protocol (ACP): it may ask while it works. What --mode allows is allowed; for all else it waits for \"linesman answer\", or the page."`
	NoAsk        bool          `name:"no-ask" help:"With --live: nobody is asked. What --mode does not allow is denied."`
	Keep         bool          `help:"With --live: keep the run open after its first turn. \"linesman send\" sends it messages, \"linesman end\" ends it."`
	AddDir       []string      `sep:"none" placeholder:"DIR" help:"The agent may use this directory, too; relative to its working directory. Repeatable; Codex, Claude Code and Kimi Code only."`
	Unboxed      bool          `name:"external-sandbox" help:"The worker is in a sandbox: start the agent without its own, in mode danger-full-access. Only for a worker with the setting work.external_sandbox; Codex and Claude Code only."`
	Extension    []string      `sep:"none" placeholder:"ID=VALUE" help:"Option by its id in the Universal Agent API. VALUE is JSON, or else a text. Repeatable."`
	jsonFlag

	File   string `placeholder:"FILE" help:"Read the task from this file, at most 1 MiB."`
	Prompt string `arg:"" optional:"" help:"The task of the agent, at most 1 MiB. \"-\" reads it from stdin."`
}

func (c *submitCmd) Run(ctx context.Context, a *app) error {
	q, err := c.submission(ctx, a)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	return a.ask(ctx, func(l *client.Client) error {
		run, err := l.SubmitRun(ctx, q)
		if err != nil {
			return c.notAccepted(err, c.settled())
		}
		if c.Wait {
			fmt.Fprintf(a.stderr, "linesman: run %s\n", run.ID)
			return a.wait(ctx, l, run.ID, c.WaitTimeout)
		}
		return a.print(run, func() error {
			if _, err := fmt.Fprintln(a.stdout, run.ID); err != nil || !a.shown(a.stdout).Terminal() {
				return err
			}
			return console.Submitted(a.stderr, run.ID, *cmp.Or(run.Position, new(int)), q.Keep)
		})
	})
}

// notAccepted is the error of a submission.
func (f *newRunFlags) notAccepted(err error, resumed bool) error {
	names := api.NamesOf(func(n api.Name) string { return n.Flag })
	if f.Dir == "" && !resumed {
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

// submission is the request for a task of the command line, and the mistakes that are known without the responder.
func (f *newRunFlags) submission() (q api.Submission, wrong problems) {
	wholeSeconds := func(flag string, d *time.Duration) int64 {
		if d == nil {
			return 0
		}
		wrong.add(*d < 0, "%s: must not be negative, got %s", flag, *d)
		wrong.add(*d == 0, "%s: must be more than 0; without it the worker decides", flag)
		return int64((*d + time.Second - 1) / time.Second)
	}
	task := f.task()
	task.Agent, task.Title, task.Labels = string(f.Agent), f.Title, runs.LabelsOf(f.Label)
	task.Idle, task.Hard = wholeSeconds("--idle-timeout", f.IdleTimeout), wholeSeconds("--timeout", f.Timeout)
	task.Policy = f.Policy
	q = api.Submission{Task: task, Confirm: task.Mode.Writes(), DestructiveGit: f.DestructiveGit}
	var err error
	q.Dir, err = filepath.Abs(f.Dir) // "" is the current one
	wrong.add(err != nil, "--dir: %w", err)
	return q, wrong
}

// submission is the request that the flags specify. The error has all mistakes
// that are known without the responder.
func (c *submitCmd) submission(ctx context.Context, a *app) (api.Submission, error) {
	q, flags := c.newRunFlags.submission()
	if q.Fork = threadRef(c.Fork); c.Resume == api.SelectLast {
		q.Resume = threadRef(c.Resume)
	} else {
		q.Thread = c.Resume
	}
	q.Live, q.Keep, q.Force = c.Live, c.Keep, c.Force
	if c.NoAsk {
		q.Ask = new(false)
	}
	if q.AddDirs = c.AddDir; c.Unboxed {
		q.Unboxed = &c.Unboxed
	}
	var wrong problems
	for _, e := range c.Extension {
		id, value, ok := strings.Cut(e, "=")
		wrong.add(!ok || id == "" || q.Extensions[id] != nil, "--extension: must be ID=VALUE, with each ID once")
		if !json.Valid([]byte(value)) {
			value = string(runs.Encode(value))
		}
		if q.Extensions == nil {
			q.Extensions = map[string]json.RawMessage{}
		}
		q.Extensions[id] = json.RawMessage(value)
	}
	if q.Extensions[runs.CanUnboxed] != nil || c.Unboxed {
		q.Mode = runs.Mode(c.Mode) // the default is another one
		q.Confirm = c.Mode != "" && q.Mode.Writes()
	}
	var err error
	from := "PROMPT"
	if c.File != "" {
		from = "--file"
	}
	wrong.add(c.Prompt == "" && c.File == "", `expected "<prompt>", "-" to read it from stdin, or --file FILE`)
	wrong.add(c.Prompt != "" && c.File != "", "PROMPT: not with --file, which has it")
	q.Prompt, err = readPrompt(ctx, a.stdin, c.Prompt, c.File)
	wrong.add(err != nil, "%s: %w", from, err)
	q.Schema, err = readSchema(ctx, a.stdin, c.OutputSchema)
	wrong.add(err != nil, "--output-schema: %w", err)
	wrong = append(wrong, flags...)
	wrong.add(c.WaitTimeout < 0, "--wait-timeout: must not be negative, got %s", c.WaitTimeout)
	wrong.add(c.Force && c.Resume == "" && c.Fork != api.SelectLast, "--force: is for --resume, or --fork last")
	wrong.add(c.Resume != "" && c.Fork != "", "--fork: not with --resume")
	wrong.add(c.WaitTimeout > 0 && !c.Wait, "--wait-timeout: is for --wait")
	if c.settled() {
		from := "--resume"
		if c.Fork != "" {
			from = "--fork"
		}
		for _, o := range []struct {
			flag  string
			given bool
		}{
			{"--dir", c.Dir != ""}, {"--skip-git-repo-check", c.SkipGit}, {"--env", c.Env != runs.InheritNone},
			{"--allow-env", c.AllowEnv != nil},
		} {
			wrong.add(o.given, "%s: not with %s, which continues with the settings of the thread", o.flag, from)
		}
		q.Dir, q.SkipGit, q.Env = "", false, runs.EnvPolicy{}
	}
	return q, errors.Join(wrong...)
}

// settled reports whether the task continues a thread that is named, or a copy, in its directory.
func (c *submitCmd) settled() bool {
	return c.Resume != "" && c.Resume != api.SelectLast || c.Fork != "" && c.Fork != api.SelectLast
}

// threadRef is the thread that a flag names, nil for "".
func threadRef(flag string) *api.ThreadRef {
	switch flag {
	case "":
		return nil
	case api.SelectLast:
		return &api.ThreadRef{Selector: api.SelectLast}
	}
	return &api.ThreadRef{Selector: api.SelectID, ID: flag}
}
