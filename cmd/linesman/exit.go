package main

import (
	"syscall"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/command"
	"github.com/linesman/linesman/local"
	"github.com/linesman/linesman/runs"
)

// Exit codes. `run` ends with the agent's own code instead, and with the
// second group if there was no agent.
const (
	exitDone   = command.Done
	exitFailed = command.Failed
	exitUsage  = command.Usage // for run, too
	exitNATS   = command.NATS
	exitNoRun  = command.NoRun

	exitBusy = local.ExitLocked // of `up --background` alone: another one holds the lock of the data directory

	exitTimeout       = 124 // a limit ended the run
	exitLinesman      = 125 // linesman itself failed
	exitNotExecutable = 126 // the command exists but cannot be executed
	exitNotFound      = 127 // there is no such command
	exitSignal        = command.Signal
)

// exitWith gives err, which may be nil, an exit code.
func exitWith(code int, err error) error { return command.Exit(code, err) }

// exitCode is the program's exit code for what a command returned.
func exitCode(err error) int { return command.Code(err) }

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
// of its own has one by its state.
func attachCode(r *api.Run) int {
	x := r.Exit
	switch {
	case x != nil && x.Reason != runs.ReasonEOF:
		return endCode(runs.Exit{Reason: x.Reason, Code: x.Code, Signal: x.Signal, Spawn: x.Spawn})
	case r.State == runs.StateCompleted:
		return exitDone
	case r.State == runs.StateCancelled:
		return endCode(runs.Exit{Reason: runs.ReasonCancelled})
	}
	return exitFailed
}
