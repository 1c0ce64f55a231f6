package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
)

type downCmd struct{}

// Help is printed by `linesman down --help`.
func (downCmd) Help() string {
	return `Stops the "linesman up" of this data directory, in the background or in a terminal, as SIGTERM does, and waits until it
has ended. Running agents continue under their limits, and the next "linesman up" finds them. A command that is still
connected, such as "linesman run" or "linesman mcp", starts another one in the background when it needs it.

Examples:

    linesman down

Exit status: 0 no up is running, 1 failed, 2 bad flags or settings.`
}

func (c *downCmd) check(a *app) error {
	if a.config.NATS != "" {
		return errors.New("nats: `down` stops the `linesman up` of a data directory; it cannot stop another server")
	}
	return nil
}

func (c *downCmd) Run(ctx context.Context, a *app) error {
	a.whisper()
	var asked int
	for late := time.Now().Add(stopTimeout); held(a.config.DataDir); {
		here, err := readInstance(a.config.DataDir)
		if err == nil && here.PID != asked {
			if err = a.askStop(ctx, here); err == nil {
				asked = here.PID
			}
		}
		if time.Now().After(late) {
			return fmt.Errorf("%s is still in use after %v%s", a.config.DataDir, stopTimeout, by(here, err))
		}
		if err := retryPause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// takeOver takes the lock of the data directory, from an `up` in the background
// if need be: that one ends, and what is connected to it finds this one.
func (a *app) takeOver(ctx context.Context) (*os.File, error) {
	data := a.config.DataDir
	begun, asked := time.Now(), 0
	for {
		lock, err := lockData(data)
		if !errors.Is(err, errLocked) {
			return lock, err
		}
		waited := time.Since(begun)
		here, err := readInstance(data)
		switch {
		case err == nil && !here.Background && waited > ghost:
			return nil, fmt.Errorf("%w: %s: end it first, or choose another directory with --data-dir", errLocked, data)
		case err == nil && here.Background && here.PID != asked:
			if err = a.askStop(ctx, here); err == nil {
				asked = here.PID
				a.log.Info("the `linesman up` in the background gives way", zap.Int("pid", here.PID))
			}
		}
		if waited > stopTimeout {
			return nil, fmt.Errorf("%w: %s, and has not given way after %v%s", errLocked, data, stopTimeout, by(here, err))
		}
		if err := retryPause(ctx); err != nil {
			return nil, err
		}
	}
}

// stopTimeout is how long an `up` that was asked to end may take.
const stopTimeout = 30 * time.Second

// retryPause waits a moment before the next attempt, unless ctx ends.
func retryPause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(20 * time.Millisecond):
		return nil
	}
}

// by says which process does not end, as far as is known.
func by(here instance, err error) string {
	process := "the process that has it"
	if here.lives() {
		process = fmt.Sprintf("process %d", here.PID)
	}
	switch {
	case here.PID == 0:
		return ": the process that has it does not say which it is; end that"
	case errors.Is(err, bus.ErrUnreachable), errors.Is(err, context.DeadlineExceeded):
		return ": " + here.silent()
	case err != nil:
		return fmt.Sprintf(": %v; end %s", first(err), process)
	}
	return "; end " + process
}

// silent says what to do about a process that has the data directory and does
// not answer.
func (i instance) silent() string {
	process, number := "a process", ""
	if i.lives() {
		process, number = fmt.Sprintf("process %d", i.PID), fmt.Sprintf(" %d", i.PID)
	}
	return fmt.Sprintf("%s has the data directory and does not answer: if it was stopped, `kill -CONT%s` resumes it, else `kill -9%[2]s` ends it; its agents continue", process, number)
}

// lives reports whether the process with the number in linesman.json is still
// the one that wrote it, as far as /proc tells: a person is advised to kill it,
// and the number may be another's by now.
func (i instance) lives() bool {
	program, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", i.PID))
	return err == nil && strings.TrimSuffix(program, " (deleted)") == i.Program
}

// askStop asks an `up` to end, over its own server: a process number alone may
// be another's by now.
func (a *app) askStop(ctx context.Context, here instance) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	b, err := a.connect(ctx, embedded.OperatorUser)
	if err != nil {
		return err
	}
	defer b.Close()
	return b.AskStop(ctx, here.PID)
}
