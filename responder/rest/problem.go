package rest

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// Problem is an error as problem details of RFC 9457, with extension members from
// `code` on.
type Problem struct {
	Type      string      `json:"type"`
	Title     string      `json:"title"`
	Status    int         `json:"status"`
	Detail    string      `json:"detail"`
	Code      string      `json:"code"`
	Field     string      `json:"field,omitempty"`     // what is wrong, as the caller calls it
	Issues    []api.Issue `json:"issues,omitempty"`    // all mistakes
	Run       string      `json:"run,omitempty"`       // of the request
	State     runs.State  `json:"state,omitempty"`     // of the run
	Retryable bool        `json:"retryable,omitempty"` // the same request may succeed later

	Details *Missing `json:"details,omitempty"` // of UNSUPPORTED, if it is a capability of an agent

	after time.Duration // before the same request may succeed; 0: not known
}

// Missing is a capability that an agent has not.
type Missing struct {
	Agent      string `json:"agent_kind"`
	Capability string `json:"capability"`
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

func invalid(field, problem string) *Problem {
	return &Problem{
		Status: http.StatusBadRequest, Code: "VALIDATION", Detail: field + ": " + problem, Field: field,
		Issues: []api.Issue{{Field: field, Problem: problem}},
	}
}

// kinds maps the codes of the service's errors to HTTP.
var kinds = map[api.Code]struct {
	status int
	code   string
	detail string // replaces the message; "": the message
}{
	api.Validation:     {http.StatusBadRequest, "VALIDATION", ""},
	api.NotFound:       {http.StatusNotFound, "NOT_FOUND", "there is no run of this id"},
	api.Ended:          {http.StatusConflict, "CONFLICT", "the run has ended: it is "}, // followed by the state
	api.NotEnded:       {http.StatusConflict, "CONFLICT", ""},
	api.NotWaiting:     {http.StatusConflict, "CONFLICT", ""},
	api.Conflict:       {http.StatusConflict, "CONFLICT", ""},
	api.Timeout:        {http.StatusServiceUnavailable, "UNAVAILABLE", ""},
	api.Unsupported:    {http.StatusNotImplemented, "UNSUPPORTED", ""},
	api.ProgramFailed:  {http.StatusInternalServerError, "TOOL_ERROR", ""},
	api.NotSignedIn:    {http.StatusInternalServerError, "TOOL_ERROR", ""},
	api.QueueFull:      {http.StatusServiceUnavailable, "UNAVAILABLE", ""},
	api.TooMany:        {http.StatusServiceUnavailable, "UNAVAILABLE", ""},
	api.KeyConflict:    {http.StatusConflict, "CONFLICT", ""},
	api.KeyInFlight:    {http.StatusConflict, "CONFLICT", ""},
	api.KeyExpired:     {http.StatusConflict, "CONFLICT", ""},
	api.RateLimited:    {http.StatusServiceUnavailable, "UNAVAILABLE", ""},
	api.OutcomeUnknown: {http.StatusInternalServerError, "TOOL_ERROR", ""},
	api.Unavailable:    {http.StatusServiceUnavailable, "UNAVAILABLE", ""},
	api.Internal:       {http.StatusInternalServerError, "INTERNAL", "internal error; see linesman's log"},
}

// problemOf converts an error of the service to problem details.
func problemOf(e *api.Error) *Problem {
	kind := kinds[e.Code]
	p := &Problem{
		Status: kind.status, Code: kind.code, Detail: kind.detail, Field: e.Field,
		Run: e.Run, State: e.State, Retryable: e.Retryable, after: e.RetryAfter,
	}
	other := e.Reason == runs.WhyUnknown || e.Field != "" && e.Field != api.FieldRun && e.Field != api.FieldRef
	if p.Detail == "" || e.Code == api.NotFound && other { // it is not the run that is not there
		p.Detail = e.Error()
	}
	if e.Agent != "" {
		p.Details = &Missing{e.Agent, e.Capability}
	}
	switch e.Code {
	case api.Ended:
		p.Detail += string(e.State)
		p.Field = "" // the path has the run
	case api.Validation:
		p.listIssues(e)
	}
	return p
}

// listIssues adds all mistakes of a request. A mistake of the arguments as a
// whole is reported for the body.
func (p *Problem) listIssues(e *api.Error) {
	body := func(field string) string {
		if field == request.Whole {
			return "body"
		}
		return field
	}
	if p.Field = body(e.Field); p.Field != e.Field {
		p.Detail = p.Field + ": " + e.Message
	}
	switch n := len(e.Issues) - 1 + e.Unlisted; {
	case len(e.Issues) == 0:
		p.Issues = []api.Issue{{Field: p.Field, Problem: e.Message}}
	case n == 1:
		p.Detail += " (and one more mistake)"
	case n > 1:
		p.Detail += fmt.Sprintf(" (and %d more mistakes)", n)
	}
	for _, i := range e.Issues {
		p.Issues = append(p.Issues, api.Issue{Field: body(i.Field), Problem: i.Problem, Meant: i.Meant})
	}
}

// explain converts any error to problem details. Internal causes are only
// logged.
func (q *exchange) explain(err error) *Problem {
	var p *Problem
	var e *api.Error
	switch {
	case errors.As(err, &p):
	case errors.As(err, &e):
		if p = q.nameKey(problemOf(e)); e.Code == api.NotFound && e.Reason != runs.WhyUnknown {
			p.Run = "" // it is not a valid id
		}
	default:
		p = problemOf(&api.Error{Code: api.Internal})
		q.log.Warn("a request failed", zap.String("operation", q.ID), zap.Error(err))
	}
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	return p
}
