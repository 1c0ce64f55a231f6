package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/linesman/linesman/agents"
	"github.com/linesman/linesman/api"

	"github.com/alecthomas/kong"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

type runCmd struct {
	Agent       agentKind `placeholder:"KIND" help:"The dialect the command prints. By default that of its program, else codex."`
	Run_        runID     `name:"run" placeholder:"ID" help:"Id of the run: 1 to 64 of A-Z a-z 0-9 _ -. By default a new one."`
	Resume      runID     `placeholder:"RUN" help:"Continue the task of this run, which ended with exit status 42 and has its answer now."`
	Label       labels    `placeholder:"K=V" mapsep:"none" help:"Label of the run; can be repeated."`
	IdleTimeout string    `name:"idle-timeout" setting:"limits.idle" placeholder:"DURATION" help:"${limits_idle}"`
	Timeout     string    `name:"timeout" setting:"limits.hard" placeholder:"DURATION" help:"${limits_hard}"`
	JSON        bool      `name:"json" help:"Print the events as JSON lines, not for people."`
	Command     []string  `arg:"" name:"cmd" help:"The agent's command line, after --."`

	dashes bool
}

// Help is printed by `linesman run --help`.
func (runCmd) Help() string {
	return `The agent is started at most once, for this command, in its directory and environment, with /dev/null as its stdin.
What it prints is kept on this machine until NATS has it, so nothing is lost while NATS is away. Its events are printed
as they are stored. They go to --nats, or to the "linesman up" of the data directory, which is started in the background
where none runs. Ctrl-C is passed on to the agent; a second one cancels the run, and a third one leaves what is not
stored yet to the next "linesman up". Of the stderr of an agent that fails, a terminal shows the last lines.

Examples:

    linesman run -- codex exec --json "Fix the failing test."
    linesman run --label ticket=42 --timeout 20m -- codex exec --json --sandbox workspace-write "Go."
    linesman run --resume T-local-0mwqeheq41ojmir -- ./program --resume

An agent that ends with the status 42 needs an answer first: its task stays open, in the state input-required, until
--resume continues it in another run, or "linesman cancel" cancels it.

Exit status: the agent's own; 128+N when signal N ended it; 124 when a limit did; 125 when linesman itself failed;
126 when the command cannot be executed; 127 when it is not found; 1 when the run is known already; 2 for bad flags or
settings.`
}

// Validate is called by kong, which knows whether there were dashes.
func (c *runCmd) Validate(kctx *kong.Context) error {
	c.dashes = slices.Contains(kctx.Args, "--")
	return nil
}

func (c *runCmd) check(a *app) error {
	if c.Agent == "" {
		c.Agent = api.DefaultAgent
		if a, known := agents.Known.OfProgram(programOf(c.Command)); known {
			c.Agent = agentKind(a.Kind())
		}
	}
	_, err := a.backend(c.Agent)
	switch {
	case !c.dashes: // without them, linesman would take flags of the agent for its own
		err = errors.Join(err, errors.New("the agent's command line must come after --"))
	case c.Command[0] == "":
		err = errors.Join(err, errors.New("the agent's command line begins with an empty word"))
	}
	if c.Run_ != "" && c.Resume != "" {
		err = errors.Join(err, errors.New("--run and --resume: the id of a run that goes on with another is made of "+
			"that one's"))
	}
	return err
}

func (c *runCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	dir, err := os.Getwd()
	if err != nil {
		return exitWith(exitLinesman, fmt.Errorf("working directory: %w", err))
	}
	// From here on the first signal is the agent's, not the end of this program.
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx = context.WithoutCancel(ctx)
	// A reader of stdout that goes away is an error, not the end: the agent
	// would go on with nobody to pass Ctrl-C on.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)

	waiting, stop := untilSignal(ctx, signals) // until there is a run to pass it to
	b, d, code, err := c.create(waiting, a, dir)
	stop()
	if b != nil {
		defer b.Close()
	}
	var by signalled
	switch {
	case errors.As(context.Cause(waiting), &by):
		code, err = by.code(), fmt.Errorf("%w; no agent was started", by)
		if d != nil {
			err = errors.Join(err, d.Remove())
		}
	case err == nil:
		code, err = c.run(ctx, a, b, d, signals)
	}
	if code != 0 || err != nil {
		return exitWith(code, err)
	}
	return nil
}

// create makes the run, whose agent has not begun. With an error it returns
// the exit code.
func (c *runCmd) create(ctx context.Context, a *app, dir string) (*bus.Bus, *worker.Dir, int, error) {
	b, err := a.client(ctx, embedded.OperatorUser)
	switch {
	case exitCode(err) == exitUsage:
		return nil, nil, exitUsage, err
	case err != nil:
		return nil, nil, exitLinesman, err
	}
	id := string(c.Run_)
	if id == "" {
		id = newID()
	}
	marks := map[string]string(c.Label)
	if c.Resume != "" {
		link, task, err := a.nextLink(ctx, b, string(c.Resume), string(c.Agent))
		if err != nil {
			return b, nil, exitFailed, err
		}
		id, marks = link, maps.Clone(marks)
		if marks == nil {
			marks = map[string]string{}
		}
		marks[runs.LabelContinues] = task
	}
	d, err := a.createRun(ctx, b, worker.Spec{
		Run: id, Agent: string(c.Agent), Source: worker.SourceRun, Labels: marks, Attended: true,
		Argv: c.Command, Dir: dir, Env: a.environ, Limits: a.runLimits(),
	})
	switch {
	case errors.Is(err, worker.ErrKnown) && c.Resume != "":
		return b, nil, exitFailed, fmt.Errorf("run %s: somebody else goes on with it already", c.Resume)
	case errors.Is(err, worker.ErrKnown):
		return b, nil, exitFailed, err
	case err != nil:
		return b, nil, exitLinesman, err
	}
	return b, d, 0, nil
}

func newID() string { return runs.LocalID(time.Now().UnixMilli(), rand.Uint64()) }
