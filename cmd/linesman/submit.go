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

	"github.com/linesman/linesman/bus"
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

// taskFlags are what parameters of the tools are called on the command line.
var taskFlags = map[string]string{
	"task": "PROMPT", "mode": "--mode", "confirm": "--mode", "workingDir": "--dir", "model": "--model", "threadId": "--resume",
	"outputSchema": "--output-schema", "skipGitRepoCheck": "--skip-git-repo-check", "envPolicy": "--env", "envAllowList": "--allow-env",
	"idleTimeoutSec": "--idle-timeout", "timeoutSec": "--timeout",
}

func (c *submitCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	tool, args, err := c.arguments(a)
	if err != nil {
		return exitWith(exitUsage, err)
	}
	caller, err := a.caller(ctx)
	if err != nil {
		return err
	}
	defer caller.bus.Close()
	ack, err := caller.ask(ctx, answerTime, tool, args)
	switch {
	case errors.Is(err, bus.ErrNoResponder), errors.Is(err, bus.ErrDenied):
		return err
	case err != nil:
		return fmt.Errorf("whether the task was taken is not known: %w", err)
	}
	if !c.Wait || ack.Error != nil {
		return caller.finish(ack, c.JSON, taskFlags, "", func() error { return a.tellTicket(ack) })
	}
	run, _, err := ticketOf(ack)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.stderr, "linesman: run %s\n", run)
	return caller.wait(ctx, run, c.WaitTimeout, c.JSON)
}

// arguments are the tool to call and its arguments. The error has all that is
// wrong with the flags as far as it can be known here.
func (c *submitCmd) arguments(a *app) (tool string, args map[string]any, err error) {
	var wrong []error
	tool, args = "_codex_local_run", map[string]any{"mode": c.Mode}
	set := func(name string, value any, given bool) {
		if given {
			args[name] = value
		}
	}
	prompt, err := c.prompt(a.stdin)
	wrong = append(wrong, err)
	args["task"] = prompt
	set("confirm", true, runs.Mode(c.Mode).Writes())
	set("model", c.Model, c.Model != "")
	schema, err := c.schema()
	wrong = append(wrong, err)
	set("outputSchema", schema, schema != nil)
	for _, l := range []struct {
		flag string
		d    time.Duration
	}{{"--idle-timeout", c.IdleTimeout}, {"--timeout", c.Timeout}, {"--wait-timeout", c.WaitTimeout}} {
		if l.d < 0 {
			wrong = append(wrong, fmt.Errorf("%s: must not be negative, got %s", l.flag, l.d))
		}
	}
	set("idleTimeoutSec", wholeSeconds(c.IdleTimeout), c.IdleTimeout > 0)
	set("timeoutSec", wholeSeconds(c.Timeout), c.Timeout > 0)
	if c.WaitTimeout > 0 && !c.Wait {
		wrong = append(wrong, errors.New("--wait-timeout: is for --wait"))
	}
	if c.Resume != "" {
		tool, args["threadId"] = "_codex_local_resume", c.Resume
		for _, o := range []struct {
			flag  string
			given bool
		}{{"--dir", c.Dir != ""}, {"--skip-git-repo-check", c.SkipGit}, {"--env", c.Env != runs.InheritNone}, {"--allow-env", c.AllowEnv != nil}} {
			if o.given {
				wrong = append(wrong, fmt.Errorf("%s: not with --resume, which goes on as the thread began", o.flag))
			}
		}
		return tool, args, errors.Join(wrong...)
	}
	args["async"] = true
	dir, err := filepath.Abs(c.Dir) // "" is the current one
	if err != nil {
		wrong = append(wrong, fmt.Errorf("--dir: %w", err))
	}
	args["workingDir"] = dir
	set("skipGitRepoCheck", true, c.SkipGit)
	args["envPolicy"] = c.Env
	if c.AllowEnv != nil {
		args["envAllowList"] = c.AllowEnv
		if c.Env == runs.InheritNone {
			args["envPolicy"] = runs.InheritList
		}
	}
	return tool, args, errors.Join(wrong...)
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
func (c *submitCmd) schema() (any, error) {
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

// ticketOf is the run that a task became.
func ticketOf(ack answer) (run runID, position int, err error) {
	var data struct {
		TaskID runID `json:"task_id"`
	}
	var meta struct {
		Position int `json:"queue_position"`
	}
	if err := errors.Join(ack.read(&data), json.Unmarshal(ack.Meta, &meta), data.TaskID.Validate()); err != nil {
		return "", 0, errForm
	}
	return data.TaskID, meta.Position, nil
}

// tellTicket prints the id of a run that waits now and, on a terminal, what
// can be done next.
func (a *app) tellTicket(ack answer) error {
	id, position, err := ticketOf(ack)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.stdout, id); err != nil {
		return err
	}
	if newRenderer(a.stdout, a.environ).terminal {
		fmt.Fprintf(a.stderr, "\nIt waits %s.\n\n    linesman status %s\n    linesman wait %[2]s\n    linesman events --run %[2]s --follow\n", behind(position), id)
	}
	return nil
}

// behind says a place in the queue.
func behind(position int) string {
	switch position {
	case 0:
		return "for a free slot, as the next one"
	case 1:
		return "behind one other"
	}
	return fmt.Sprintf("behind %d others", position)
}
