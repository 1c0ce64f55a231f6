package rest

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/adcp"
)

// adcpType is the media type of the AdCP envelope.
const adcpType = "application/adcp+json"

// envelop renders an answer as an AdCP envelope: the members of the plain JSON
// beside those of the envelope.
func envelop(a *Answer) ([]byte, error) {
	if a.envelope != nil {
		return a.envelope, nil
	}
	r := adcp.Response{Status: adcp.Completed}
	switch {
	case a.Problem != nil:
		r = refusal(a.Problem)
		r.Context = contextOf(a.request)
	case a.record != nil:
		r = adcp.Of(a.record)
	}
	if a.late {
		r.Warnings = []adcp.Error{{Code: adcp.TaskTimeout, Message: "the run has not ended yet: it goes on",
			Recovery: adcp.Transient}}
	}
	r.At = time.Now()
	if a.Body != nil {
		var err error
		if r.Body, err = bounds.Encode(a.Body); err != nil {
			return nil, err
		}
	}
	return r.Encode(), nil
}

// refusal converts a problem to AdCP.
func refusal(p *Problem) adcp.Response {
	e := &adcp.Error{Code: adcp.InvalidRequest, Message: p.Detail, Field: p.Field, Recovery: adcp.Correctable}
	for _, i := range p.Issues {
		if i.Field == "body" {
			i.Field = ""
		}
		e.Issues = append(e.Issues, adcp.IssueOf(i.Field, i.Problem))
	}
	r := adcp.Response{Status: adcp.Rejected, Message: p.Detail, Error: e}
	switch {
	case p.Status == http.StatusNotFound:
		r.Status, e.Code = adcp.Unknown, adcp.NotFound
	case p.Status == http.StatusNotImplemented:
		e.Code = adcp.Unsupported
	case p.Status >= 500:
		r.Status, e.Code, e.Recovery = adcp.Failed, adcp.Unavailable, adcp.Transient
		if p.Status == http.StatusServiceUnavailable {
			e.RetryAfter = retryAfter
		}
	case p.Code == "VALIDATION" && p.Field != "body", p.Code == "CONFLICT":
		e.Code = adcp.ValidationError
	}
	if p.RunID != "" {
		r.TaskID = p.RunID
	}
	return r
}

// contextOf returns the caller's context in a refused body, if it can be read.
func contextOf(body json.RawMessage) json.RawMessage {
	var said struct {
		Context json.RawMessage `json:"context"`
	}
	if json.Unmarshal(body, &said) != nil || len(said.Context) == 0 || said.Context[0] != '{' ||
		len(said.Context) > adcp.MaxContext {
		return nil
	}
	return said.Context
}

// enveloped is an answer with a finished envelope: the answer to a write
// request depends on idempotency keys and earlier outcomes.
func enveloped(e adcp.Envelope) *Answer {
	a := &Answer{Status: http.StatusAccepted, envelope: e.Bytes}
	switch {
	case e.Error != nil:
		switch a.Status = e.Error.Code.HTTP(); e.Error.Code { // as in plain JSON
		case adcp.IdempotencyExpired:
			a.Status = http.StatusConflict
		case adcp.RateLimited:
			a.Status = http.StatusServiceUnavailable
		}
	case e.Status == adcp.Canceled:
		a.Status = http.StatusOK
	case e.Status == adcp.Submitted && e.TaskID != "":
		a.location = "/v1/runs/" + e.TaskID
	}
	return a
}
