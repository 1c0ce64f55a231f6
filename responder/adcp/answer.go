package adcp

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// Call is the request that an answer belongs to.
type Call struct {
	Args       *request.Args
	ChangesRun bool // it changes a run that exists
	Replayed   bool // the answer is that of an earlier request with the same key

	// Push is what a submission registers beside its arguments, as in [Response]; nil: nothing.
	Push json.RawMessage
}

// registered returns the webhook that a submission has registered.
func (c Call) registered() json.RawMessage {
	if raw := c.Args.Raw(request.Webhook); raw != nil {
		if r, err := webhook.ParseConfig(raw); err == nil {
			return r.Echo()
		}
	}
	return c.Push
}

// Subject is the one run that an answer is about.
type Subject struct {
	run        string
	status     Status
	context    string
	governance string
	complete   bool         // a submission: the record is not needed
	record     *runs.Record // nil: not read
}

// OfRecord returns a run whose record was read.
func OfRecord(r *runs.Record) *Subject {
	return &Subject{run: r.ID, status: StatusOf(r.State), context: r.Labels.Context(r.Context()),
		governance: r.Governance, record: r}
}

// OfView returns a run of the run table.
func OfView(v runs.Header) *Subject {
	return &Subject{run: v.ID, status: StatusOf(v.State), context: v.Labels.Context(v.Thread),
		governance: v.Governance}
}

// OfSubmission returns a run that was accepted, with the labels of its task: it may have no record yet. What an older
// release has stored of it has no context.
func OfSubmission(done api.Submitted, labels runs.Labels) *Subject {
	return &Subject{run: done.Run, status: Submitted, governance: done.Governance, complete: true,
		context: cmp.Or(done.Context, done.Thread, labels.Value(runs.LabelContext))}
}

// OfCancel returns a run after a cancel.
func OfCancel(v runs.Header, done api.Cancelled) *Subject {
	of := OfView(v)
	of.status = StatusOf(done.State)
	return of
}

// Succeed returns the answer to a request that succeeded. The subject is nil if
// the reply is not about a single run. Succeed reads what the subject lacks.
func Succeed(ctx context.Context, s *responder.Service, c Call, r *v36.Reply, of *Subject) Response {
	a := Response{Status: completed, Message: r.Message(), Body: r.Body()}
	if of != nil {
		of.read(ctx, s)
		a.Status = of.status
		if of.complete {
			a.Push = c.registered()
		}
		if a.Status == Failed {
			a.Error = failureOf(of.record)
		}
	}
	return c.Complete(a, of)
}

// Fail returns the answer to a request with an error. A wait for a run, or a request for its result, does not fail
// because the run has not ended: the answer has the state of the run, and the error as a warning. The run that a
// submission conflicts with is only in the details of the error.
func Fail(ctx context.Context, s *responder.Service, c Call, err error) Response {
	known := api.Known(err)
	e := ErrorOf(known, c.Args.Broken())
	a := Response{Status: kinds[known.Code].status, Message: e.Message, Error: e}
	if known.Elapsed.Milliseconds() > 0 {
		a.Body = encode(map[string]any{"meta": map[string]int64{"duration_ms": known.Elapsed.Milliseconds()}})
	}
	if known.Reason == api.ReasonVersion {
		e.Details = unserved(s, c.Args)
	}
	var of *Subject
	if known.Run != "" && known.Code != api.NotFound && (known.Code != api.Conflict || c.ChangesRun) {
		of = &Subject{run: known.Run}
		if v, ok := s.Get(of.run); ok {
			of = OfView(v)
		}
		of.status = StatusOf(known.State)
		of.read(ctx, s)
	}
	if of != nil && (known.Code == api.Timeout || known.Code == api.NotEnded) {
		switch of.status {
		case Submitted, working, inputRequired:
			a.Status, a.Error, a.Warnings = of.status, nil, []Error{*e}
		}
	}
	return c.Complete(a, of)
}

// Complete adds the subject, or nil, and what the request determines.
func (c Call) Complete(a Response, of *Subject) Response {
	a.At, a.Release, a.Context, a.Replayed = api.TimeOf(time.Now()), c.Args.Release(), c.Args.Echo(), c.Replayed
	if of != nil {
		a.TaskID, a.ContextID, a.Governance = of.run, of.context, of.governance
	}
	return a
}

// read completes the subject from its record, if that can be read.
func (of *Subject) read(ctx context.Context, s *responder.Service) {
	if of.complete || of.record != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	record, err := s.Record(ctx, of.run)
	if err != nil { // logged by the service, or not recorded yet
		return
	}
	of.record, of.governance = record, record.Governance
	if of.context == "" {
		of.context = record.Labels.Context(record.Context())
	}
}

// ofRun returns the fields of every response about one run.
func ofRun(r *runs.Record) Response {
	a := Response{
		Status: StatusOf(r.State), TaskID: r.ID, ContextID: r.Labels.Context(r.Context()),
		Message: r.Summary(), Governance: r.Governance,
	}
	if a.Status == Failed {
		a.Error = failureOf(r)
	}
	return a
}

// failureOf returns the error of a failed run; the record may be nil.
func failureOf(r *runs.Record) *Error {
	e := &Error{Code: toolError, Message: "the task has failed", Recovery: terminal}
	if r == nil {
		return e
	}
	var details struct {
		State   runs.State `json:"state"`
		Timeout string     `json:"timeout_type,omitempty"`
		Exit    *int       `json:"exit_code,omitempty"`
		Reason  string     `json:"reason,omitempty"`
	}
	details.State, details.Reason = r.State, r.Reason
	if r.State == runs.StateTimeout {
		e.Code, e.Message = taskTimeout, "the task exceeded its "+r.Reason+" limit"
		details.Timeout = r.Reason
	} else if s := r.Summary(); s != "" {
		e.Message = s
	}
	if r.Exit != nil {
		details.Exit = r.Exit.Code
	}
	e.Details = encode(details)
	return e
}
