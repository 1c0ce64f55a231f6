package responder

import (
	"context"
	"errors"
	"slices"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

func notFound(run string) *api.Error {
	e := &api.Error{Code: api.NotFound, Message: "there is no task of this id", Err: runs.ErrNoRun}
	if runs.CheckID(run) == nil {
		e.Run = run
	}
	return e
}

func ended(run string, state runs.State) *api.Error {
	return &api.Error{
		Code: api.Ended, Field: api.FieldRun, Message: "the task has ended: it is " + string(state), Run: run, State: state,
	}
}

func unavailable(why string, cause error) *api.Error {
	return &api.Error{Code: api.Unavailable, Message: why, Retryable: true, Err: cause}
}

func notOffered(field, why string) *api.Error {
	return &api.Error{Code: api.Unsupported, Field: field, Message: why, Reason: api.ReasonNotOffered}
}

// noCloud is the error of a request for Codex Cloud if that is not configured.
func noCloud() *api.Error {
	return &api.Error{
		Code: api.Unsupported, Message: "Codex Cloud is not configured here", Reason: api.ReasonNotConfigured,
		Suggestion: "Configure the responder to drive Codex Cloud: install the Codex CLI, run `codex login`, and " +
			"turn its cloud settings on",
	}
}

// ofRun is the error of a request about a run, nil for any other; run may be "".
func ofRun(run string, err error) *api.Error {
	if errors.Is(err, runs.ErrNoRun) {
		return notFound(run)
	}
	if over, ok := errors.AsType[*runtable.EndedError](err); ok {
		return ended(run, over.State)
	}
	if errors.Is(err, runtable.ErrNotAsked) {
		return &api.Error{Code: api.NotWaiting, Field: api.FieldRun, Message: err.Error(), Run: run, Err: err}
	}
	return nil
}

// explainRun is explain for a request about one run.
func (s *Service) explainRun(run, what string, err error) error {
	if err == nil {
		return nil
	}
	if e := ofRun(run, err); e != nil {
		return e
	}
	return s.explain(what, err)
}

// Explain converts the error of a store that a surface uses directly to an
// [*api.Error]. Operation is for the log.
func (s *Service) Explain(operation string, err error) error { return s.explain(operation, err) }

// explain converts any error to an [*api.Error]. If callers cannot do anything about
// it, the cause is logged.
func (s *Service) explain(what string, err error) error {
	if err == nil { // before the variables below are allocated
		return nil
	}
	if known, ok := errors.AsType[*api.Error](err); ok {
		return known
	}
	if program, ok := errors.AsType[*codexcloud.Failure](err); ok {
		return programFailed(program)
	}
	if e := ofRun("", err); e != nil {
		return e
	}
	switch {
	case errors.Is(err, runtable.ErrNotReady):
		return unavailable(err.Error(), err)
	case errors.Is(err, runs.ErrNoOwner):
		return unavailable("the worker of the run is away, and its raw log has lost its beginning: try again once the "+
			"worker is back", err)
	case errors.Is(err, runs.ErrFilling):
		return unavailable(runs.ErrFilling.Error()+": try again in some seconds", err)
	case errors.Is(err, runs.ErrManyRuns):
		return api.Invalid(api.FieldRun, "the task cannot be cancelled: "+runs.ErrManyRuns.Error())
	case errors.Is(err, runs.ErrQueueFull):
		return &api.Error{
			Code: api.QueueFull, Message: "the work queue is full", Retryable: true,
			Suggestion: "Try again once tasks have ended", Err: err,
		}
	}
	s.log.Warn("a request failed", zap.String("operation", what), zap.Error(err))
	why := ""
	if s.cfg.Cause != nil {
		why = s.cfg.Cause(err)
	}
	switch {
	case why != "":
		return unavailable(why, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable("the streams did not answer in time", err)
	case s.Connected() != nil:
		return s.Connected()
	}
	return &api.Error{
		Code: api.Internal, Message: "cannot " + what + ": the log of the responder has the cause", Err: err,
	}
}

func programFailed(f *codexcloud.Failure) *api.Error {
	e := &api.Error{
		Code: api.ProgramFailed, Message: "the Codex CLI failed: " + f.Reason,
		Stderr: f.Stderr, Reason: f.Reason, Suggestion: f.Suggestion, Elapsed: f.Elapsed, Err: f, Retryable: f.Passes(),
	}
	if f.Exit >= 0 {
		e.ExitCode = new(f.Exit)
	}
	if f.NotSignedIn() {
		e.Code = api.NotSignedIn
	}
	return e
}

// mistakes collects the mistakes of a request.
type mistakes struct{ issues []api.Issue }

// when adds a mistake if it is one, unless the field has one already.
func (m *mistakes) when(is bool, field, problem string) {
	if is && !slices.ContainsFunc(m.issues, func(i api.Issue) bool { return i.Field == field }) {
		m.issues = append(m.issues, api.Issue{Field: field, Problem: problem})
	}
}

// fields adds every [runs.FieldError] of err, and returns the rest.
func (m *mistakes) fields(err error) error {
	if err == nil {
		return nil
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		var rest []error
		for _, e := range joined.Unwrap() {
			rest = append(rest, m.fields(e))
		}
		return errors.Join(rest...)
	}
	if field, ok := errors.AsType[*runs.FieldError](err); ok {
		m.when(true, field.Field, field.Problem)
		return nil
	}
	return err
}

// validation is err, or an [api.Validation] error if err consists of [runs.FieldError]s.
func validation(err error) error {
	var m mistakes
	if rest := m.fields(err); rest != nil {
		return rest
	}
	return m.err()
}

// err is a [api.Validation] error with all mistakes, or nil.
func (m *mistakes) err() error {
	if len(m.issues) == 0 {
		return nil
	}
	e := api.Invalid(m.issues[0].Field, m.issues[0].Problem)
	e.Issues = m.issues
	return e
}

// add adds the mistakes of another collection, under other names.
func (m *mistakes) add(other mistakes, name func(field string) string) {
	for _, i := range other.issues {
		m.when(true, name(i.Field), i.Problem)
	}
}

// webhookField is a field of a registration by its name in package api.
func webhookField(field string) string {
	switch field {
	case "":
		return api.FieldWebhook
	case "context":
		return "context"
	}
	return api.FieldWebhook + "." + field
}

// registration is a webhook in the form of package webhook.
func registration(w *api.Webhook, run string) webhook.Registration {
	return webhook.Registration{
		ID: webhook.AdCP, Protocol: webhook.AdCP, Run: run, URL: w.URL, OperationID: w.OperationID, Token: w.Token,
		Scheme: w.Scheme, Credentials: w.Credentials, Tool: w.Operation, Context: w.Context,
	}
}
