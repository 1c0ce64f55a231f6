package adcp

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/request"
	v36 "github.com/linesman/linesman/responder/v36"
)

// Code is the kind of an error, in the terms of the contract, or a code of
// linesman if the contract has none.
type Code string

// The codes. Those that the contract lacks are marked as ours; a caller decides
// by their recovery.
const (
	invalidRequest     Code = "INVALID_REQUEST"  // the request cannot be read
	validationError    Code = "VALIDATION_ERROR" // a field of it is wrong
	notFound           Code = "REFERENCE_NOT_FOUND"
	unsupported        Code = "UNSUPPORTED_FEATURE"
	authRequiredError  Code = "AUTH_REQUIRED"
	unavailable        Code = "SERVICE_UNAVAILABLE"
	rateLimited        Code = "RATE_LIMITED"
	permissionDenied   Code = "PERMISSION_DENIED"
	versionUnsupported Code = "VERSION_UNSUPPORTED"
	taskTimeout        Code = "TASK_TIMEOUT"    // ours
	toolError          Code = "TOOL_ERROR"      // ours
	outcomeUnknown     Code = "OUTCOME_UNKNOWN" // ours: whether the request was carried out is not known
	idempotencyClash   Code = "IDEMPOTENCY_CONFLICT"
	idempotencyFlight  Code = "IDEMPOTENCY_IN_FLIGHT"
	idempotencyExpired Code = "IDEMPOTENCY_EXPIRED"
)

// recovery is what a caller can do about an error.
type recovery string

// The recoveries of the contract.
const (
	transient   recovery = "transient"   // the same again, later
	correctable recovery = "correctable" // another request
	terminal    recovery = "terminal"    // a person
)

