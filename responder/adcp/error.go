package adcp

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Code is why something went wrong, in the words of the contract, or in ours
// where it has none.
type Code string

// The codes that linesman gives. Those without a word of the contract are
// marked as ours; a caller goes by their recovery.
const (
	InvalidRequest     Code = "INVALID_REQUEST"  // the request cannot be read
	ValidationError    Code = "VALIDATION_ERROR" // a field of it is wrong
	NotFound           Code = "REFERENCE_NOT_FOUND"
	Unsupported        Code = "UNSUPPORTED_FEATURE"
	AuthRequiredError  Code = "AUTH_REQUIRED"
	Unavailable        Code = "SERVICE_UNAVAILABLE"
	RateLimited        Code = "RATE_LIMITED"
	TaskTimeout        Code = "TASK_TIMEOUT"    // ours
	ToolError          Code = "TOOL_ERROR"      // ours
	OutcomeUnknown     Code = "OUTCOME_UNKNOWN" // ours: whether the request was carried out cannot be told
	IdempotencyClash   Code = "IDEMPOTENCY_CONFLICT"
	IdempotencyFlight  Code = "IDEMPOTENCY_IN_FLIGHT"
	IdempotencyExpired Code = "IDEMPOTENCY_EXPIRED"
)

// Recovery says what a caller can do about an error.
type Recovery string

// The recoveries of the contract.
const (
	Transient   Recovery = "transient"   // the same again, later
	Correctable Recovery = "correctable" // another request
	Terminal    Recovery = "terminal"    // a person
)

// Error is one error of a response. It never quotes what a caller sent.
type Error struct {
	Code       Code            `json:"code"`
	Message    string          `json:"message"`
	Field      string          `json:"field,omitempty"`
	Suggestion string          `json:"suggestion,omitempty"`
	RetryAfter int             `json:"retry_after,omitempty"` // seconds, 1 to 3600; 0: not told
	Issues     []Issue         `json:"issues,omitempty"`
	Details    json.RawMessage `json:"details,omitempty"` // an object
	Recovery   Recovery        `json:"recovery,omitempty"`
	Severity   string          `json:"severity,omitempty"` // within errors[]: error or warning
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func (e Error) as(severity string) Error {
	e.Severity = severity
	return e
}

// Issue is one mistake in a request.
type Issue struct {
	Pointer string `json:"pointer"` // RFC 6901
	Message string `json:"message"`
	Keyword string `json:"keyword"` // of JSON Schema
}

// IssueOf is a mistake in a field, "" being the whole request, with the keyword
// of JSON Schema that comes closest to our words for it.
func IssueOf(field, problem string) Issue {
	i := Issue{Message: problem, Keyword: "format"}
	if field != "" {
		i.Pointer = "/" + pointers.Replace(field)
	}
	for _, k := range keywords {
		if strings.HasPrefix(problem, k.begins) {
			i.Keyword = k.keyword
			break
		}
	}
	return i
}

var pointers = strings.NewReplacer("~", "~0", "/", "~1")

var keywords = []struct{ begins, keyword string }{
	{"is required", "required"}, {"is no parameter", "additionalProperties"}, {"there is no parameter", "additionalProperties"},
	{"must be one of", "enum"}, {"at most", "maxLength"}, {"must be a string", "type"}, {"must be a number", "type"},
	{"must be true or false", "type"}, {"must be an object", "type"}, {"must be an array", "type"}, {"must not be blank", "minLength"},
	{"must be true", "const"},
}

// FromV36 is the code and the recovery of an error of the v3.6 delegator.
// Whole says that the request as a whole cannot be read.
func FromV36(code string, retryable, whole bool) (Code, Recovery) {
	again := Terminal
	if retryable {
		again = Transient
	}
	switch code {
	case "VALIDATION":
		if whole {
			return InvalidRequest, Correctable
		}
		return ValidationError, Correctable
	case "NOT_FOUND":
		return NotFound, Correctable
	case "UNSUPPORTED":
		return Unsupported, Correctable
	case "TIMEOUT":
		return TaskTimeout, again
	case "TOOL_ERROR":
		return ToolError, again
	}
	return Unavailable, Transient
}

// HTTP is the status code of HTTP that fits an error; 500 where none does.
func (c Code) HTTP() int {
	switch c {
	case InvalidRequest, ValidationError:
		return http.StatusBadRequest
	case AuthRequiredError:
		return http.StatusUnauthorized
	case NotFound:
		return http.StatusNotFound
	case TaskTimeout:
		return http.StatusRequestTimeout
	case IdempotencyClash, IdempotencyFlight:
		return http.StatusConflict
	case IdempotencyExpired:
		return http.StatusGone
	case RateLimited:
		return http.StatusTooManyRequests
	case Unsupported:
		return http.StatusNotImplemented
	case ToolError:
		return http.StatusBadGateway
	case Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}
