package push

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/runs"
)

// Results tells what came of a run that has ended: the members that an answer
// of format adcp about its results has beside the envelope's, and its error,
// nil where it has not failed. It must say the same whenever it is asked.
type Results interface {
	Result(ctx context.Context, record *runs.Record) (json.RawMessage, *adcp.Error, error)
}

type adcpEncoder struct{ results Results }

// NewAdCP returns the encoder of AdCP: the body of its mcp-webhook-payload.
func NewAdCP(r Results) Encoder { return adcpEncoder{r} }

// payload is the body, in the order in which it is written. Its task_type is
// the tool that was called: the contract's list knows advertising alone.
type payload struct {
	Key       string          `json:"idempotency_key"`
	Operation string          `json:"operation_id"`
	Task      string          `json:"task_id"`
	Type      string          `json:"task_type"`
	Status    adcp.Status     `json:"status"`
	Timestamp string          `json:"timestamp"` // of the state
	Message   string          `json:"message"`
	Thread    string          `json:"context_id,omitempty"`
	Token     string          `json:"token,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

// Encode renders a notification. One whose result does not fit goes without:
// whoever wants it asks for it.
func (a adcpEncoder) Encode(ctx context.Context, r Registration, record *runs.Record, key string) (Body, error) {
	p := payload{
		Key: key, Operation: r.OperationID, Task: record.ID, Type: r.Tool, Status: adcp.StatusOf(record.State), Token: r.Token,
		Thread: record.Thread,
	}
	at := record.StartedAt
	if at == 0 {
		at = record.QueuedAt
	}
	if record.State.Final() {
		result, failed, err := a.results.Result(ctx, record)
		if err != nil {
			return Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
		}
		at, p.Message = record.EndedAt, record.Summary()
		if p.Result, err = withError(result, failed); err != nil {
			return Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
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
	if err == nil && len(b) > MaxBody {
		p.Result = nil
		b, err = p.encode(r.Context)
	}
	if err != nil {
		return Body{}, fmt.Errorf("run %s: encode a notification: %w", record.ID, err)
	}
	return Body{"application/json", b}, nil
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
func withError(result json.RawMessage, failed *adcp.Error) (json.RawMessage, error) {
	if failed == nil || len(result) < 2 {
		return result, nil
	}
	e := *failed
	e.Severity = "error"
	b, err := bounds.Encode([]adcp.Error{e})
	if err != nil {
		return nil, err
	}
	out := append([]byte(`{"errors":`), b...)
	if len(result) > 2 {
		out = append(out, ',')
	}
	return append(out, result[1:]...), nil
}
