package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/cmd/console"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/runs"
)

// refused is a refusal of linesman in the words of the command line.
type refused struct {
	error
	of *api.Error
}

// refuse says a refusal in other words.
func refuse(said error, of *api.Error) error { return refused{said, of} }

// Unwrap returns both forms.
func (r refused) Unwrap() []error { return []error{r.error, r.of} }

// explain is the error of a request in the words of the command line, with its
// exit code. Flags are the flags for the fields of the request; run, if any, is
// the run of the request.
func explain(err error, flags map[string]string, run string) error {
	var e *api.Error
	_, coded := codeOf(err)
	switch {
	case coded || !errors.As(err, &e):
		return err
	case e.Err != nil:
		return unanswered(e)
	case e.Code == api.NotFound && run != "":
		return noSuchRun(run)
	}
	says := func(code int, said error) error { return exitWith(code, refused{said, e}) }
	switch e.Code {
	case api.Validation, api.Ended, api.NotEnded, api.NotWaiting, api.Conflict:
		if e.State != "" { // the command line is valid; the state of the run does not permit it
			text, _, _ := strings.Cut(e.Message, ": it is ")
			return says(exitFailed, errors.New(ofRun(run, text)+": it is "+console.Word(string(e.State))))
		}
		if e.Code == api.Conflict && e.Issues != nil {
			return says(exitUsage, ambiguous(run, e))
		}
		return says(exitUsage, mistakes(e, flags))
	}
	text := ofRun(run, e.Message)
	for _, more := range []string{e.Suggestion, e.WebURL} {
		if more != "" {
			text += ": " + console.Safe(more)
		}
	}
	return says(exitFailed, errors.New(text))
}

// onlyWith begins the problem of a field that needs another one, whose name follows.
const onlyWith = "only with "

// mistakes are all that is wrong with a request, as joined errors. Names are the
// names of its fields on the command line.
func mistakes(e *api.Error, names map[string]string) error {
	name := func(field string) string {
		switch flag := names[field]; {
		case flag != "":
			return flag
		case field == "task_id", field == "taskId", field == api.FieldRun:
			return "RUN"
		}
		if head, element, ok := strings.Cut(field, "."); ok && names[head] != "" {
			return names[head] + "." + element
		}
		return console.Word(field)
	}
	var all []error
	for _, i := range e.Issues {
		if flag := names[strings.TrimPrefix(i.Problem, onlyWith)]; flag != "" && strings.HasPrefix(i.Problem, onlyWith) {
			i.Problem = onlyWith + flag
		}
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

// ambiguous is the refusal of a reference to several runs, which it lists: joined errors.
func ambiguous(ref string, e *api.Error) error {
	all := []error{fmt.Errorf("RUN: %s %s: give more of its id", console.Word(ref), console.Safe(e.Message))}
	for _, i := range e.Issues {
		all = append(all, fmt.Errorf("    %s  %s", console.Word(i.Field), console.Safe(i.Problem)))
	}
	if e.Unlisted > 0 {
		all = append(all, fmt.Errorf("    and %d more", e.Unlisted))
	}
	return errors.Join(all...)
}

// printRefusal prints why linesman refused a request as JSON, on one line: the [api.Error] in the
// tree of err. It prints nothing for any other error, and for a request that got no answer.
func printRefusal(w io.Writer, err error) error {
	var e *api.Error
	if !errors.As(err, &e) || e.Err != nil {
		return nil
	}
	return console.PrintJSON(w, e)
}

// resolveRun is the id of the run that an argument names. One that is a whole id costs no request. A name that
// no run has may be the id of a run that is about to start, or that only a stream has.
func resolveRun(ctx context.Context, l *client.Client, run string) (string, error) {
	if strings.HasPrefix(run, "T-") && len(run) >= len(runs.LocalID(0, 0)) {
		return run, nil
	}
	found, err := l.Resolve(ctx, run)
	late := ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
	switch {
	case err == nil:
		return found, nil
	case !late && !api.Is(err, api.Conflict) && run != "last" && runs.CheckID(run) == nil:
		return run, nil
	}
	return "", explain(err, map[string]string{api.FieldRef: "RUN"}, run)
}

// noSuchRun is the error of a command about a run that does not exist.
func noSuchRun(run string) error {
	e := &api.Error{Code: api.NotFound, Message: "there is no run " + run, Run: run}
	return exitWith(exitNoRun, refused{e, e})
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
		const user = "operator"
		return exitWith(exitNATS, fmt.Errorf("%w: use the keys of %s, %s", e, user, datadir.Permission(user)))
	case errors.Is(e, client.ErrUnreachable):
		return exitWith(exitNATS, e)
	}
	return e
}

// ofRun is a message about a run, if there is one.
func ofRun(run, text string) string {
	if run != "" {
		return "run " + run + ": " + console.Safe(text)
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
		return exitWith(exitNoRun, refused{errors.Join(none, errors.New(hint)), e})
	case e.Run != "":
		return refused{fmt.Errorf("run %s: %s", console.Word(e.Run), console.Safe(e.Error())), e}
	}
	return refused{errors.New(console.Safe(e.Error())), e}
}

// completed returns nil for the state of a completed run; for others an error with
// an exit code and no text, because the result of the run has it.
func completed(state runs.State) error {
	if state == runs.StateCompleted {
		return nil
	}
	return exitWith(exitFailed, nil)
}
