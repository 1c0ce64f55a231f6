package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

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
	api.FieldPrompt: "PROMPT", api.FieldMode: "--mode", api.FieldConfirm: "--mode", api.FieldDir: "--dir", api.FieldModel: "--model",
	api.FieldThread: "--resume", api.FieldSchema: "--output-schema", "skipGitRepoCheck": "--skip-git-repo-check",
	api.FieldEnvPolicy: "--env", api.FieldEnvAllow: "--allow-env", api.FieldIdle: "--idle-timeout", api.FieldHard: "--timeout",
	"task": "PROMPT", "envPolicy": "--env", "envAllowList": "--allow-env",
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
		fmt.Fprintf(a.stderr, "\nIt waits %s.\n\n    linesman status %s\n    linesman wait %[2]s\n    linesman events --run %[2]s --follow\n",
			console.Behind(done.Position), done.Run)
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

// submission is what the flags ask for. The error has all that is wrong with
// them as far as it can be known here.
func (c *submitCmd) submission(a *app) (api.Submission, error) {
	q := api.Submission{
		Mode: runs.Mode(c.Mode), Confirm: runs.Mode(c.Mode).Writes(), Model: c.Model, Thread: c.Resume,
		Idle: wholeSeconds(c.IdleTimeout), Hard: wholeSeconds(c.Timeout),
	}
	var wrong []error
	wrongly := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	var err error
	q.Prompt, err = c.prompt(a.stdin)
	wrong = append(wrong, err)
	q.Schema, err = c.schema()
	wrong = append(wrong, err)
	for _, l := range []struct {
		flag string
		d    time.Duration
	}{{"--idle-timeout", c.IdleTimeout}, {"--timeout", c.Timeout}, {"--wait-timeout", c.WaitTimeout}} {
		if l.d < 0 {
			wrongly("%s: must not be negative, got %s", l.flag, l.d)
		}
	}
	if c.WaitTimeout > 0 && !c.Wait {
		wrongly("--wait-timeout: is for --wait")
	}
	if c.Resume != "" {
		for _, o := range []struct {
			flag  string
			given bool
		}{{"--dir", c.Dir != ""}, {"--skip-git-repo-check", c.SkipGit}, {"--env", c.Env != runs.InheritNone}, {"--allow-env", c.AllowEnv != nil}} {
			if o.given {
				wrongly("%s: not with --resume, which goes on as the thread began", o.flag)
			}
		}
		return q, errors.Join(wrong...)
	}
	if q.Dir, err = filepath.Abs(c.Dir); err != nil { // "" is the current one
		wrongly("--dir: %w", err)
	}
	q.SkipGit, q.Env = c.SkipGit, runs.EnvPolicy{Policy: c.Env, Allow: c.AllowEnv}
	if c.AllowEnv != nil && c.Env == runs.InheritNone {
		q.Env.Policy = runs.InheritList
	}
	return q, errors.Join(wrong...)
}

// toolArgs are the tool of a submission and its arguments.
func toolArgs(q api.Submission) (tool string, args map[string]any) {
	args = map[string]any{"task": q.Prompt, "mode": q.Mode}
	set := func(name string, value any, given bool) {
		if given {
			args[name] = value
		}
	}
	set("confirm", true, q.Confirm)
	set("model", q.Model, q.Model != "")
	set("outputSchema", q.Schema, q.Schema != nil)
	set("idleTimeoutSec", q.Idle, q.Idle > 0)
	set("timeoutSec", q.Hard, q.Hard > 0)
	if q.Thread != "" {
		args["threadId"] = q.Thread
		return "_codex_local_resume", args
	}
	args["async"], args["workingDir"], args["envPolicy"] = true, q.Dir, q.Env.Policy
	set("skipGitRepoCheck", true, q.SkipGit)
	set("envAllowList", q.Env.Allow, q.Env.Allow != nil)
	return "_codex_local_run", args
}

// prompt is the text of the task: of stdin where it is "-", without the
// newlines at its end.
func (c *submitCmd) prompt(stdin io.Reader) (string, error) {
	if c.Prompt != "-" {
		return c.Prompt, nil
	}
	const most = runs.MaxPrompt*utf8.UTFMax + 64 // some of it newlines
	b, err := io.ReadAll(io.LimitReader(stdin, most+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("PROMPT: stdin: %w", err)
	case len(b) > most:
		return "", fmt.Errorf("PROMPT: at most %d characters", runs.MaxPrompt)
	case !utf8.Valid(b):
		return "", errors.New("PROMPT: stdin must be UTF-8 text")
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// schema reads the file of --output-schema; nil where there is none.
func (c *submitCmd) schema() (json.RawMessage, error) {
	if c.OutputSchema == "" {
		return nil, nil
	}
	f, err := os.Open(c.OutputSchema)
	if err != nil {
		return nil, fmt.Errorf("--output-schema: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, runs.MaxSchema+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("--output-schema: %w", err)
	case len(b) > runs.MaxSchema:
		return nil, fmt.Errorf("--output-schema: at most %d bytes", runs.MaxSchema)
	case !json.Valid(b):
		return nil, fmt.Errorf("--output-schema: %s is no JSON", c.OutputSchema)
	}
	return json.RawMessage(b), nil
}
