package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/runs"
)

type submitCmd struct {
	Mode         string        `default:"read-only" enum:"read-only,workspace-write,danger-full-access" placeholder:"MODE" help:"What the agent may do: read-only, workspace-write or danger-full-access (default read-only)."`
	Dir          string        `placeholder:"DIR" help:"Where the agent works: a directory on the worker's machine. By default the current one."`
	Model        string        `placeholder:"MODEL" help:"Model of the agent. By default its own choice."`
	Resume       string        `placeholder:"THREAD" help:"Go on with the thread of an earlier run, in the directory of that run."`
	OutputSchema string        `placeholder:"FILE" help:"JSON Schema of the agent's final answer."`
	SkipGit      bool          `name:"skip-git-repo-check" help:"Work outside of a git repository, too."`
	Env          string        `default:"inherit-none" enum:"inherit-none,inherit-all,allow-list" placeholder:"POLICY" help:"Which of the worker's variables the agent gets beyond what every program needs: inherit-none, inherit-all or allow-list (default inherit-none)."`
	AllowEnv     []string      `placeholder:"NAME" help:"Give the agent this variable of the worker's: the policy is then allow-list. Repeat it or separate names with commas."`
	IdleTimeout  time.Duration `placeholder:"DURATION" help:"End the run when it has printed nothing for so long."`
	Timeout      time.Duration `placeholder:"DURATION" help:"End the run so long after its start."`
	Wait         bool          `help:"Wait for the end of the run, and tell what came of it."`
	WaitTimeout  time.Duration `placeholder:"DURATION" help:"Wait no longer than this; the run goes on."`
	JSON         bool          `name:"json" help:"Print the responder's answer, a v3.6 envelope, on one line."`

	Prompt string `arg:"" help:"What the agent is to do. \"-\" reads it from stdin."`
}

// Help is printed by `linesman submit --help`.
func (submitCmd) Help() string {
	return `Puts a task for Codex on the work queue and prints the id of its run. A worker starts it once it has a free slot, and it
goes on whatever becomes of this command. That a mode can write needs no other confirmation than to be named here. With
--wait the id is on stderr, and the rest is as for "linesman wait".

Examples:

    linesman submit "Explain what this package does."
    linesman submit --mode workspace-write --wait "Fix the failing test."
    linesman submit --resume 0199a213-81c0-7800-8aa1-bbab2a035a53 "Now write a test for it."
    linesman submit --json - <prompt.md | jq -r .data.task_id

Exit status: 0 taken, 1 failed, 2 bad flags or settings, 3 NATS or the responder is out of reach. With --wait 0 the run
completed, 1 it ended otherwise, 124 --wait-timeout passed.`
}

// taskFlags are what fields of a submission, and the parameters of its tools, are
// called on the command line.
var taskFlags = map[string]string{
	api.FieldPrompt: "PROMPT", api.FieldMode: "--mode", api.FieldConfirm: "--mode", api.FieldDir: "--dir",
	api.FieldModel:  "--model",
	api.FieldThread: "--resume", api.FieldSchema: "--output-schema", "skipGitRepoCheck": "--skip-git-repo-check",
	api.FieldEnvPolicy: "--env", api.FieldEnvAllow: "--allow-env", api.FieldIdle: "--idle-timeout",
	api.FieldHard: "--timeout",
	"task":        "PROMPT", "envPolicy": "--env", "envAllowList": "--allow-env",
}

func (c *submitCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	q, err := c.submission(a)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	l, err := a.responder(ctx)
	if err != nil {
		return err
	}
	defer l.Close()
	if c.JSON {
		return c.submitTool(ctx, a, l, q)
	}
	done, err := l.Submit(ctx, q)
	switch {
	case err != nil:
		return untaken(err)
	case c.Wait:
		return c.follow(ctx, a, l, done.Run)
	}
	if _, err := fmt.Fprintln(a.stdout, done.Run); err != nil {
		return err
	}
	if a.shown(a.stdout).Terminal() {
		fmt.Fprintf(a.stderr, `
It waits %s.

    linesman status %s
    linesman wait %[2]s
    linesman events --run %[2]s --follow
`, console.Behind(done.Position), done.Run)
	}
	return nil
}

// submitTool submits by the tool that answers with an envelope. With --wait,
// only the envelope of the wait is printed.
func (c *submitCmd) submitTool(ctx context.Context, a *app, l *client.Client, q api.Submission) error {
	tool, args := toolArgs(q)
	e, err := l.Tool(ctx, tool, args)
	switch {
	case err != nil && e.Body == nil:
		return untaken(err)
	case err != nil, !c.Wait:
		return a.printEnvelope(e, err, taskFlags, "")
	case runs.CheckID(e.Run) != nil:
		return client.ErrForm
	}
	return c.follow(ctx, a, l, e.Run)
}

// follow is --wait.
func (c *submitCmd) follow(ctx context.Context, a *app, l *client.Client, run string) error {
	fmt.Fprintf(a.stderr, "linesman: run %s\n", run)
	return a.wait(ctx, l, runID(run), c.WaitTimeout, c.JSON)
}

// untaken is the error of a submission.
func untaken(err error) error {
	said := explain(err, taskFlags, "")
	var e *api.Error
	answered := errors.As(err, &e) && e.Err == nil
	if answered || errors.Is(err, client.ErrNoResponder) || errors.Is(err, client.ErrDenied) {
		return said
	}
	return fmt.Errorf("whether the task was taken is not known: %w", said)
}
