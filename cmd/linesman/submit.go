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
	taskFlags
	Dir          string        `placeholder:"DIR" help:"Working directory of the agent, on the worker's machine. By default the current one."`
	Resume       string        `placeholder:"THREAD" help:"Resume the thread of an earlier run, in the directory of that run."`
	OutputSchema string        `placeholder:"FILE" help:"JSON Schema of the agent's final answer."`
	IdleTimeout  time.Duration `placeholder:"DURATION" help:"End the run after this time without output."`
	Timeout      time.Duration `placeholder:"DURATION" help:"End the run this long after its start."`
	Wait         bool          `help:"Wait for the end of the run, and print its result."`
	WaitTimeout  time.Duration `placeholder:"DURATION" help:"Wait no longer than this; the run continues."`
	envelopeFlag

	Prompt string `arg:"" help:"The task of the agent. \"-\" reads it from stdin."`
}

// submitNames are the names of the fields of a submission, and of the parameters
// of its tools, on the command line.
var submitNames = map[string]string{
	api.FieldPrompt: "PROMPT", api.FieldMode: "--mode", api.FieldConfirm: "--mode", api.FieldDir: "--dir",
	api.FieldModel: "--model", api.FieldThread: "--resume", api.FieldSchema: "--output-schema",
	"skipGitRepoCheck": "--skip-git-repo-check", api.FieldEnvPolicy: "--env", api.FieldEnvAllow: "--allow-env",
	api.FieldIdle: "--idle-timeout", api.FieldHard: "--timeout",
	"task": "PROMPT", "envPolicy": "--env", "envAllowList": "--allow-env",
}

func (c *submitCmd) Run(ctx context.Context, a *app) error {
	q, err := c.submission(a)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	return a.ask(ctx, func(l *client.Client) error {
		run, position := "", 0
		if c.JSON {
			tool, args := toolArgs(q)
			e, err := l.Tool(ctx, tool, args)
			switch {
			case err != nil && e.Body == nil:
				return untaken(err)
			case err != nil, !c.Wait: // with --wait only the envelope of the wait is printed
				return a.printEnvelope(e, err, submitNames, "")
			case runs.CheckID(e.Run) != nil:
				return client.ErrForm
			}
			run = e.Run
		} else {
			done, err := l.Submit(ctx, q)
			if err != nil {
				return untaken(err)
			}
			run, position = done.Run, done.Position
		}
		if c.Wait {
			fmt.Fprintf(a.stderr, "linesman: run %s\n", run)
			return a.wait(ctx, l, runID(run), c.WaitTimeout, c.JSON)
		}
		if _, err := fmt.Fprintln(a.stdout, run); err != nil {
			return err
		}
		if a.shown(a.stdout).Terminal() {
			fmt.Fprintf(a.stderr, `
It waits %s.

    linesman status %s
    linesman wait %[2]s
    linesman events --run %[2]s --follow
`, console.Behind(position), run)
		}
		return nil
	})
}

// untaken is the error of a submission.
func untaken(err error) error {
	said := explain(err, submitNames, "")
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
	q := api.Submission{
		Mode: runs.Mode(c.Mode), Confirm: runs.Mode(c.Mode).Writes(), Model: c.Model, Thread: c.Resume,
		Idle: wholeSeconds(c.IdleTimeout), Hard: wholeSeconds(c.Timeout),
	}
	var wrong []error
	mistake := func(is bool, format string, args ...any) {
		if is {
			wrong = append(wrong, fmt.Errorf(format, args...))
		}
	}
	var err error
	q.Prompt, err = c.prompt(a.stdin)
	wrong = append(wrong, err)
	q.Schema, err = c.schema()
	wrong = append(wrong, err)
	for _, l := range []struct {
		flag string
		d    time.Duration
	}{{"--idle-timeout", c.IdleTimeout}, {"--timeout", c.Timeout}, {"--wait-timeout", c.WaitTimeout}} {
		mistake(l.d < 0, "%s: must not be negative, got %s", l.flag, l.d)
	}
	mistake(c.WaitTimeout > 0 && !c.Wait, "--wait-timeout: is for --wait")
	if c.Resume != "" {
		for _, o := range []struct {
			flag  string
			given bool
		}{
			{"--dir", c.Dir != ""}, {"--skip-git-repo-check", c.SkipGit}, {"--env", c.Env != runs.InheritNone},
			{"--allow-env", c.AllowEnv != nil},
		} {
			mistake(o.given, "%s: not with --resume, which continues with the settings of the thread", o.flag)
		}
		return q, errors.Join(wrong...)
	}
	q.Dir, err = filepath.Abs(c.Dir) // "" is the current one
	mistake(err != nil, "--dir: %w", err)
	q.SkipGit, q.Env = c.SkipGit, c.env()
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

// prompt is the text of the task: of stdin if it is "-", without the newlines at
// its end.
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

// schema reads the file of --output-schema, if any.
func (c *submitCmd) schema() (json.RawMessage, error) {
	if c.OutputSchema == "" {
		return nil, nil
	}
	b, err := readFile(c.OutputSchema, runs.MaxSchema)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--output-schema: %w", err)
	case len(b) > runs.MaxSchema:
		return nil, fmt.Errorf("--output-schema: at most %d bytes", runs.MaxSchema)
	case !json.Valid(b):
		return nil, fmt.Errorf("--output-schema: %s is no JSON", c.OutputSchema)
	}
	return b, nil
}

// readFile reads a file; of one that is larger than limit it reads limit+1 bytes.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}
