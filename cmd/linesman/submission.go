package main

import (
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
	"github.com/linesman/linesman/runs"
)

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
		}{
			{"--dir", c.Dir != ""}, {"--skip-git-repo-check", c.SkipGit}, {"--env", c.Env != runs.InheritNone},
			{"--allow-env", c.AllowEnv != nil},
		} {
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
