package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// notices encodes push notifications.
type notices struct{ service *responder.Service }

// NewNotices returns the encoder of push notifications of A2A: a status update
// when a task is at work, and the whole task when it has ended.
func NewNotices(s *responder.Service) webhook.Encoder { return notices{s} }

// Encode renders a notification, as an event of a stream. One whose result does
// not fit tells the state alone: whoever wants the rest asks for it.
func (n notices) Encode(ctx context.Context, _ webhook.Registration, record *runs.Record, _ string) (webhook.Body,
	error) {
	v := responder.View{Row: record.Row()}
	at := time.UnixMilli(responder.ChangedAt(v.Row)).UTC()
	if !record.State.Final() { // changing data would make a different body of the same notification
		return encodeNotice(&sdk.TaskStatusUpdateEvent{
			TaskID: sdk.TaskID(record.ID), ContextID: record.ID, Status: sdk.TaskStatus{State: stateOf(record.State),
				Timestamp: &at},
		})
	}
	t := &sdk.Task{ID: sdk.TaskID(record.ID), ContextID: contextOf(v.Row)}
	var err error
	if t.Status, err = status(t, v, record, nil); err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: its status: %w", record.ID, err)
	}
	envelope, err := outcome(ctx, n.service, record, at)
	if err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
	}
	text := ""
	if record.FinalText != nil {
		text = *record.FinalText
	}
	result, err := artifact(text, envelope, nil)
	if err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
	}
	t.Artifacts = []*sdk.Artifact{result}
	b, err := encodeNotice(t)
	if err == nil && len(b.Bytes) > webhook.MaxBody {
		t.Artifacts = nil
		b, err = encodeNotice(t)
	}
	return b, err
}

func encodeNotice(e sdk.Event) (webhook.Body, error) {
	b, err := json.Marshal(sdk.StreamResponse{Event: e})
	return webhook.Body{Type: "application/json", Bytes: b}, err
}
