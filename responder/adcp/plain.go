package adcp

import (
	"net/http"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Plain is an answer of a surface that has plain JSON and statuses of HTTP of its own.
type Plain struct {
	Record *runs.Record // of the run that it is about; nil: none
	Late   bool         // the wait ended before the run

	Status       int // of HTTP, if it refuses the request; 0: it does not
	Code, Detail string
	Field, Run   string // body is the whole of the request
	Issues       []api.Issue
	RetryAfter   int // seconds; of a service that is not available
}

// Response returns the response that says the same.
func (p Plain) Response() Response {
	r := Response{Status: completed}
	switch {
	case p.Status != 0:
		r = p.refusal()
	case p.Record != nil:
		r = ofRun(p.Record)
	}
	if p.Late {
		r.Warnings = []Error{{Code: taskTimeout, Message: "the run has not ended yet: it goes on", Recovery: transient}}
	}
	return r
}

func (p Plain) refusal() Response {
	e := &Error{Code: invalidRequest, Message: p.Detail, Field: p.Field, Recovery: correctable}
	for _, i := range p.Issues {
		if i.Field == "body" {
			i.Field = ""
		}
		e.Issues = append(e.Issues, issueOf(i))
	}
	r := Response{Status: Rejected, TaskID: p.Run, Message: p.Detail, Error: e}
	switch {
	case p.Status == http.StatusUnauthorized:
		r.Status, e.Code = authRequired, authRequiredError
	case p.Status == http.StatusForbidden:
		e.Code = permissionDenied
	case p.Status == http.StatusNotFound:
		r.Status, e.Code = unknown, notFound
	case p.Status == http.StatusNotImplemented:
		e.Code = unsupported
	case p.Status >= 500:
		r.Status, e.Code, e.Recovery = Failed, unavailable, transient
		if p.Status == http.StatusServiceUnavailable {
			e.RetryAfter = p.RetryAfter
		}
	case p.Code == "VALIDATION" && p.Field != "body", p.Code == "CONFLICT":
		e.Code = validationError
	}
	return r
}

// HTTP returns the status of HTTP of a surface that answers as [Plain].
func (r Response) HTTP() int {
	switch {
	case r.Error == nil && r.Status == canceled:
		return http.StatusOK
	case r.Error == nil:
		return http.StatusAccepted
	case r.Error.Code == idempotencyExpired:
		return http.StatusConflict
	case r.Error.Code == rateLimited:
		return http.StatusServiceUnavailable
	}
	return r.Error.Code.HTTP()
}
