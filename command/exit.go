// Package command is what the commands of the program linesman share apart from their flags:
// errors with exit codes, in the words of the command line, and the printing of runs.
package command

import (
	"context"
	"errors"
	"strings"

	"github.com/linesman/linesman/local"
)

// Exit codes of all commands.
const (
	Done   = 0 // done
	Failed = 1 // failed, or a difference was found
	Usage  = 2 // bad flags or settings
	NATS   = 3 // NATS is unreachable, or does not accept and store data
	NoRun  = 4 // there is no such run

	Signal = 128 // plus N: signal N ended the agent, or the command
)

// exitError ends the program with a code of its own. Without an error nothing
// is printed: the code is sufficient, as for an agent that has failed.
type exitError struct {
	code int
	err  error
}

// Exit gives err, which may be nil, an exit code.
func Exit(code int, err error) error { return &exitError{code, err} }

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// CodeOf returns the code that [Exit] gave to an error.
func CodeOf(err error) (code int, given bool) {
	var coded *exitError
	if errors.As(err, &coded) {
		return coded.code, true
	}
	return 0, false
}

// Code is the program's exit code for what a command returned.
func Code(err error) int {
	code, given := CodeOf(err)
	switch {
	case err == nil:
		return Done
	case given:
		return code
	case errors.Is(err, local.ErrSettings):
		return Usage
	case errors.Is(err, local.ErrUnavailable):
		return NATS
	default:
		return Failed
	}
}

// SignalCode is the exit code for a signal that ended a command.
func SignalCode(by local.Signalled) int { return Signal + int(by) }

// TellSignal adds the name and the exit code of the signal to the error of a command
// whose context the signal has ended.
func TellSignal(ctx context.Context, err error) error {
	var by local.Signalled
	if !errors.Is(err, context.Canceled) || !errors.As(context.Cause(ctx), &by) {
		return err
	}
	return Exit(SignalCode(by), errors.New(strings.ReplaceAll(err.Error(), context.Canceled.Error(), by.Error())))
}
