package adcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// Results reads the results of runs for notifications.
type Results struct{ Service *responder.Service }

// Result returns what an answer about the results of a run that has ended has
// beside its envelope, and the error of one that has failed. It is the same
// whenever it is called, so it lacks the state of the streams; and it lacks what
// the agent printed, because receivers of notifications may not be allowed to
// read that.
func (r Results) Result(ctx context.Context, record *runs.Record) (json.RawMessage, *Error, error) {
	result, err := r.Service.ResultOf(ctx, record, api.ResultRequest{NoOutput: true, Count: true})
	if err != nil {
		return nil, nil, err
	}
	result.Basis = nil
	var e *Error
	if StatusOf(record.State) == Failed {
		e = failureOf(record)
	}
	return v36.Results(result).Body(), e, nil
}

type notices struct {
	result func(context.Context, *runs.Record) (json.RawMessage, *Error, error)
}

// NewNotices returns the encoder of notifications: the body of the contract's
// mcp-webhook-payload.
func NewNotices(s *responder.Service) webhook.Encoder { return notices{Results{s}.Result} }

// payload is the body, in the order in which it is written. Its task_type is
// the tool that was called: the contract's list knows advertising alone.
type payload struct {
	Key       string          `json:"idempotency_key"`
	Operation string          `json:"operation_id"`
	Task      string          `json:"task_id"`
	Type      string          `json:"task_type"`
	Status    Status          `json:"status"`
	Timestamp string          `json:"timestamp"` // of the state
	Message   string          `json:"message"`
	Thread    string          `json:"context_id,omitempty"`
	Token     string          `json:"token,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

// Encode renders a notification. A result that does not fit is left out: the
// receiver can ask for it.
func (n notices) Encode(ctx context.Context, r webhook.Registration, record *runs.Record, key string) (webhook.Body,
	error) {
	p := payload{
		Key: key, Operation: r.OperationID, Task: record.ID, Type: r.Tool, Status: StatusOf(record.State), Token: r.Token,
		Thread: record.Thread,
	}
	at := record.StartedAt
	if at == 0 {
		at = record.QueuedAt
	}
	if record.State.Final() {
		result, failed, err := n.result(ctx, record)
		if err != nil {
			return webhook.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
		}
		at, p.Message = record.EndedAt, record.Summary()
		if p.Result, err = withError(result, failed); err != nil {
			return webhook.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
		}
	} else {
		p.Message, p.Thread = "Working", "" // what may change meanwhile would make another body of the same notification
		if record.State == runs.StateInputRequired {
			p.Message = "Waits for an answer from outside"
		}
	}
	if at == 0 { // a log without a beginning
		at = r.Created
	}
	p.Timestamp = time.UnixMilli(at).UTC().Format("2006-01-02T15:04:05.000Z")
	b, err := p.encode(r.Context)
	if err == nil && len(b) > webhook.MaxBody {
		p.Result = nil
		b, err = p.encode(r.Context)
	}
	if err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: encode a notification: %w", record.ID, err)
	}
	return webhook.Body{Type: "application/json", Bytes: b}, nil
}

func (p *payload) encode(context json.RawMessage) ([]byte, error) {
	b, err := bounds.Encode(p)
	if err != nil || len(context) == 0 {
		return b, err
	}
	b = append(append(b[:len(b)-1], `,"context":`...), context...)
	return append(b, '}'), nil
}

// withError is a result with the error of a run that has failed.
func withError(result json.RawMessage, failed *Error) (json.RawMessage, error) {
	if failed == nil || len(result) < 2 {
		return result, nil
	}
	e := *failed
	e.Severity = "error"
	b, err := bounds.Encode([]Error{e})
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"errors":`), b...)
	if len(result) > 2 {
		out = append(out, ',')
	}
	return append(out, result[1:]...), nil
}
