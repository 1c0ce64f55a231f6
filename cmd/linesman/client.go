package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/console"
	"github.com/linesman/linesman/runs"
)

// responder connects to where requests are answered. The caller closes the
// client.
func (a *app) responder(ctx context.Context) (*client.Client, error) {
	a.asks = true
	b, err := a.client(ctx, embedded.OperatorUser)
	if err != nil {
		return nil, err
	}
	return client.New(b), nil
}

// printEnvelope prints the envelope of a tool as it came, on one line, and
// returns the error that it holds.
func (a *app) printEnvelope(e client.Envelope, err error, flags map[string]string, run runID) error {
	if e.Body != nil {
		if _, err := fmt.Fprintf(a.stdout, "%s\n", console.JSONFor(a.stdout, e.Body)); err != nil {
			return err
		}
	}
	return explain(err, flags, run)
}

// explain is the error of a request as the command line tells it, with its exit
// code. Flags are what the fields of the request are called here; run, if any,
// was asked about.
func explain(err error, flags map[string]string, run runID) error {
	var e *api.Error
	switch {
	case !errors.As(err, &e):
		return err
	case e.Err != nil:
		return unanswered(e)
	case e.Code == api.NotFound && run != "":
		return exitWith(exitNoRun, fmt.Errorf("there is no run %s", run))
	}
	switch e.Code {
	case api.Validation, api.Ended, api.NotEnded, api.NotWaiting, api.Conflict:
		if e.State != "" { // the command line is well: it is the run that does not fit
			return exitWith(exitFailed, errors.New(message(e, run)+": it is "+console.Word(string(e.State))))
		}
		return exitWith(exitUsage, mistakes(e, flags))
	}
	text := message(e, run)
	for _, more := range []string{e.Suggestion, e.WebURL} {
		if more != "" {
			text += ": " + console.Safe(more)
		}
	}
	return exitWith(exitFailed, errors.New(text))
}

// unanswered is the error of a request that got no answer.
func unanswered(e *api.Error) error {
	switch {
	case errors.Is(e, client.ErrNoResponder):
		const hint = "start `linesman up`, or `linesman responder` beside a server of its own"
		return exitWith(exitNATS, fmt.Errorf("%w: %s", e, hint))
	case errors.Is(e, context.DeadlineExceeded):
		return exitWith(exitNATS, errors.New(e.Message+": see `linesman doctor`"))
	case errors.Is(e, client.ErrDenied):
		const user = embedded.OperatorUser
		return exitWith(exitNATS, fmt.Errorf("%w: use the keys of %s, %s", e, user, mayDo[user]))
	case errors.Is(e, client.ErrUnreachable):
		return exitWith(exitNATS, e)
	}
	return e
}

// message is that of an error, without what is said anyway.
func message(e *api.Error, run runID) string {
	text := e.Message
	if e.State != "" {
		text, _, _ = strings.Cut(text, ": it is ")
	}
	if run != "" {
		return "run " + string(run) + ": " + console.Safe(text)
	}
	return console.Safe(text)
}

// mistakes are all that is wrong with the arguments.
func mistakes(e *api.Error, flags map[string]string) error {
	name := func(field string) string {
		switch flag := flags[field]; {
		case flag != "":
			return flag
		case field == "task_id", field == "taskId", field == api.FieldRun:
			return "RUN"
		}
		return console.Word(field)
	}
	var all []error
	for _, i := range e.Issues {
		all = append(all, fmt.Errorf("%s: %s", name(i.Field), console.Safe(i.Problem)))
	}
	if e.Unlisted > 0 {
		all = append(all, fmt.Errorf("and %d more mistakes", e.Unlisted))
	}
	switch {
	case all != nil:
		return errors.Join(all...)
	case e.Field != "":
		return errors.New(console.Safe(name(e.Field) + ": " + e.Message))
	}
	return errors.New(console.Safe(e.Message))
}

// tool is the name of a tool for a run: those of Codex Cloud have their own.
func (id runID) tool(verb string) string {
	if id.inCloud() {
		return "_codex_cloud_" + verb
	}
	return "_codex_local_" + verb
}

// named are the arguments that name a run to its status and results tools.
func (id runID) named() map[string]any {
	if id.inCloud() {
		return map[string]any{"taskId": id}
	}
	return map[string]any{"task_id": id}
}

func (id runID) inCloud() bool { return strings.HasPrefix(string(id), "T-cloud-") }

// wholeSeconds is a duration as a submission takes it, rounded up.
func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// goes reports whether a run completed; else the exit code says so, and its
// result says it all.
func goes(state runs.State) error {
	if state == runs.StateCompleted {
		return nil
	}
	return exitWith(exitFailed, nil)
}
