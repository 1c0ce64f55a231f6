package delegator

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/runs"
)

// subject is the one run that an answer is about.
type subject struct {
	run        string
	status     adcp.Status
	thread     string
	governance string
	known      bool         // all of that is known
	record     *runs.Record // nil: not read
}

func ofRecord(r *runs.Record) *subject {
	return &subject{run: r.ID, status: adcp.StatusOf(r.State), thread: r.Context(), governance: r.Governance, record: r}
}

func ofView(v responder.View) *subject {
	return &subject{run: v.ID, status: adcp.StatusOf(v.State), thread: v.Thread, governance: v.Governance}
}

// ofSubmission is a run that was accepted just now, or when its key came first:
// it may have no record yet.
func ofSubmission(done outcome) *subject {
	return &subject{run: done.Run, status: adcp.Submitted, thread: done.Thread, governance: done.Governance, known: true}
}

// adcp is the answer to a call in the envelope of AdCP: the same facts as in
// that of v3.6, in other places.
func (c *call) adcp(ctx context.Context, r *reply, err error) Answer {
	a := adcp.Response{Status: adcp.Completed, At: time.Now(), Replayed: c.again, Context: c.echo()}
	var of *subject
	if err != nil {
		of = c.tellFailure(&a, err)
	} else {
		of = r.of
		a.Message, a.Body = message(r.data), body(r)
	}
	if of != nil {
		c.complete(ctx, of)
		a.TaskID, a.ContextID, a.Governance = of.run, of.thread, of.governance
		if err == nil {
			a.Status = of.status
		}
		if err == nil && a.Status == adcp.Failed {
			a.Error = adcp.FailureOf(of.record)
		}
	}
	return Answer{Envelope: a.Encode(), JSON: true, IsError: a.Error != nil}
}

// echo is the caller's context, as it was written. One that was refused does
// not come back.
func (c *call) echo() json.RawMessage {
	if c.args.broken {
		return nil
	}
	return c.args.raw("context")
}

// complete reads what of the run is not known yet.
func (c *call) complete(ctx context.Context, of *subject) {
	if of.known || of.record != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	record, err := c.Responder.Record(ctx, of.run)
	switch {
	case errors.Is(err, runs.ErrNoRun): // there is none yet
		return
	case err != nil:
		c.log.Warn("the record of a run cannot be read", zap.String("run", of.run), zap.Error(err))
		return
	}
	of.record, of.governance = record, record.Governance
	if of.thread == "" {
		of.thread = record.Context()
	}
}

// tellFailure puts why a call got nothing into its answer, and returns the run
// that it was about, nil where there is none. That a run has not ended is no
// failure: the answer tells how it stands, with a warning.
func (c *call) tellFailure(a *adcp.Response, err error) *subject {
	var e adcp.Error
	if own := (*adcp.Error)(nil); errors.As(err, &own) {
		a.Status, a.Message, a.Error = adcp.Rejected, own.Message, own
		if own.Code == adcp.OutcomeUnknown {
			a.Status = adcp.Failed
		}
		return nil
	}
	f := c.explain(err)
	e.Code, e.Recovery = adcp.FromV36(f.Code, f.Retryable, c.args.broken)
	e.Message, e.Field, e.Suggestion = f.Message, f.Details.Field, f.Details.Suggestion
	e.Issues = issues(f.Details.Issues)
	rest := f.Details
	rest.Field, rest.Suggestion, rest.Issues = "", "", nil
	if d := encode(rest); string(d) != "{}" {
		e.Details = d
	}
	a.Message = f.Message
	if f.Duration > 0 {
		a.Body = encode(map[string]any{"meta": map[string]int64{"duration_ms": f.Duration}})
	}
	var of *subject
	if f.Details.TaskID != "" && f.Code != codeNotFound {
		of = &subject{run: f.Details.TaskID}
		if v, ok := c.Responder.Get(of.run); ok {
			of = ofView(v)
		}
		of.status = adcp.StatusOf(runs.State(f.Details.State))
	}
	if of != nil && !c.tool.changesRun() && (of.status == adcp.Submitted || of.status == adcp.Working || of.status == adcp.InputRequired) {
		a.Status, a.Warnings = of.status, []adcp.Error{e}
		return of
	}
	a.Error = &e
	switch {
	case f.Code == codeValidation, f.Code == codeUnsupported, f.Details.Reason == "queue_full":
		a.Status = adcp.Rejected
	case f.Code == codeNotFound:
		a.Status = adcp.Unknown
	case f.Details.Reason == cloud.ReasonNotSignedIn:
		a.Status, e.Code, e.Recovery = adcp.AuthRequired, adcp.AuthRequiredError, adcp.Terminal
	default:
		a.Status = adcp.Failed
	}
	return of
}

// changesRun reports whether a tool changes a run that is there.
func (t *tool) changesRun() bool { return strings.HasSuffix(t.name, "_cancel") }

// issues are the mistakes in the arguments.
func issues(list []issue) []adcp.Issue {
	var all []adcp.Issue
	for _, i := range list {
		field := i.Field
		if field == "arguments" {
			field = ""
		}
		one := adcp.IssueOf(field, i.Problem)
		if within, ok := strings.CutPrefix(field, pushName+"."); ok {
			one.Pointer = "/" + pushName + "/" + strings.ReplaceAll(within, ".", "/")
		}
		all = append(all, one)
	}
	return all
}

// message says in one line what an answer says.
func message(d data) string {
	switch d := d.(type) {
	case *ackData:
		if d.Ext != nil && d.Ext.Summary != "" {
			return d.Ext.Summary
		}
		return d.title
	case *resultData:
		return d.Summary
	case *snapshotData:
		return number(int64(d.Summary.Running)) + " running, " + number(int64(d.Summary.Queued)) + " queued, " +
			number(int64(d.Summary.Recent)) + " ended"
	case *cancelData:
		return "Task " + d.State
	}
	return ""
}

// body is what stands beside the envelope: the data of v3.6, and its meta as
// one object. The word for how a task stands is the envelope's.
func body(r *reply) json.RawMessage {
	said := r.data
	if d, ok := said.(*resultData); ok {
		without := *d
		without.Metadata.TaskStatus = ""
		said = &without
	}
	b := encode(said)
	meta := encode(r.meta)
	if string(meta) == "{}" {
		return b
	}
	b = append(b[:len(b)-1], `,"meta":`...)
	return append(append(b, meta...), '}')
}
