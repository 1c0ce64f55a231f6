package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

type runCmd struct {
	Agent  agentKind `placeholder:"KIND" help:"Dialect of the command's output. By default that of its program, else codex."`
	Run_   runID     `name:"run" placeholder:"ID" help:"Id of the run: 1 to 64 of A-Z a-z 0-9 _ -. By default a new one."`
	Resume runRef    `placeholder:"RUN" help:"Continue the task of this run, which ended with exit status 42 and has its answer now."`
	startFlags
	IdleTimeout string   `name:"idle-timeout" setting:"limits.idle" placeholder:"DURATION" help:"${limits_idle}"`
	Timeout     string   `name:"timeout" setting:"limits.hard" placeholder:"DURATION" help:"${limits_hard}"`
	Events      bool     `help:"Print the events on a terminal, too, not what the agent does."`
	JSON        bool     `name:"json" help:"Print the events as JSON lines, not for people."`
	Command     []string `arg:"" name:"cmd" help:"The agent's command line, after --."`

	dashes  bool
	assumed bool // neither a flag nor the command line tells the agent
}

// Validate is called by kong, which knows whether there were dashes.
func (c *runCmd) Validate(kctx *kong.Context) error {
	c.dashes = slices.Contains(kctx.Args, "--")
	return nil
}

func (c *runCmd) check(a *app) error {
	var err error
	if c.Agent == "" || c.Agent == auto {
		c.Agent, c.assumed = api.DefaultAgent, true
		if found, ok := known.Agents.OfCommand(c.Command); ok {
			c.Agent, c.assumed = agentKind(found.Kind()), false
			if !found.PrintsJSON(c.Command) {
				err = fmt.Errorf("this command line of %s prints no JSON lines, so nothing of it could be read: type `%s`, "+
					"or start it all the same with --agent %s", found.Name, found.JSONCall, found.Short)
			}
		}
	}
	_, invalid := a.backend(c.Agent)
	err = errors.Join(err, invalid)
	switch {
	case !c.dashes: // without them, linesman would parse flags of the agent as its own
		err = errors.Join(err, errors.New("the agent's command line must come after --"))
	case c.Command[0] == "":
		err = errors.Join(err, errors.New("the agent's command line begins with an empty word"))
	}
	if c.Run_ != "" && c.Resume != "" {
		err = errors.Join(err, errors.New("--run and --resume: the id of a run that continues a task derives from the "+
			"task's id"))
	}
	return err
}

func (c *runCmd) Run(ctx context.Context, a *app) error {
	if err := c.startable(a); err != nil {
		return err
	}
	// From here on the first signal is the agent's, not the end of this program.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx = context.WithoutCancel(ctx)
	// A closed stdout is an error and does not end this program: the agent would
	// continue, and no process would pass Ctrl-C to it.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	waiting, stop := untilSignal(ctx, signals) // until there is a run to pass it to
	s, d, err := c.create(waiting, a)
	stop()
	if s != nil {
		defer s.Close()
	}
	var by signalled
	switch {
	case errors.As(context.Cause(waiting), &by):
		err = fmt.Errorf("%w; no agent was started", by)
		if d != nil {
			err = errors.Join(err, d.Remove())
		}
		return exitWith(signalCode(by), err)
	case err != nil:
		return exitWith(failure(err), err)
	}
	exit, err := s.Attend(ctx, d, signals, a.printer(c.JSON).Attend(s.Client, api.Run{
		Summary: runs.Summary{ID: d.Spec.Run, Attributes: runs.Attributes{Agent: d.Spec.Agent, Title: d.Spec.Title,
			Dir: d.Spec.Dir}, State: runs.StateWorking, StartedAt: runs.Time(d.Spec.Created),
			ActiveAt: runs.Time(d.Spec.Created)},
	}, c.Command, c.detailed(a)))
	if err != nil {
		return exitWith(failure(err), err)
	}
	if c.assumed {
		found, known := s.Printed(ctx, string(c.Agent), d.Spec.Run, known.Agents)
		a.misread(found, known, c.Agent, "run", " -- …") // what was not understood was said before
	}
	if c.detailed(a) { // a person has watched it
		_ = s.Client().SeenSoon(ctx, d.Spec.Run)
	}
	task := d.Spec.Run
	if c.Resume != "" { // any name of a run of the task
		task = d.Spec.Labels.Value(runs.LabelContinues)
	}
	code, problem := endCode(exit), endOf(exit, c.Command[0], task)
	if code != 0 && exit.Reason == runs.ReasonExited && code != runs.ExitNeedsAgent && !c.detailed(a) &&
		a.shown(a.stderr).Terminal() {
		if text, err := s.Stderr(ctx, d, 2*stderrShown); err == nil {
			_ = stderrTail(a.stderr, text)
		}
	}
	return exitWith(code, errors.New(problem)) // no text: the code is sufficient
}

// startable reports a program that cannot be started, before anything is recorded.
func (c *runCmd) startable(a *app) error {
	dir, err := os.Getwd()
	if err != nil {
		return nil // create says so
	}
	x := runs.Exit{Reason: runs.ReasonSpawn, Spawn: daemon.Unstartable(c.Command[0], dir, a.environ)}
	if x.Spawn == "" {
		return nil
	}
	why := endOf(x, c.Command[0], "") + "; nothing was recorded"
	if found, ok := known.Agents.OfCommand(c.Command); ok && x.Spawn == runs.SpawnNotFound {
		why += ". " + found.Name + " is not installed here: " + found.Install
	}
	return exitWith(endCode(x), errors.New(why))
}

