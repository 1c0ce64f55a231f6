package v36

import (
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
)

// failure is the error of an envelope.
type failure struct {
	Code      string  `json:"code"`
	Message   string  `json:"message"`
	Details   details `json:"details"`
	Retryable bool    `json:"retryable"`
	Duration  int64   `json:"duration_ms,omitempty"`
}

// details are the members of an error beside its message; each code has some of
// them.
type details struct {
	Field    string  `json:"field,omitempty"` // by the caller's name
	Meant    string  `json:"did_you_mean,omitempty"`
	Issues   []issue `json:"issues,omitempty"`
	Unlisted int     `json:"issues_unlisted,omitempty"`

	TaskID      string          `json:"task_id,omitempty"`
	ThreadID    string          `json:"thread_id,omitempty"`
	State       string          `json:"state,omitempty"`
	TimeoutType string          `json:"timeout_type,omitempty"` // idle, hard, spool or wait
	Elapsed     *int64          `json:"elapsed_seconds,omitempty"`
	Partial     *partialResults `json:"partial_results,omitempty"`

	ExitCode   *int   `json:"exit_code,omitempty"`
	Stderr     string `json:"stderr_tail,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Suggestion string `json:"suggestion,omitempty"`

	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`

	AgentKind  string `json:"agent_kind,omitempty"`
	Capability string `json:"capability,omitempty"`

	CloudID string `json:"cloud_id,omitempty"`
	WebURL  string `json:"web_ui_url,omitempty"`
}

// issue is one mistake in a request.
type issue struct {
	Field   string `json:"field"` // the name that the caller used
	Problem string `json:"problem"`
	Meant   string `json:"did_you_mean,omitempty"`
}

// The codes of v3.6.
const (
	codeTimeout     = "TIMEOUT"
	codeValidation  = "VALIDATION"
	codeTool        = "TOOL_ERROR"
	codeNotFound    = "NOT_FOUND"
	codeUnsupported = "UNSUPPORTED"
	codeInternal    = "INTERNAL"
)

// codes maps every code. Those for which v3.6 has no code of its own have a
// reason.
var codes = map[api.Code]struct {
	code, reason string
	field        bool // the message begins with the field
	again        bool // always retryable
}{
	api.Validation:     {code: codeValidation, field: true},
	api.NotFound:       {code: codeNotFound},
	api.Ended:          {code: codeValidation, field: true},
	api.NotEnded:       {code: codeValidation, field: true},
	api.NotWaiting:     {code: codeValidation, field: true},
	api.Conflict:       {code: codeValidation, field: true},
	api.Timeout:        {code: codeTimeout},
	api.Unsupported:    {code: codeUnsupported},
	api.ProgramFailed:  {code: codeTool},
	api.NotSignedIn:    {code: codeTool},
	api.QueueFull:      {code: codeInternal, reason: "queue_full", again: true},
	api.TooMany:        {code: codeInternal, reason: "too_many", again: true},
	api.KeyConflict:    {code: codeValidation, reason: "idempotency_conflict", field: true},
	api.KeyInFlight:    {code: codeValidation, reason: "idempotency_in_flight", field: true, again: true},
	api.KeyExpired:     {code: codeValidation, reason: "idempotency_expired", field: true},
	api.RateLimited:    {code: codeInternal, reason: "rate_limited", field: true, again: true},
	api.OutcomeUnknown: {code: codeTool, reason: "outcome_unknown"},
	api.Unavailable:    {code: codeInternal, again: true},
	api.Internal:       {code: codeInternal, again: true},
}

// ErrorOf converts an error to the terms of v3.6.
func ErrorOf(e *api.Error) *failure {
	kind := codes[e.Code]
	w := &failure{
		Code: kind.code, Message: e.Message, Retryable: e.Retryable || kind.again, Duration: e.Elapsed.Milliseconds(),
		Details: details{
			Field: e.Field, Unlisted: e.Unlisted, TaskID: e.Run, ThreadID: e.Thread, State: string(e.State),
			TimeoutType: e.Limit, Partial: (*partialResults)(e.Partial), ExitCode: e.ExitCode, Stderr: e.Stderr,
			Reason: e.Reason, AgentKind: e.Agent, Capability: e.Capability,
			Suggestion: e.Suggestion, File: e.File, Line: e.Line, CloudID: e.CloudID, WebURL: e.WebURL,
		},
	}
	if kind.reason != "" {
		w.Details.Reason = kind.reason
	}
	if e.Code == api.Unsupported && e.Reason == api.ReasonNotOffered {
		w.Details.Reason, kind.field = "unsupported_feature", true
	}
	if e.Field != "" && kind.field {
		w.Message = e.Field + ": " + e.Message
	}
	if e.Code == api.Timeout {
		seconds := int64(e.Elapsed / time.Second)
		w.Details.Elapsed = &seconds
	}
	for _, i := range e.Issues {
		w.Details.Issues = append(w.Details.Issues, issue(i))
	}
	if len(e.Issues) > 0 {
		w.Details.Meant = e.Issues[0].Meant
		if n := len(e.Issues) - 1 + e.Unlisted; n == 1 {
			w.Message += " (and one more mistake)"
		} else if n > 1 {
			w.Message += fmt.Sprintf(" (and %d more mistakes)", n)
		}
	}
	return w
}

// markdown returns the error as a page.
func (e *failure) markdown() string {
	p := &page{}
	p.heading("Error: " + e.Code)
	p.line(plain(e.Message))
	d := e.Details
	p.gap()
	if len(d.Issues) > 1 {
		for _, i := range d.Issues {
			p.item(code(i.Field) + ": " + plain(i.Problem))
		}
		if d.Unlisted > 0 {
			p.item(number(d.Unlisted) + " more")
		}
	}
	elapsed := ""
	if d.Elapsed != nil {
		elapsed = seconds(*d.Elapsed)
	}
	p.facts("Task", code(d.TaskID), "Thread", code(d.ThreadID), "State", code(d.State),
		"Time limit", code(d.TimeoutType), "Elapsed", elapsed,
		"Exit code", optional(d.ExitCode), "Reason", code(d.Reason), "Suggestion", plain(d.Suggestion),
		"Agent", code(d.AgentKind), "Capability", code(d.Capability),
		"File", code(d.File), "Line", count(d.Line), "Cloud task", code(d.CloudID), "Web page", link(d.WebURL),
		"Retryable", yesNo(e.Retryable))
	if d.Stderr != "" {
		p.block("stderr (end)", "", d.Stderr)
	}
	if d.Partial != nil {
		p.partial(d.Partial)
	}
	return p.String()
}
