package adcp

import (
	"context"
	"encoding/json"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// Call is what an answer needs of the request.
type Call struct {
	Context    json.RawMessage // of the caller, echoed; nil: none
	Broken     bool            // the request cannot be read
	ChangesRun bool            // it changes a run that exists
	Replayed   bool            // the answer is that of an earlier request with the same key
}

// Subject is the one run that an answer is about.
type Subject struct {
	run        string
	status     Status
	thread     string
	governance string
	complete   bool         // nothing more needs to be read
	record     *runs.Record // nil: not read
}

// OfRecord is a run whose record was read.
func OfRecord(r *runs.Record) *Subject {
	return &Subject{run: r.ID, status: StatusOf(r.State), thread: r.Context(), governance: r.Governance, record: r}
}

// OfView is a run of the run table.
func OfView(v responder.View) *Subject {
	return &Subject{run: v.ID, status: StatusOf(v.State), thread: v.Thread, governance: v.Governance}
}

// OfSubmission is a run that was accepted: it may have no record yet.
func OfSubmission(done api.Submitted) *Subject {
	return &Subject{run: done.Run, status: Submitted, thread: done.Thread, governance: done.Governance, complete: true}
}

// OfCancel is a run after a cancel.
func OfCancel(v responder.View, done api.Cancelled) *Subject {
	of := OfView(v)
	of.status = StatusOf(done.State)
	return of
}

// Succeed is the answer to a request with a reply. The subject is nil where the
// reply is about no single run. What is unknown of the subject is read.
func Succeed(ctx context.Context, s *responder.Service, c Call, r *v36.Reply, of *Subject) Response {
	a := Response{Status: Completed, Message: r.Message(), Body: r.Body()}
	if of != nil {
		of.read(ctx, s)
		a.Status = of.status
		if a.Status == Failed {
			a.Error = failureOf(of.record)
		}
	}
	return c.complete(a, of)
}

// Fail is the answer to a request with an error. A request that found its run
// unfinished has not failed: the answer has the state of the run, and the error
// as a warning.
func Fail(ctx context.Context, s *responder.Service, c Call, err error) Response {
	known := api.Known(err)
	e := ErrorOf(known, c.Broken)
	a := Response{Status: kinds[known.Code].status, Message: e.Message, Error: e}
	if known.Elapsed.Milliseconds() > 0 {
		a.Body = encode(map[string]any{"meta": map[string]int64{"duration_ms": known.Elapsed.Milliseconds()}})
	}
	var of *Subject
	if known.Run != "" && known.Code != api.NotFound {
		of = &Subject{run: known.Run}
		if v, ok := s.Get(of.run); ok {
			of = OfView(v)
		}
		of.status = StatusOf(known.State)
		of.read(ctx, s)
	}
	if of != nil && !c.ChangesRun {
		switch of.status {
		case Submitted, Working, inputRequired:
			a.Status, a.Error, a.Warnings = of.status, nil, []Error{*e}
		}
	}
	return c.complete(a, of)
}

// complete adds the subject, or nil, and what the request determines.
func (c Call) complete(a Response, of *Subject) Response {
	a.At, a.Context, a.Replayed = time.Now(), c.Context, c.Replayed
	if of != nil {
		a.TaskID, a.ContextID, a.Governance = of.run, of.thread, of.governance
	}
	return a
}

// read completes the subject by its record, where there is one and it can be read.
func (of *Subject) read(ctx context.Context, s *responder.Service) {
	if of.complete || of.record != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	record, err := s.Record(ctx, of.run)
	if err != nil { // the service has logged it; or there is no record yet
		return
	}
	of.record, of.governance = record, record.Governance
	if of.thread == "" {
		of.thread = record.Context()
	}
}

// Of is what every response about one run says.
func Of(r *runs.Record) Response {
	a := Response{Status: StatusOf(r.State), TaskID: r.ID, ContextID: r.Context(), Message: r.Summary(),
		Governance: r.Governance}
	if a.Status == Failed {
		a.Error = failureOf(r)
	}
	return a
}

// failureOf is why a run has failed. Without a record no more is known.
func failureOf(r *runs.Record) *Error {
	e := &Error{Code: ToolError, Message: "the task has failed", Recovery: Terminal}
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
		e.Code, e.Message = TaskTimeout, "the task exceeded its "+r.Reason+" limit"
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