// Error is one error of a response. It quotes nothing of the request.
type Error struct {
	Code       Code            `json:"code"`
	Message    string          `json:"message"`
	Field      string          `json:"field,omitempty"`
	Suggestion string          `json:"suggestion,omitempty"`
	RetryAfter int             `json:"retry_after,omitempty"` // seconds, 1 to 3600; 0: unknown
	Issues     []issue         `json:"issues,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"` // an object
	Recovery   recovery        `json:"recovery,omitempty"`
	Severity   string          `json:"severity,omitempty"` // within errors[]: error or warning
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func (e Error) as(severity string) Error {
	e.Severity = severity
	return e
}

// issue is one mistake in a request.
type issue struct {
	Pointer string `json:"pointer"` // RFC 6901
	Message string `json:"message"`
	Keyword string `json:"keyword"` // of JSON Schema
}

// issueOf is a mistake in a request, with the keyword of JSON Schema that is
// closest to its description.
func issueOf(mistake api.Issue) issue {
	i := issue{Message: mistake.Problem, Keyword: "format"}
	if within, ok := strings.CutPrefix(mistake.Field, request.Webhook+"."); ok {
		i.Pointer = "/" + request.Webhook + "/" + strings.ReplaceAll(within, ".", "/")
	} else if mistake.Field != "" && mistake.Field != request.Whole {
		i.Pointer = "/" + pointers.Replace(mistake.Field)
	}
	for _, k := range keywords {
		if strings.HasPrefix(mistake.Problem, k.begins) {
			i.Keyword = k.keyword
			break
		}
	}
	return i
}

var pointers = strings.NewReplacer("~", "~0", "/", "~1")

var keywords = []struct{ begins, keyword string }{
	{"is required", "required"}, {"is no parameter", "additionalProperties"},
	{"there is no parameter", "additionalProperties"},
	{"must be one of", "enum"}, {"at most", "maxLength"}, {"must be a string", "type"}, {"must be a number", "type"},
	{"must be true or false", "type"}, {"must be an object", "type"}, {"must be an array", "type"},
	{"must not be blank", "minLength"},
	{"must be true", "const"},
}

// kind is a code of package api in the terms of AdCP.
type kind struct {
	code     Code
	status   Status   // of the answer
	recovery recovery // "": by whether it is retryable
	own      bool     // AdCP has its own code: there are no details
}

// kinds maps every code.
var kinds = map[api.Code]kind{
	api.Validation:     {code: validationError, status: Rejected, recovery: correctable},
	api.NotFound:       {code: notFound, status: unknown, recovery: correctable},
	api.Ended:          {code: validationError, status: Rejected, recovery: correctable},
	api.NotEnded:       {code: validationError, status: Rejected, recovery: correctable},
	api.NotWaiting:     {code: validationError, status: Rejected, recovery: correctable},
	api.Conflict:       {code: validationError, status: Rejected, recovery: correctable},
	api.Timeout:        {code: taskTimeout, status: Failed},
	api.Unsupported:    {code: unsupported, status: Rejected, recovery: correctable},
	api.ProgramFailed:  {code: toolError, status: Failed},
	api.NotSignedIn:    {code: authRequiredError, status: authRequired, recovery: terminal},
	api.QueueFull:      {code: unavailable, status: Rejected, recovery: transient},
	api.TooMany:        {code: unavailable, status: Failed, recovery: transient},
	api.KeyConflict:    {code: idempotencyClash, status: Rejected, recovery: correctable, own: true},
	api.KeyInFlight:    {code: idempotencyFlight, status: Rejected, recovery: transient, own: true},
	api.KeyExpired:     {code: idempotencyExpired, status: Rejected, recovery: correctable, own: true},
	api.RateLimited:    {code: rateLimited, status: Rejected, recovery: transient, own: true},
	api.OutcomeUnknown: {code: outcomeUnknown, status: Failed, recovery: terminal, own: true},
	api.Unavailable:    {code: unavailable, status: Failed, recovery: transient},
	api.Internal:       {code: unavailable, status: Failed, recovery: transient},
}

// ErrorOf converts an error to the terms of AdCP. Broken means that the request
// cannot be read.
func ErrorOf(e *api.Error, broken bool) *Error {
	k := kinds[e.Code]
	a := &Error{
		Code: k.code, Message: e.Message, Field: e.Field, Suggestion: e.Suggestion,
		Recovery: k.recovery,
	}
	if e.RetryAfter > 0 {
		const most = 3600 // of the contract
		a.RetryAfter = min(max(int((e.RetryAfter+time.Second-1)/time.Second), 1), most)
	}
	switch {
	case a.Recovery == "" && e.Retryable:
		a.Recovery = transient
	case a.Recovery == "":
		a.Recovery = terminal
	}
	if broken && e.Code == api.Validation {
		a.Code = invalidRequest
	}
	switch {
	case k.code == idempotencyClash:
		a.Field = "" // nothing of the other request
		return a
	case e.Reason == api.ReasonVersion:
		a.Code = versionUnsupported
		return a
	case k.own, e.Code == api.Unsupported && e.Reason == api.ReasonNotOffered:
		return a
	}
	v := v36.ErrorOf(e)
	a.Message = v.Message
	for _, i := range e.Issues {
		a.Issues = append(a.Issues, issueOf(i))
	}
	rest := v.Details
	rest.Field, rest.Suggestion, rest.Issues = "", "", nil
	if d := encode(rest); string(d) != "{}" {
		a.Details = d
	}
	return a
}

var httpCodes = map[Code]int{
	versionUnsupported: http.StatusBadRequest,
	invalidRequest:     http.StatusBadRequest, validationError: http.StatusBadRequest,
	authRequiredError: http.StatusUnauthorized, permissionDenied: http.StatusForbidden, notFound: http.StatusNotFound,
	taskTimeout:      http.StatusRequestTimeout,
	idempotencyClash: http.StatusConflict, idempotencyFlight: http.StatusConflict, idempotencyExpired: http.StatusGone,
	rateLimited: http.StatusTooManyRequests, unsupported: http.StatusNotImplemented, toolError: http.StatusBadGateway,
	unavailable: http.StatusServiceUnavailable,
}

// HTTP returns the HTTP status of a code; 500 if none fits.
func (c Code) HTTP() int { return cmp.Or(httpCodes[c], http.StatusInternalServerError) }
