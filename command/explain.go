package command

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

// Refused is a refusal of linesman in the words of the command line.
type Refused struct {
	error
	of *api.Error
}

// Refuse says a refusal in other words.
func Refuse(said error, of *api.Error) error { return Refused{said, of} }

// Unwrap returns both forms.
func (r Refused) Unwrap() []error { return []error{r.error, r.of} }

// Explain is the error of a request in the words of the command line, with its
// exit code. Flags are the flags for the fields of the request; run, if any, is
// the run of the request.
func Explain(err error, flags map[string]string, run string) error {
	var e *api.Error
	_, coded := CodeOf(err)
	switch {
	case coded || !errors.As(err, &e):
		return err
	case e.Err != nil:
		return unanswered(e)
	case e.Code == api.NotFound && run != "":
		return NoSuchRun(run)
	}
	says := func(code int, said error) error { return Exit(code, Refused{said, e}) }
	switch e.Code {
	case api.Validation, api.Ended, api.NotEnded, api.NotWaiting, api.Conflict:
		if e.State != "" { // the command line is valid; the state of the run does not permit it
			text, _, _ := strings.Cut(e.Message, ": it is ")
			return says(Failed, errors.New(about(run, text)+": it is "+console.Word(string(e.State))))
		}
		if e.Code == api.Conflict && e.Issues != nil {
			return says(Usage, console.Ambiguous(run, e))
		}
		return says(Usage, console.Mistakes(e, flags))
	}
	text := about(run, e.Message)
	for _, more := range []string{e.Suggestion, e.WebURL} {
		if more != "" {
			text += ": " + console.Safe(more)
		}
	}
	return says(Failed, errors.New(text))
}

// RunID is the id of the run that an argument names. One that is a whole id costs no request. A name that
// no run has may be the id of a run that is about to start, or that only a stream has.
func RunID(ctx context.Context, l *client.Client, run string) (string, error) {
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
	return "", Explain(err, map[string]string{api.FieldRef: "RUN"}, run)
}

// NoSuchRun is the error of a command about a run that does not exist.
func NoSuchRun(run string) error {
	e := &api.Error{Code: api.NotFound, Message: "there is no run " + run, Run: run}
	return Exit(NoRun, Refused{e, e})
}

// unanswered is the error of a request that got no answer.
func unanswered(e *api.Error) error {
	switch {
	case errors.Is(e, client.ErrNoResponder):
		const hint = "start `linesman up`, or `linesman responder` beside a server of its own"
		return Exit(NATS, fmt.Errorf("%w: %s", e, hint))
	case errors.Is(e, context.DeadlineExceeded):
		return Exit(NATS, errors.New(e.Message+": see `linesman doctor`"))
	case errors.Is(e, client.ErrDenied):
		const user = "operator"
		return Exit(NATS, fmt.Errorf("%w: use the keys of %s, %s", e, user, local.Permission(user)))
	case errors.Is(e, client.ErrUnreachable):
		return Exit(NATS, e)
	}
	return e
}

// about is a message about a run, if there is one.
func about(run, text string) string {
	if run != "" {
		return "run " + run + ": " + console.Safe(text)
	}
	return console.Safe(text)
}

// NoRequest is the error of a command about a request that waits for an answer,
// and says what to do next if it was not found.
func NoRequest(err, none error) error {
	var e *api.Error
	switch {
	case !errors.As(err, &e) || e.Err != nil:
		return Explain(err, nil, "")
	case e.Code == api.NotFound:
		const hint = "linesman bridge list: lists those that wait, each by its run and its request id"
		return Exit(NoRun, Refused{errors.Join(none, errors.New(hint)), e})
	case e.Run != "":
		return Refused{fmt.Errorf("run %s: %s", console.Word(e.Run), console.Safe(e.Error())), e}
	}
	return Refused{errors.New(console.Safe(e.Error())), e}
}

// Completed returns nil for the state of a completed run; for others an error with
// an exit code and no text, because the result of the run has it.
func Completed(state runs.State) error {
	if state == runs.StateCompleted {
		return nil
	}
	return Exit(Failed, nil)
}
