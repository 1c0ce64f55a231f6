package adcp

import "github.com/linesman/linesman/runs"

// Of is what every response about one run says.
func Of(r *runs.Record) Response {
	a := Response{Status: StatusOf(r.State), TaskID: r.ID, ContextID: r.Context(), Message: r.Summary(),
		Governance: r.Governance}
	if a.Status == Failed {
		a.Error = failureOf(r)
	}
	return a
}

// failureOf is why a run has failed. Without a record no more is known.
func failureOf(r *runs.Record) *Error {
	e := &Error{Code: ToolError, Message: "the task has failed", Recovery: Terminal}
	if r == nil {
		return e
	}
	var details struct {
		State   runs.State `json:"state"`
		Timeout string     `json:"timeout_type,omitempty"`
		Exit    *int       `json:"exit_code,omitempty"`
		Reason  string     `json:"reason,omitempty"`
	}
	details.State, details.Reason = r.State, r.Reason
	if r.State == runs.StateTimeout {
		e.Code, e.Message = TaskTimeout, "the task exceeded its "+r.Reason+" limit"
		details.Timeout = r.Reason
	} else if s := r.Summary(); s != "" {
		e.Message = s
	}
	if r.Exit != nil {
		details.Exit = r.Exit.Code
	}
	e.Details = encode(details)
	return e
}
