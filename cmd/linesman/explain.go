package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/local"
	"github.com/linesman/linesman/runs"
)

// envelope calls a tool for a run, or for all if run is empty, and prints its
// answer; see [explain].
func (a *app) envelope(
	ctx context.Context, l *client.Client, verb string, args map[string]any, flags map[string]string, run runID,
) error {
	e, err := l.RunTool(ctx, verb, string(run), args)
	return a.printEnvelope(e, err, flags, run)
}

// printEnvelope prints the envelope of a tool as it came, on one line, and
// returns its error.
func (a *app) printEnvelope(e client.Envelope, err error, flags map[string]string, run runID) error {
	if e.Body != nil {
		if _, err := fmt.Fprintf(a.stdout, "%s\n", console.JSONFor(a.stdout, e.Body)); err != nil {
			return err
		}
	}
	return explain(err, flags, run)
}

// explain is the error of a request in the words of the command line, with its
// exit code. Flags are the flags for the fields of the request; run, if any, is
// the run of the request.
func explain(err error, flags map[string]string, run runID) error {
	var e *api.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Err != nil:
		return unanswered(e)
	case e.Code == api.NotFound && run != "":
		return errNoRun(run)
	}
	switch e.Code {
	case api.Validation, api.Ended, api.NotEnded, api.NotWaiting, api.Conflict:
		if e.State != "" { // the command line is valid; the state of the run does not permit it
			text, _, _ := strings.Cut(e.Message, ": it is ")
			return exitWith(exitFailed, errors.New(about(run, text)+": it is "+console.Word(string(e.State))))
		}
		return exitWith(exitUsage, console.Mistakes(e, flags))
	}
	text := about(run, e.Message)
	for _, more := range []string{e.Suggestion, e.WebURL} {
		if more != "" {
			text += ": " + console.Safe(more)
		}
	}
	return exitWith(exitFailed, errors.New(text))
}

func errNoRun(run runID) error { return exitWith(exitNoRun, fmt.Errorf("there is no run %s", run)) }

// unanswered is the error of a request that got no answer.
func unanswered(e *api.Error) error {
	switch {
	case errors.Is(e, client.ErrNoResponder):
		const hint = "start `linesman up`, or `linesman responder` beside a server of its own"
		return exitWith(exitNATS, fmt.Errorf("%w: %s", e, hint))
	case errors.Is(e, context.DeadlineExceeded):
		return exitWith(exitNATS, errors.New(e.Message+": see `linesman doctor`"))
	case errors.Is(e, client.ErrDenied):
		const user = "operator"
		return exitWith(exitNATS, fmt.Errorf("%w: use the keys of %s, %s", e, user, local.Permission(user)))
	case errors.Is(e, client.ErrUnreachable):
		return exitWith(exitNATS, e)
	}
	return e
}

// about is a message about a run, if there is one.
func about(run runID, text string) string {
	if run != "" {
		return "run " + string(run) + ": " + console.Safe(text)
	}
	return console.Safe(text)
}

// noRequest is the error of a command about a request that waits for an answer,
// and says what to do next if it was not found.
func noRequest(err, none error) error {
	var e *api.Error
	switch {
	case !errors.As(err, &e) || e.Err != nil:
		return explain(err, nil, "")
	case e.Code == api.NotFound:
		const hint = "linesman bridge list: lists those that wait, each by its run and its request id"
		return exitWith(exitNoRun, errors.Join(none, errors.New(hint)))
	case e.Run != "":
		return fmt.Errorf("run %s: %s", console.Word(e.Run), console.Safe(e.Error()))
	}
	return errors.New(console.Safe(e.Error()))
}

// completed returns nil for the state of a completed run; for others an error with
// an exit code and no text, because the result of the run has it.
func completed(state runs.State) error {
	if state == runs.StateCompleted {
		return nil
	}
	return exitWith(exitFailed, nil)
}
