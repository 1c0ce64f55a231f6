// Package adcp writes answers and notifications in the envelope of AdCP 3.1. It
// owns the fields of the envelope, their order, and the contract's names of
// states and errors. Its contents come from package responder, and are the same
// on every surface.
//
//	v36.Reply, error ──▶ Succeed, Fail ──┐
//	runs.Record ────▶ Plain, NewNotices ─┴▶ Response ──▶ one flat JSON object
//
// The one rule: a caller's context is echoed byte for byte; neither the context
// nor a governance token is interpreted.
package adcp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
)

// Category is that of the tools whose every answer is the envelope.
const Category = "adcp"

// Status is the state of a task in the terms of the contract.
type Status string

// The statuses that linesman uses.
const (
	Submitted     Status = "submitted"
	working       Status = "working"
	inputRequired Status = "input-required"
	completed     Status = "completed"
	canceled      Status = "canceled"
	Failed        Status = "failed"
	Rejected      Status = "rejected"      // refused without an effect
	authRequired  Status = "auth-required" // the agent's program has no credentials
	unknown       Status = "unknown"       // the task is unknown
)

var statuses = map[runs.State]Status{
	runs.StateQueued: Submitted, runs.StateWorking: working, runs.StateInputRequired: inputRequired,
	runs.StateCompleted: completed, runs.StateCancelled: canceled, runs.StateFailed: Failed, runs.StateTimeout: Failed,
}

// StatusOf returns the status of a run.
func StatusOf(s runs.State) Status { return cmp.Or(statuses[s], unknown) }

// Response is the content of an answer. Its fields are those of the contract, in
// their order.
type Response struct {
	Status     Status    `json:"status"`
	Release    string    `json:"adcp_version"`         // that is served; "": the newest
	TaskID     string    `json:"task_id,omitempty"`    // "": not about a single task
	ContextID  string    `json:"context_id,omitempty"` // context of the task; "": not known
	Message    string    `json:"message,omitempty"`    // for people
	At         runs.Time `json:"timestamp"`
	Replayed   bool      `json:"replayed,omitempty"`           // the outcome of an earlier request with the same key
	Governance string    `json:"governance_context,omitempty"` // kept with the run; "": none

	// Push confirms the webhook that the request has registered: [webhook.Registration.Echo]; nil: none.
	Push json.RawMessage `json:"push_notification_config,omitempty"`

	// Error is why the task or the request failed. Warnings do not make it fail;
	// the member has the error, too.
	Error    *Error  `json:"adcp_error,omitempty"`
	Warnings []Error `json:"errors,omitempty"`

	Context json.RawMessage `json:"-"` // the caller's, an object; nil: none
	// Body is an object whose members are added to the envelope, except those
	// with a name of the envelope or one that the contract forbids.
	Body json.RawMessage `json:"-"`
}

// reserved are the names that a body cannot have: those of the envelope, and
// three that must not be on the wire.
var reserved = []string{
	"status", "task_id", "context_id", "message", "timestamp", "replayed", "governance_context", "adcp_error", "errors",
	"context", "adcp_version",
	"push_notification_config", "payload", "task_status", "response_status",
}

// Encode returns the response as one flat object without duplicate names. It is
// compact, except for the context, which is as the caller wrote it. It must be
// sent unchanged: a JSON encoder might change the context.
func (r Response) Encode() []byte {
	e := r
	e.Warnings, e.Release = nil, cmp.Or(r.Release, request.Releases[len(request.Releases)-1])
	if r.Error != nil {
		e.Warnings = append(e.Warnings, r.Error.as("error"))
		if r.Error.Code == idempotencyClash { // the SDK allows no more, so that nothing of the other request leaks
			e.Error = &Error{Code: r.Error.Code, Message: r.Error.Message}
		}
	}
	for _, w := range r.Warnings {
		e.Warnings = append(e.Warnings, w.as("warning"))
	}
	b := encode(e)
	b = b[:len(b)-1]
	if len(r.Context) > 0 {
		b = append(append(b, `,"context":`...), r.Context...)
	}
	var seen []string
	gjson.ParseBytes(vendored(r.Body)).ForEach(func(key, value gjson.Result) bool {
		if name := key.String(); !slices.Contains(reserved, name) && !slices.Contains(seen, name) {
			seen = append(seen, name)
			b = append(append(append(append(b, ','), key.Raw...), ':'), compact(value.Raw)...)
		}
		return true
	})
	return append(b, '}')
}

// vendored returns a body whose extensions are a member of their vendor, as the contract requires.
func vendored(body json.RawMessage) json.RawMessage {
	ext := gjson.GetBytes(body, "ext")
	if !ext.Exists() {
		return body
	}
	return slices.Concat(body[:ext.Index], []byte(`{"linesman":`+ext.Raw+`}`), body[ext.Index+len(ext.Raw):])
}

// Answer returns the response as the answer of a tool.
func (r Response) Answer() v36.Answer {
	a := v36.Answer{Envelope: r.Encode(), JSON: true, IsError: r.Error != nil}
	if a.IsError {
		a.Code, a.Message = string(r.Error.Code), r.Error.Message
	}
	return a
}

// NamesRelease reports whether arguments ask for the envelope by a version field.
func NamesRelease(args json.RawMessage) bool { return request.NamesRelease(args) }

// Unanswered returns the answer to a request that no service has read, by its arguments.
func Unanswered(args json.RawMessage, e *api.Error) v36.Answer {
	c := Call{Args: request.Read(request.FieldParams, args)}
	return c.Complete(Response{Status: kinds[e.Code].status, Message: e.Message, Error: ErrorOf(e, false)}, nil).Answer()
}

func encode(v any) []byte {
	b, err := bounds.Encode(v)
	if err != nil { // strings, numbers, and JSON that was read before
		panic(fmt.Sprintf("adcp: %v", err))
	}
	return b
}

func compact(raw string) []byte {
	var b bytes.Buffer
	if err := json.Compact(&b, []byte(raw)); err != nil { // linesman encoded the body
		panic(fmt.Sprintf("adcp: the body of a response is no JSON: %v", err))
	}
	return b.Bytes()
}
