package main

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
)

// Exit codes. `run` ends with the agent's own code instead, and with the
// second group if there was no agent.
const (
	exitDone   = 0 // done
	exitFailed = 1 // failed, or a difference was found
	exitUsage  = 2 // bad flags or settings; for run, too
	exitNATS   = 3 // NATS is unreachable, or does not accept and store data
	exitNoRun  = 4 // there is no such run
	exitAsks   = 5 // a question of the run is open, for `wait --until` and `send --wait`

	exitBusy = datadir.ExitLocked // of `up --background` alone: another one holds the lock of the data directory

	exitTimeout       = 124 // a limit ended the run
	exitLinesman      = 125 // linesman itself failed
	exitNotExecutable = 126 // the command exists but cannot be executed
	exitNotFound      = 127 // there is no such command
	exitSignal        = 128 // plus N: signal N ended the agent, or the command
)

// exitError ends the program with a code of its own. Without an error nothing
// is printed: the code is sufficient, as for an agent that has failed.
type exitError struct {
	code int
	err  error
}

// exitWith gives err, which may be nil, an exit code.
func exitWith(code int, err error) error { return &exitError{code, err} }

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// codeOf returns the code that [exitWith] gave to an error.
func codeOf(err error) (code int, given bool) {
	var coded *exitError
	if errors.As(err, &coded) {
		return coded.code, true
	}
	return 0, false
}

// exitCode is the program's exit code for what a command returned.
func exitCode(err error) int {
	code, given := codeOf(err)
	switch {
	case err == nil:
		return exitDone
	case given:
		return code
	case errors.Is(err, datadir.ErrSettings):
		return exitUsage
	case errors.Is(err, datadir.ErrUnavailable):
		return exitNATS
	default:
		return exitFailed
	}
}

// signalCode is the exit code for a signal that ended a command.
func signalCode(by signalled) int { return exitSignal + int(by) }

// tellSignal adds the name and the exit code of the signal to the error of a command
// whose context the signal has ended.
func tellSignal(ctx context.Context, err error) error {
	var by signalled
	if !errors.Is(err, context.Canceled) || !errors.As(context.Cause(ctx), &by) {
		return err
	}
	return exitWith(signalCode(by), errors.New(strings.ReplaceAll(err.Error(), context.Canceled.Error(), by.Error())))
}

// endCode is the exit code for the end of an agent.
func endCode(x runs.Exit) int {
	switch {
	case x.Reason == runs.ReasonIdle, x.Reason == runs.ReasonHard:
		return exitTimeout
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotFound:
		return exitNotFound
	case x.Reason == runs.ReasonSpawn && x.Spawn == runs.SpawnNotExecutable:
		return exitNotExecutable
	case x.Reason == runs.ReasonSpawn, x.Reason == runs.ReasonLost, x.Reason == runs.ReasonSpool:
		return exitLinesman
	case x.Reason == runs.ReasonFinished && x.Failed:
		return exitFailed
	case x.Reason == runs.ReasonFinished:
		return exitDone
	case x.Signal != 0:
		return exitSignal + x.Signal
	case x.Code != nil:
		return *x.Code
	case x.Reason == runs.ReasonCancelled: // before there was an agent
		return exitSignal + int(syscall.SIGINT)
	}
	return exitLinesman
}

// attachCode is the exit code for the end of a run, as of [endCode]. A run without a process
// of its own has one by its state, and so has one whose agent did not exit by itself after its turn.
func attachCode(r *api.Run) int {
	x := r.Exit
	switch {
	case x != nil && x.Reason != runs.ReasonEOF && x.Reason != runs.ReasonFinished:
		return endCode(runs.Exit{Reason: x.Reason, Code: x.Code, Signal: x.Signal, Spawn: x.Spawn})
	case r.State == runs.StateCompleted:
		return exitDone
	case r.State == runs.StateCancelled:
		return endCode(runs.Exit{Reason: runs.ReasonCancelled})
	}
	return exitFailed
}
