package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
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
	if agent, _ := agentOf(c.Command); c.Agent == "" {
		c.Agent = agentKind(cmp.Or(agent.kind, "codex"))
	}
	_, err := a.backend(c.Agent)
	switch {
	case !c.dashes: // without them, linesman would take flags of the agent for its own
		err = errors.Join(err, errors.New("the agent's command line must come after --"))
	case c.Command[0] == "":
		err = errors.Join(err, errors.New("the agent's command line begins with an empty word"))
	}
	if c.Run_ != "" && c.Resume != "" {
		err = errors.Join(err, errors.New("--run and --resume: the id of a run that goes on with another is made of that one's"))
	}
	return err
}

// Why a run is left to the next `linesman up`.
var (
	errAway = errors.New("NATS is away")
	errLeft = errors.New("left by a signal")
)

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

func (c *runCmd) run(ctx context.Context, a *app, b *bus.Bus, d *worker.Dir, signals <-chan os.Signal) (int, error) {
	id := d.Spec.Run
	w, err := a.worker(b)
	if err != nil {
		return exitLinesman, errors.Join(err, d.Remove())
	}
	defer a.alive(ctx, b, w, worker.Tasks{})()
	fmt.Fprintf(a.stderr, "linesman: run %s\n", id)

	ctx, cancel := context.WithCancelCause(ctx)
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel(nil)
	printed := make(chan error, 1)
	beside.Go(func() { printed <- c.print(ctx, a, b, id) })
	r, path := w.Run(d), d.Path()
	beside.Go(func() { a.relay(ctx, cancel, r, signals) })
	beside.Go(func() { a.abandon(ctx, cancel, b, r) })
	exit, err := r.Drive(ctx)
	switch cause := context.Cause(ctx); {
	case errors.Is(err, worker.ErrKnown):
		return exitFailed, err
	case errors.Is(err, worker.ErrEnded):
		return exitLinesman, err
	case err != nil && errors.Is(cause, errAway) && !r.AgentBegun():
		return exitLinesman, fmt.Errorf("run %s: %s is still away after %v, and the agent was not started: `linesman doctor` says what is wrong; then run it again", id, a.server(), away)
	case err != nil && errors.Is(cause, errAway):
		return exitLinesman, fmt.Errorf("run %s: NATS is still away %v after the agent's end: its output is in %s, and the next `linesman up` on this data directory takes it", id, away, path)
	case err != nil && errors.Is(cause, errLeft):
		return exitLinesman, fmt.Errorf("run %s: not all of its output is stored: it is in %s, and the next `linesman up` on this data directory takes it", id, path)
	case err != nil:
		return exitLinesman, err
	}
	select {
	case err = <-printed:
		if cause := context.Cause(ctx); err == nil && cause != nil {
			err = fmt.Errorf("run %s: its events are stored later: %w", id, cause)
		}
	case <-time.After(away):
		err = fmt.Errorf("run %s: its events are not complete %v after its end: is a normalizer at work?", id, away)
	}
	if err != nil {
		return exitLinesman, err
	}
	a.tellStderr(ctx, b, string(c.Agent), id, exit)
	return agentCode(exit), c.explain(id, exit)
}

