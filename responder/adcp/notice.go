package adcp

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// result returns the results of a run that has ended, as the body of an answer,
// and the error of a failed one. It always returns the same for a record, so it
// omits the state of the streams. It omits the agent's output, which receivers
// of notifications may not be allowed to read.
func result(ctx context.Context, s *responder.Service, record *runs.Record) (json.RawMessage, *Error, error) {
	result, err := s.ResultOf(ctx, record, api.ResultRequest{NoOutput: true, Count: true})
	if err != nil {
		return nil, nil, err
	}
	result.Basis, result.Partial = nil, nil
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
func NewNotices(s *responder.Service) webhook.Encoder {
	return notices{func(ctx context.Context, record *runs.Record) (json.RawMessage, *Error, error) {
		return result(ctx, s, record)
	}}
}

// payload has the fields of the body in their order. Its task_type is the tool
// that was called, because the contract lists task types of advertising only.
type payload struct {
	Key       string          `json:"idempotency_key"`
	Operation string          `json:"operation_id,omitempty"`
	Task      string          `json:"task_id"`
	Type      string          `json:"task_type"`
	Status    Status          `json:"status"`
	Timestamp runs.Time       `json:"timestamp"` // of the state
	Message   string          `json:"message"`
	Thread    string          `json:"context_id,omitempty"`
	Token     string          `json:"token,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

// Encode encodes a notification. A result that is too large is omitted: the
// receiver can request it.
func (n notices) Encode(ctx context.Context, r webhook.Registration, record *runs.Record, key string) (webhook.Body,
	error) {
	p := payload{
		Key: key, Operation: r.OperationID, Task: record.ID, Type: r.Tool, Status: StatusOf(record.State), Token: r.Token,
		Thread: record.Labels.Context(record.Thread),
	}
	at := cmp.Or(record.StartedAt, record.QueuedAt)
	if record.State.Final() {
		result, failed, err := n.result(ctx, record)
		if err != nil {
			return webhook.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
		}
		at, p.Message, p.Result = record.EndedAt, record.Summary(), withError(vendored(result), failed)
	} else {
		// Changing data would make a different body of the same notification.
		p.Message, p.Thread = "Working", record.Labels.Context("")
		if record.State == runs.StateInputRequired {
			p.Message = "Waits for an answer from outside"
		}
		if w := Awaited(record); w != nil {
			at, p.Result = cmp.Or(w.At, at), w.Told
			if p.Message = "Waits for a message after turn " + w.ID; w.Question {
				p.Message = "Waits for an answer to question " + w.ID
			}
		}
	}
	p.Timestamp = runs.Time(cmp.Or(at, r.Created)) // the log has no beginning
	b := p.encode(r.Context)
	if len(b) > webhook.MaxBody {
		p.Result = nil
		b = p.encode(r.Context)
	}
	return webhook.Body{Type: "application/json", Bytes: b}, nil
}

// awaiting is what a live run waits for.
type awaiting struct {
	Question bool            // else a message
	ID       string          // of the question, or the number of the turn that has ended
	At       int64           // since when, Unix milliseconds
	Told     json.RawMessage // what a notification tells of it: which one it is, and where more is read
}

// Awaited returns what people are to do, by the record of a [webhook.Encoder]: to answer a question, or to send a
// message. Nil: nothing, or the run is no live one.
func Awaited(record *runs.Record) *awaiting {
	switch h := record.Header(); {
	case h.AwaitsMessage():
		w := &awaiting{ID: strconv.Itoa(h.Turn), Told: encode(map[string]any{"path": "/v1/runs/" + h.ID, "turn": h.Turn})}
		if record.Doing.Phase == runs.YourTurn {
			w.At = int64(record.Doing.Since)
		}
		return w
	case len(h.Questions) > 0:
		asked := record.Live.Questions[0]
		q := &api.Question{
			Run: h.ID, ID: asked.ID, Kind: asked.Kind, Asked: runs.Time(asked.At), Due: runs.Time(asked.Due),
		}
		return &awaiting{true, q.ID, asked.At, encode(map[string]any{"path": "/v1/questions?run=" + h.ID, "question": q})}
	}
	return nil
}

func (p *payload) encode(context json.RawMessage) []byte {
	b := encode(p)
	if len(context) > 0 {
		b = append(append(append(b[:len(b)-1], `,"context":`...), context...), '}')
	}
	return b
}

// withError adds the error of a failed run to a result.
func withError(result json.RawMessage, failed *Error) json.RawMessage {
	if failed == nil || len(result) < 2 {
		return result
	}
	out := append([]byte(`{"errors":`), encode([]Error{failed.as("error")})...)
	if len(result) > 2 {
		out = append(out, ',')
	}
	return append(out, result[1:]...)
}
