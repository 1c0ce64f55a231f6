package delegator

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/runs"
)

// The codes of errors.
const (
	codeTimeout     = "TIMEOUT"
	codeValidation  = "VALIDATION"
	codeTool        = "TOOL_ERROR"
	codeNotFound    = "NOT_FOUND"
	codeUnsupported = "UNSUPPORTED"
	codeInternal    = "INTERNAL"
)

// failure is why a call did not get what it asked for.
type failure struct{ wireError }

func (f *failure) Error() string { return f.Code + ": " + f.Message }

// wireError is the error of an envelope.
type wireError struct {
	Code      string  `json:"code"`
	Message   string  `json:"message"`
	Details   details `json:"details"`
	Retryable bool    `json:"retryable"`
	Duration  int64   `json:"duration_ms,omitempty"`
}

// details are what an error says beyond its message; each code has some of them.
type details struct {
	Field    string  `json:"field,omitempty"` // as the caller calls it
	Meant    string  `json:"did_you_mean,omitempty"`
	Issues   []issue `json:"issues,omitempty"`
	Unlisted int     `json:"issues_unlisted,omitempty"`

	TaskID      string   `json:"task_id,omitempty"`
	State       string   `json:"state,omitempty"`
	TimeoutType string   `json:"timeout_type,omitempty"` // idle, hard or wait
	Elapsed     *int64   `json:"elapsed_seconds,omitempty"`
	Partial     *partial `json:"partial_results,omitempty"`

	ExitCode   *int   `json:"exit_code,omitempty"`
	Stderr     string `json:"stderr_tail,omitempty"`
	Reason     string `json:"reason,omitempty"`
	Suggestion string `json:"suggestion,omitempty"`

	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`

	CloudID string `json:"cloud_id,omitempty"`
	WebURL  string `json:"web_ui_url,omitempty"`
}

// partial is what a task had printed when its time was over.
type partial struct {
	Events []json.RawMessage `json:"last_events"`
	Output string            `json:"last_output"`
}

func invalid(field, problem string, d details) *failure {
	d.Field = field
	return &failure{wireError{Code: codeValidation, Message: field + ": " + problem, Details: d}}
}

func notFound(id string) *failure {
	f := &failure{wireError{Code: codeNotFound, Message: "there is no task of this id"}}
	if runs.CheckID(id) == nil {
		f.Details.TaskID = id
	}
	return f
}

// explain makes any error one that a caller may see. What happened inside
// stays inside: the log tells it.
func (c *call) explain(err error) *failure {
	var known *failure
	var ended *responder.EndedError
	var program *cloud.Failure
	var refused *adcp.Error
	var unready *responder.NotReadyError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &unready):
		return &failure{wireError{Code: codeInternal, Message: unready.Error(), Retryable: true}}
	case errors.Is(err, runs.ErrNoRun):
		return &failure{wireError{Code: codeNotFound, Message: "there is no task of this id"}}
	case errors.As(err, &ended):
		return &failure{wireError{
			Code: codeValidation, Message: "the task has ended: it is " + string(ended.State), Details: details{Field: "task_id", State: string(ended.State)},
		}}
	case errors.Is(err, runs.ErrManyRuns):
		return invalid("task_id", "the task cannot be given up: "+runs.ErrManyRuns.Error(), details{})
	case errors.As(err, &program):
		return explainProgram(program)
	case errors.As(err, &refused):
		return explainRefusal(refused)
	case errors.Is(err, runs.ErrQueueFull):
		return &failure{wireError{
			Code: codeInternal, Message: "the work queue is full", Retryable: true,
			Details: details{Reason: "queue_full", Suggestion: "Try again once tasks have ended"},
		}}
	}
	c.log.Warn("a call failed", zap.String("tool", c.tool.name), zap.Error(err))
	f := &failure{wireError{Code: codeInternal, Message: "the streams did not do what was asked of them", Retryable: true}}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		f.Message = "the streams did not answer in time"
	}
	if c.Why != nil {
		if why := c.Why(err); why != "" {
			f.Message = why
		}
	}
	return f
}

// explainRefusal is an error of AdCP's own in the words of v3.6, which has none
// for keys.
func explainRefusal(e *adcp.Error) *failure {
	f := &failure{wireError{
		Code: codeValidation, Message: e.Message, Retryable: e.Recovery == adcp.Transient,
		Details: details{Field: e.Field, Reason: strings.ToLower(string(e.Code)), Suggestion: e.Suggestion},
	}}
	if e.Field != "" {
		f.Message = e.Field + ": " + e.Message
	}
	switch e.Code {
	case adcp.OutcomeUnknown:
		f.Code = codeTool
	case adcp.RateLimited:
		f.Code = codeInternal
	case adcp.Unsupported:
		f.Code = codeUnsupported
	}
	return f
}

func explainProgram(f *cloud.Failure) *failure {
	e := &failure{wireError{
		Code: codeTool, Message: "the Codex CLI failed: " + f.Reason,
		Details: details{Stderr: f.Stderr, Reason: f.Reason, Suggestion: f.Suggestion},
	}}
	if f.Exit >= 0 {
		exit := f.Exit
		e.Details.ExitCode = &exit
	}
	switch f.Reason {
	case cloud.ReasonNetwork, cloud.ReasonRateLimit, cloud.ReasonSlow:
		e.Retryable = true
	}
	return e
}

func (f *failure) markdown(p *page) {
	p.heading("Error: " + f.Code)
	p.line(plain(f.Message))
	d := f.Details
	p.gap()
	if len(d.Issues) > 1 {
		for _, i := range d.Issues {
			p.item(code(i.Field) + ": " + plain(i.Problem))
		}
		if d.Unlisted > 0 {
			p.item(number(int64(d.Unlisted)) + " more")
		}
	}
	p.fact("Task", code(d.TaskID))
	p.fact("State", code(d.State))
	p.fact("Time limit", code(d.TimeoutType))
	if d.Elapsed != nil {
		p.fact("Elapsed", seconds(*d.Elapsed))
	}
	if d.ExitCode != nil {
		p.fact("Exit code", number(int64(*d.ExitCode)))
	}
	p.fact("Reason", code(d.Reason))
	p.fact("Suggestion", plain(d.Suggestion))
	p.fact("File", code(d.File))
	if d.Line > 0 {
		p.fact("Line", number(int64(d.Line)))
	}
	p.fact("Cloud task", code(d.CloudID))
	p.fact("Web page", link(d.WebURL))
	p.fact("Retryable", yesNo(f.Retryable))
	if d.Stderr != "" {
		p.block("stderr (end)", "", d.Stderr)
	}
	if d.Partial != nil {
		p.partial(d.Partial)
	}
}