// print prints the events of the run up to its completion. While NATS gives no
// answer, or EVENTS is being recreated, it tries again until ctx ends.
func (c *runCmd) print(ctx context.Context, a *app, b *bus.Bus, run string) error {
	f := client.Filter{Run: run, Agent: string(c.Agent), Follow: true}
	p, wrong := a.printer(c.JSON), misread{argv: c.Command}
	p.seen = func(r record) {
		f.After = r.Seq
		if s := wrong.advice(r); s != "" {
			fmt.Fprintf(a.stderr, "linesman: %s\n", s)
		}
	}
	for {
		_, err := p.watch(ctx, client.New(b), f)
		if err == nil || ctx.Err() != nil || !bus.IsAway(err) && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// explain says what linesman knows of an end that the agent itself cannot have
// spoken of.
func (c *runCmd) explain(id string, x runs.Exit) error {
	switch x.Reason {
	case runs.ReasonExited:
		if x.Code != nil && *x.Code == runs.ExitNeedsAgent {
			return fmt.Errorf("the program needs an agent's answer; once it has that, go on with `linesman run --resume %s -- …`", cmp.Or(string(c.Resume), id))
		}
	case runs.ReasonSpawn:
		switch x.Spawn {
		case runs.SpawnNotFound:
			return fmt.Errorf("%s: command not found", safe(c.Command[0]))
		case runs.SpawnNotExecutable:
			return fmt.Errorf("%s: cannot be executed", safe(c.Command[0]))
		}
		return fmt.Errorf("%s: could not be started", safe(c.Command[0]))
	case runs.ReasonIdle:
		return errors.New("the agent printed nothing for so long that it was ended (--idle-timeout)")
	case runs.ReasonHard:
		return errors.New("the agent ran for so long that it was ended (--timeout)")
	case runs.ReasonSpool:
		return errors.New("the agent printed so much that it was ended (spool.max_bytes)")
	case runs.ReasonLost:
		return errors.New("nobody knows how the agent ended: the process that watched over it is gone")
	}
	return nil
}

// agentCode is the exit code that tells how the agent ended.
func agentCode(x runs.Exit) int {
	switch {
	case x.Reason == runs.ReasonIdle, x.Reason == runs.ReasonHard:
		return exitTimeout
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotFound:
		return exitNotFound
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotExecutable:
		return exitNotExecutable
	case x.Reason == runs.ReasonSpawn, x.Reason == runs.ReasonLost, x.Reason == runs.ReasonSpool:
		return exitLinesman
	case x.Signal != 0:
		return exitSignal + x.Signal
	case x.Code != nil:
		return *x.Code
	case x.Reason == runs.ReasonCancelled: // before there was an agent
		return exitSignal + int(syscall.SIGINT)
	}
	return exitLinesman
}

func newID() string { return runs.LocalID(time.Now().UnixMilli(), rand.Uint64()) }

// relay passes the first Ctrl-C on to the agent; the second one, or SIGTERM,
// cancels the run, and so does the first while there is no agent yet. The
// third leaves what is still to be stored to others.
func (a *app) relay(ctx context.Context, leave context.CancelCauseFunc, r *worker.Run, signals <-chan os.Signal) {
	for n := 1; ; n++ {
		var s os.Signal
		select {
		case <-ctx.Done():
			return
		case s = <-signals:
		}
		switch {
		case n >= 3:
			leave(errLeft)
			return
		case n == 1 && s == os.Interrupt && r.Interrupt() == nil:
		case r.AgentEnded():
			fmt.Fprintln(a.stderr, "linesman: the agent has ended, but not all is stored yet; the third Ctrl-C leaves the rest to the next `linesman up`")
		default:
			if err := r.Cancel(ctx, "asked for by a signal"); err != nil && ctx.Err() == nil {
				fmt.Fprintf(a.stderr, "linesman: cancel the run: %v\n", err)
			}
		}
	}
}

// abandon gives up when NATS is still away some time after the agent's end, or
// before its beginning. While the agent works it may be away for as long.
func (a *app) abandon(ctx context.Context, cancel context.CancelCauseFunc, b *bus.Bus, r *worker.Run) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var since time.Time
	said := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if b.Connected() || r.AgentBegun() && !r.AgentEnded() {
				since = time.Time{}
				continue
			}
			if since.IsZero() {
				since = now
				if !said {
					said = true
					a.sayAway()
				}
			}
			if now.Sub(since) >= away {
				cancel(errAway)
				return
			}
		}
	}
}

// tellStderr shows the end of a failed agent's stderr to whoever started it on a
// terminal, and to nobody else: it is in no event and no log.
func (a *app) tellStderr(ctx context.Context, b *bus.Bus, agent, run string, x runs.Exit) {
	failed := x.Reason == runs.ReasonExited && (x.Signal != 0 || x.Code != nil && *x.Code != 0 && *x.Code != runs.ExitNeedsAgent)
	if !failed || !a.shown(a.stderr).Terminal() {
		return
	}
	ctx, cancel := soon(ctx)
	defer cancel()
	_, said, err := b.Output(ctx, agent, run, 2*console.StderrShown, true)
	if err == nil { // else what is wrong with NATS is said elsewhere
		_ = console.StderrTail(a.stderr, append(said.Head, said.Tail...))
	}
}
