package adcp

import "encoding/json"

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
