package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/worker"
)

// away is how long NATS may be gone before a run has begun, and after the
// agent's end.
const away = 60 * time.Second

// insist does something with NATS until it is done, also where NATS goes away
// meanwhile, and says so once. The error has the exit code 3 where it stayed away.
func (a *app) insist(ctx context.Context, do func(context.Context) error) error {
	begun, said := time.Now(), false
	// An answer that was on its way when the connection broke never comes.
	for timeout := 2 * time.Second; ; timeout = min(2*timeout, 10*time.Second) {
		attempt, cancel := context.WithTimeout(ctx, timeout)
		err := do(attempt)
		cancel()
		switch {
		case err == nil, ctx.Err() != nil, !bus.IsAway(err):
			return err
		case time.Since(begun) > away:
			return exitWith(exitNATS, fmt.Errorf("%s has given no answer for %v; `linesman doctor` says what is wrong: %w", a.server(), away, err))
		case !said:
			said = true
			a.sayAway()
		}
		if err := retryPause(ctx); err != nil {
			return err
		}
	}
}

// server names the server that is worked with.
func (a *app) server() string {
	if a.config.NATS != "" {
		return "NATS"
	}
	return "the `linesman up` of " + a.config.DataDir
}

func (a *app) sayAway() {
	fmt.Fprintf(a.stderr, "linesman: %s is away: waiting for it, %v at most\n", a.server(), away)
}

// isKnown reports whether anything tells of a run already.
func (a *app) isKnown(ctx context.Context, b *bus.Bus, run string) (is bool, err error) {
	err = a.insist(ctx, func(ctx context.Context) error {
		is, err = b.Known(ctx, run)
		return err
	})
	return is, err
}

// createRun makes the directory of a run whose id nobody knows. The fence of
// its raw log finds out who else takes that id meanwhile.
func (a *app) createRun(ctx context.Context, b *bus.Bus, spec worker.Spec) (*worker.Dir, error) {
	switch is, err := a.isKnown(ctx, b, spec.Run); {
	case err != nil:
		return nil, err
	case is:
		return nil, errKnown(spec.Run)
	}
	return a.createDir(spec)
}

// createDir is createRun that asks nobody but this machine.
func (a *app) createDir(spec worker.Spec) (*worker.Dir, error) {
	d, err := worker.Create(a.runsDir(), spec)
	if errors.Is(err, fs.ErrExist) {
		return nil, errKnown(spec.Run)
	}
	return d, err
}

func errKnown(run string) error {
	return fmt.Errorf("run %s: %w: choose another id", run, worker.ErrKnown)
}