// failure is the exit code for an error of linesman itself.
func failure(err error) int {
	code, given := codeOf(err)
	switch {
	case given:
		return code
	case errors.Is(err, worker.ErrKnown), errors.As(err, new(daemon.NotResumedError)):
		return exitFailed
	case errors.Is(err, datadir.ErrSettings), errors.Is(err, worker.ErrInput):
		return exitUsage
	}
	return exitLinesman
}

// create makes the run. Its agent is not started yet.
func (c *runCmd) create(ctx context.Context, a *app) (*daemon.Session, *worker.Dir, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, nil, fmt.Errorf("working directory: %w", err)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // as of a task: by it the threads of a directory are found
	}
	s, err := daemon.Open(ctx, a.host())
	if err != nil {
		return nil, nil, err
	}
	spec := worker.Spec{
		Run: string(c.Run_), Attributes: runs.Attributes{Agent: string(c.Agent), Labels: runs.LabelsOf(c.Label), Dir: dir,
			Title: runs.Title(cmp.Or(c.Title, known.Agents.Prompt(c.Command)))}, Source: runs.SourceRun, Attended: true,
		Argv: c.Command, Env: a.environ,
	}
	spec.Input = a.piped(ctx)
	if c.Resume == "" {
		d, err := s.Create(ctx, spec)
		return s, d, err
	}
	task, err := resolveRun(ctx, s.Client(), string(c.Resume))
	if err != nil {
		return s, nil, err
	}
	d, err := s.CreateNext(ctx, task, spec)
	return s, d, err
}

// piped returns what the agent reads on stdin: all that this program gets on a pipe or from a file, until
// ctx ends; nil: nothing. It says so if that takes long.
func (a *app) piped(ctx context.Context) io.Reader {
	if f, ok := a.stdin.(*os.File); ok {
		info, err := f.Stat()
		if err != nil || info.Mode()&os.ModeCharDevice != 0 { // closed, /dev/null or a terminal
			return nil
		}
	}
	if a.stdin == nil {
		return nil
	}
	return &awaited{in: worker.Interruptible(ctx, a.stdin), say: func() {
		fmt.Fprintln(a.stderr,
			"linesman: reading stdin for the agent, which starts at its end; for an empty stdin add </dev/null")
	}}
}

// awaited is a reader that says so if its end is long in coming.
type awaited struct {
	in    io.Reader
	say   func()
	timer *time.Timer
}

func (r *awaited) Read(b []byte) (int, error) {
	if r.timer == nil {
		r.timer = time.AfterFunc(2*time.Second, r.say)
	}
	n, err := r.in.Read(b)
	if err != nil {
		r.timer.Stop()
	}
	return n, err
}

// detailed reports whether a person sees what the agent does, not the events.
func (c *runCmd) detailed(a *app) bool { return !c.JSON && !c.Events && a.shown(a.stdout).Terminal() }

// endOf is what the agent itself cannot have printed about its end, or "". Program
// is that of the agent, and task the one that waits for an answer.
func endOf(x runs.Exit, program, task string) string {
	switch {
	case x.Reason == runs.ReasonExited && x.Code != nil && *x.Code == runs.ExitNeedsAgent:
		return fmt.Sprintf("the program needs an agent's answer; once it has that, continue with `linesman run "+
			"--resume %s -- …`", task)
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotFound:
		return console.Safe(program) + ": command not found"
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotExecutable:
		return console.Safe(program) + ": cannot be executed"
	case x.Reason == runs.ReasonSpawn:
		return console.Safe(program) + ": could not be started"
	case x.Reason == runs.ReasonFinished && x.Failed:
		return "the agent's turn failed, and it did not exit: it was ended (limits.after_result)"
	case x.Reason == runs.ReasonSession:
		return "no session with the agent: " + console.Safe(x.Why)
	}
	return map[runs.Reason]string{
		runs.ReasonFinished: "the agent printed its result and did not exit: it was ended (limits.after_result)",
		runs.ReasonIdle:     "the agent printed nothing until the idle timeout (--idle-timeout)",
		runs.ReasonHard:     "the agent ran until its time limit (--timeout)",
		runs.ReasonSpool:    "the agent printed more than the limit (spool.max_bytes)",
		runs.ReasonLost:     "it is not known how the agent ended: the process that supervised it is gone",
	}[x.Reason]
}

// stderrShown is how many bytes of an agent's stderr [stderrTail] shows at most.
const stderrShown = 2 << 10

const stderrLines = 10

// stderrTail prints the last lines of an agent's stderr, of which text is the
// end, or nothing if there is none.
func stderrTail(w io.Writer, text []byte) error {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil
	}
	cut := len(text) > stderrShown
	text = text[max(len(text)-stderrShown, 0):]
	lines := strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	if cut && len(lines) > 1 {
		lines = lines[1:] // the rest of a line
	}
	lines = lines[max(len(lines)-stderrLines, 0):]
	var b strings.Builder
	b.WriteString("linesman: the end of the agent's stderr:\n")
	for _, line := range lines {
		fmt.Fprintf(&b, "    %s\n", console.Safe(line))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
