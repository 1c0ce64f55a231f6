package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// Problem is why a request did not get what it asked for: problem details of
// RFC 9457, with members of our own from Code on.
type Problem struct {
	Type      string     `json:"type"`
	Title     string     `json:"title"`
	Status    int        `json:"status"`
	Detail    string     `json:"detail"`
	Code      string     `json:"code"`
	Field     string     `json:"field,omitempty"`
	Issues    []Issue    `json:"issues,omitempty"` // all that is wrong
	RunID     string     `json:"runId,omitempty"`
	State     runs.State `json:"state,omitempty"` // of the run
	Retryable bool       `json:"retryable,omitempty"`
}

// Issue is one mistake in a request.
type Issue struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
	Meant   string `json:"didYouMean,omitempty"`
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

func invalid(field, problem string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Code: "VALIDATION", Detail: field + ": " + problem, Field: field, Issues: []Issue{{Field: field, Problem: problem}}}
}

func noRun() *Problem {
	return &Problem{Status: http.StatusNotFound, Code: "NOT_FOUND", Detail: "there is no run of this id"}
}

func unavailable(detail string) *Problem {
	return &Problem{Status: http.StatusServiceUnavailable, Code: "UNAVAILABLE", Detail: detail, Retryable: true}
}

func internal() *Problem {
	return &Problem{Status: http.StatusInternalServerError, Code: "INTERNAL", Detail: "linesman broke off; its log says where"}
}

// explain makes any error one that a caller may see. What happened inside
// stays inside: the log tells it.
func (q *request) explain(err error) *Problem {
	var p *Problem
	if !errors.As(err, &p) {
		p = q.guess(err)
		q.log.Warn("a request failed", zap.String("operation", q.operation), zap.Error(err))
	}
	p.Type, p.Title = "about:blank", http.StatusText(p.Status)
	return p
}

// guess tells a failure of the streams, which passes, from one of what they hold.
func (q *request) guess(err error) *Problem {
	why := ""
	if q.Why != nil {
		why = q.Why(err)
	}
	switch {
	case errors.Is(err, runs.ErrNoRun):
		return noRun()
	case why != "":
		return unavailable(why)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unavailable("the streams did not answer in time")
	case q.Away != nil && q.Away():
		return unavailable("NATS is away")
	}
	return internal()
}

// envelope is what is read of a tool's answer.
type envelope struct {
	Status string `json:"status"`
	Data   struct {
		TaskID string `json:"task_id"`
		State  string `json:"state"`
	} `json:"data"`
	Error struct {
		Code      string `json:"code"`
		Message   string `json:"message"`
		Retryable bool   `json:"retryable"`
		Details   struct {
			Field  string `json:"field"`
			TaskID string `json:"task_id"`
			State  string `json:"state"`
			Reason string `json:"reason"`
			Issues []struct {
				Field   string `json:"field"`
				Problem string `json:"problem"`
				Meant   string `json:"did_you_mean"`
			} `json:"issues"`
		} `json:"details"`
	} `json:"error"`
}

// call calls a tool. Its error is ours, under the status that fits.
func (q *request) call(ctx context.Context, tool string, args json.RawMessage) (envelope, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var e envelope
	a, err := q.Tools.Call(ctx, tool, args, nil)
	if err != nil {
		return e, err
	}
	if err := json.Unmarshal(a.Envelope, &e); err != nil {
		return e, err
	}
	if !a.IsError {
		return e, nil
	}
	return e, q.nameKey(e.problem())
}

// whole is what the tools call all of a body.
const whole = "arguments"

func (e *envelope) problem() *Problem {
	d := e.Error.Details
	p := &Problem{
		Status: http.StatusInternalServerError, Code: e.Error.Code, Detail: e.Error.Message, Field: d.Field,
		RunID: d.TaskID, State: runs.State(d.State), Retryable: e.Error.Retryable,
	}
	if rest, ok := strings.CutPrefix(p.Detail, whole+": "); ok && p.Field == whole {
		p.Field, p.Detail = "body", "body: "+rest
	}
	for _, i := range d.Issues {
		if i.Field == whole {
			i.Field = "body"
		}
		p.Issues = append(p.Issues, Issue{i.Field, i.Problem, i.Meant})
	}
	switch {
	case strings.HasPrefix(d.Reason, "idempotency_"):
		p.Status, p.Code = http.StatusConflict, "CONFLICT"
	case e.Error.Code == "VALIDATION" && d.State != "":
		p.Status, p.Code, p.Field, p.Detail = http.StatusConflict, "CONFLICT", "", "the run has ended: it is "+d.State
	case e.Error.Code == "VALIDATION":
		p.Status = http.StatusBadRequest
		if len(p.Issues) == 0 {
			p.Issues = []Issue{{Field: p.Field, Problem: e.Error.Message}}
		}
	case e.Error.Code == "NOT_FOUND":
		p.Status, p.Detail = http.StatusNotFound, "there is no run of this id"
	case e.Error.Code == "UNSUPPORTED":
		p.Status = http.StatusNotImplemented
	case e.Error.Code == "INTERNAL" && e.Error.Retryable, e.Error.Code == "TIMEOUT":
		p.Status, p.Code = http.StatusServiceUnavailable, "UNAVAILABLE"
	}
	return p
}
