package api

import (
	"errors"
	"strings"
	"time"

	"github.com/linesman/linesman/runs"
)

// Code is the kind of an error. Callers decide by the code, never by the
// message.
type Code string

// The codes.
const (
	Validation     Code = "VALIDATION"      // the request is wrong: see Issues
	NotFound       Code = "NOT_FOUND"       // there is no such run
	Ended          Code = "ENDED"           // the run has ended: see State
	NotEnded       Code = "NOT_ENDED"       // the run has not ended: see State
	NotWaiting     Code = "NOT_WAITING"     // the run does not wait for an answer
	Conflict       Code = "CONFLICT"        // the request does not fit the state of the run or of the stream
	Timeout        Code = "TIMEOUT"         // a time limit passed: see Limit
	Unsupported    Code = "UNSUPPORTED"     // this responder, or the agent, does not support it
	ProgramFailed  Code = "PROGRAM_FAILED"  // a program of the agent failed: see Reason
	NotSignedIn    Code = "NOT_SIGNED_IN"   // a program of the agent has no credentials
	QueueFull      Code = "QUEUE_FULL"      // the work queue has no room
	TooMany        Code = "TOO_MANY"        // too many streams and waits are open
	KeyConflict    Code = "KEY_CONFLICT"    // the idempotency key belongs to another request
	KeyInFlight    Code = "KEY_IN_FLIGHT"   // the same request is being carried out
	KeyExpired     Code = "KEY_EXPIRED"     // the outcome of the key's request is no longer kept
	RateLimited    Code = "RATE_LIMITED"    // the caller has reached its limit: see RetryAfter
	OutcomeUnknown Code = "OUTCOME_UNKNOWN" // an earlier attempt may have succeeded; that cannot be found out
	Unavailable    Code = "UNAVAILABLE"     // NATS, or the table of runs, cannot be read now
	Internal       Code = "INTERNAL"        // an error inside linesman: its log has the cause
)

// Codes lists every code, for tables that must map each one.
var Codes = []Code{
	Validation, NotFound, Ended, NotEnded, NotWaiting, Conflict, Timeout, Unsupported, ProgramFailed, NotSignedIn,
	QueueFull, TooMany,
	KeyConflict, KeyInFlight, KeyExpired, RateLimited, OutcomeUnknown, Unavailable, Internal,
}

// Limits that a [Timeout] names, beside the reasons of a run that timed out.
const LimitWait = "wait" // the wait ended; the run continues

// Reasons that more than one surface shows.
const (
	ReasonNotConfigured = "not_configured" // of [Unsupported]: a setting turns it on
	ReasonVersion       = "version"        // of [Unsupported]: a release of AdCP that is not served
	ReasonNotOffered    = "not_offered"    // of [Unsupported]: this responder keeps no keys, or sends no webhooks
	ReasonNotRecorded   = "not_recorded"   // of [ProgramFailed]: the task was started, but no run records it
)

// Error is why a request failed. It quotes no value of the request. Each code
// sets the fields that it needs; the others are zero.
type Error struct {
	Code       Code   `json:"code"`
	Message    string `json:"message"`         // for people, without the field's name
	Field      string `json:"field,omitempty"` // of the request, by its name in this package
	Suggestion string `json:"suggestion,omitempty"`

	Issues   []Issue `json:"issues,omitempty"`         // of [Validation]: all that is wrong
	Unlisted int     `json:"issuesUnlisted,omitempty"` // issues beyond the listed ones

	Run    string     `json:"run,omitempty"`
	Thread string     `json:"thread,omitempty"` // of a run that failed
	State  runs.State `json:"state,omitempty"`  // of the run
	Reason string     `json:"reason,omitempty"` // one word

	Limit   string        `json:"limit,omitempty"`   // of [Timeout]: idle, hard, spool or [LimitWait]
	Elapsed time.Duration `json:"elapsed,omitempty"` // of [Timeout], or how long a program worked: nanoseconds
	Partial *Partial      `json:"partial,omitempty"` // of [Timeout]: the end of the output

	ExitCode *int   `json:"exitCode,omitempty"` // of [ProgramFailed]
	Stderr   string `json:"stderr,omitempty"`   // of [ProgramFailed]: its end, redacted

	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"` // from 1; 0: the file as a whole

	Agent      string `json:"agentKind,omitempty"`  // with Capability
	Capability string `json:"capability,omitempty"` // of [Unsupported]: what the agent, or each worker, has not

	CloudID string `json:"cloudId,omitempty"` // of a task of Codex Cloud
	WebURL  string `json:"webUrl,omitempty"`

	Retryable  bool          `json:"retryable,omitempty"`  // the same request may succeed later
	RetryAfter time.Duration `json:"retryAfter,omitempty"` // nanoseconds; 0: not known

	// Err is the cause, for errors.Is. It is not part of the JSON.
	Err error `json:"-"`
}

// Error returns the field and the message.
func (e *Error) Error() string {
	if e.Field == "" {
		return e.Message
	}
	return e.Field + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether err is an [Error] of a code.
func Is(err error, code Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Known returns the [Error] that err is. Any other error breaks the contract of
// the service, so its text is not shown.
func Known(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: Internal, Message: "unexpected error: the log of the responder has the cause", Err: err}
}

// Issue is one mistake in a request.
type Issue struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
	Meant   string `json:"didYouMean,omitempty"` // the known name closest to the unknown one
}

// Invalid is a [Validation] error of one field.
func Invalid(field, problem string) *Error {
	return &Error{Code: Validation, Field: field, Message: problem}
}

// AllIssues returns Issues or, if there is none, the error itself as one issue.
func (e *Error) AllIssues() []Issue {
	if len(e.Issues) > 0 {
		return e.Issues
	}
	return []Issue{{Field: e.Field, Problem: e.Message}}
}

// Rename returns a copy of the error whose fields have the names of a surface.
// A name that the table lacks stays; of "a.b" the longest known beginning counts.
func (e *Error) Rename(names map[string]string) *Error {
	rename := func(field string) string {
		for head, tail := field, ""; ; {
			if to, ok := names[head]; ok {
				return to + tail
			}
			at := strings.LastIndexByte(head, '.')
			if at < 0 {
				return field
			}
			head, tail = head[:at], field[at:]
		}
	}
	c := *e
	c.Field = rename(e.Field)
	c.Issues = nil
	for _, i := range e.Issues {
		i.Field = rename(i.Field)
		c.Issues = append(c.Issues, i)
	}
	return &c
}
