package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker"
)

// Why a run is left to the next `linesman up`.
var (
	errAway = errors.New("NATS is away")
	errLeft = errors.New("left by a signal")
)

// attended is a run whose agent was started at a terminal.
type attended struct {
	*Session
	run  *worker.Run
	id   string
	path string
	left context.CancelCauseFunc // leaves the run to the next `linesman up`
}

// Attend starts the agent of a run, and drives the run to its end. Print prints
// its events up to the completion; it is called again after an outage of NATS.
// Signals are passed to the agent: the first SIGINT to the agent alone; a second
// signal, and any other one, cancels the run; the third one leaves what is not
// stored yet to the next `linesman up`. The error is [worker.ErrKnown] if the ID of
// the run is in use.
func (s *Session) Attend(
	ctx context.Context, d *worker.Dir, signals <-chan os.Signal, print func(context.Context) error,
) (exit runs.Exit, err error) {
	begun := false
	err = s.withWorker(ctx, func(w *worker.Worker) (err error) {
		begun = true
		s.tell("run " + d.Spec.Run)
		ctx, left := context.WithCancelCause(ctx)
		a := &attended{Session: s, run: w.Run(d), id: d.Spec.Run, path: d.Path(), left: left}
		exit, err = a.drive(ctx, signals, print)
		return err
	})
	if err != nil && !begun {
		err = errors.Join(err, d.Remove())
	}
	return exit, err
}

// tell prints a line for the person at the terminal.
func (s *Session) tell(text string) { fmt.Fprintf(s.config.Dialer.Stderr, "linesman: %s\n", text) }

func (a *attended) drive(
	ctx context.Context, signals <-chan os.Signal, print func(context.Context) error,
) (runs.Exit, error) {
	var beside sync.WaitGroup
	defer beside.Wait()
	defer a.left(nil)
	printed := make(chan error, 1)
	beside.Go(func() { printed <- retryPrint(ctx, print) })
	beside.Go(func() { a.relay(ctx, signals) })
	beside.Go(func() { a.abandon(ctx) })
	exit, err := a.run.Drive(ctx)
	if err != nil {
		return exit, a.explain(err, context.Cause(ctx))
	}
	select {
	case err = <-printed:
		if cause := context.Cause(ctx); err == nil && cause != nil {
			err = fmt.Errorf("run %s: its events are stored later: %w", a.id, cause)
		}
	case <-time.After(datadir.MaxOutage):
		err = fmt.Errorf("run %s: its events are not complete %v after its end: is a normalizer running?", a.id,
			datadir.MaxOutage)
	}
	return exit, err
}

// explain is the error of a run that was not driven to its end.
func (a *attended) explain(err, cause error) error {
	switch {
	case errors.Is(err, worker.ErrKnown), errors.Is(err, worker.ErrEnded):
		return err
	case errors.Is(cause, errAway) && !a.run.AgentBegun():
		return fmt.Errorf("run %s: %s is still away after %v, and the agent was not started: `linesman doctor` says what "+
			"is wrong; then run it again", a.id, a.config.Dialer.ServerName(), datadir.MaxOutage)
	case errors.Is(cause, errAway):
		return fmt.Errorf("run %s: NATS is still away %v after the agent's end: its output is in %s, and the next "+
			"`linesman up` on this data directory takes it", a.id, datadir.MaxOutage, a.path)
	case errors.Is(cause, errLeft):
		return fmt.Errorf("run %s: not all of its output is stored: it is in %s, and the `linesman up` of this data "+
			"directory takes it, or the next one", a.id, a.path)
	}
	return err
}

// retryPrint calls print again while NATS gives no answer, or EVENTS is being
// recreated, until ctx ends.
func retryPrint(ctx context.Context, print func(context.Context) error) error {
	for {
		err := print(ctx)
		if err == nil || ctx.Err() != nil || !bus.IsAway(err) && !errors.Is(err, bus.ErrNoStream) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// relay passes the first Ctrl-C to the agent; the second one, or SIGTERM, cancels
// the run, as does the first one if the agent has not started. The third one
// leaves what is not stored yet to the next `linesman up`.
func (a *attended) relay(ctx context.Context, signals <-chan os.Signal) {
	for n := 1; ; n++ {
		var s os.Signal
		select {
		case <-ctx.Done():
			return
		case s = <-signals:
		}
		switch {
		case n >= 3:
			a.left(errLeft)
			return
		case n == 1 && s == os.Interrupt && a.run.Interrupt() == nil:
		case a.run.AgentEnded():
			a.tell("the agent has ended, but not all is stored yet; the third Ctrl-C leaves the rest to the next " +
				"`linesman up`")
		default:
			if err := a.run.Cancel(ctx, "asked for by a signal"); err != nil && ctx.Err() == nil {
				a.tell(fmt.Sprintf("cancel the run: %v", err))
			}
		}
	}
}

// abandon leaves the run if NATS is still away some time after the agent's end, or
// before its start. An outage while the agent runs has no limit.
func (a *attended) abandon(ctx context.Context) {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var since time.Time
	told := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if a.bus.Connected() || a.run.AgentBegun() && !a.run.AgentEnded() {
				since = time.Time{}
				continue
			}
			if since.IsZero() {
				since = now
				if !told {
					told = true
					a.config.Dialer.TellOutage()
				}
			}
			if now.Sub(since) >= datadir.MaxOutage {
				a.left(errAway)
				return
			}
		}
	}
}
