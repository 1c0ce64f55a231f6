package a2a

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/push"
	"github.com/linesman/linesman/runs"
)

// notices encodes push notifications.
type notices struct{ results adcp.Results }

// NewNotices returns the encoder of A2A push notifications: a status update
// when a task is working, and the complete task when it has ended.
func NewNotices(s *responder.Service) push.Encoder { return notices{adcp.Results{Service: s}} }

// Encode renders a notification as a stream event. If the result does not fit,
// it has only the state: the receiver can request the rest.
func (n notices) Encode(ctx context.Context, _ push.Registration, record *runs.Record, _ string) (push.Body, error) {
	v := responder.View{Row: record.Row()}
	at := time.UnixMilli(responder.ChangedAt(v.Row)).UTC()
	if !record.State.Final() { // changing data would make a different body of the same notification
		return encodeNotice(&sdk.TaskStatusUpdateEvent{
			TaskID: sdk.TaskID(record.ID), ContextID: record.ID, Status: sdk.TaskStatus{State: stateOf(record.State), Timestamp: &at},
		})
	}
	t := &sdk.Task{ID: sdk.TaskID(record.ID), ContextID: contextOf(v.Row)}
	var err error
	if t.Status, err = status(t, v, record, nil); err != nil {
		return push.Body{}, fmt.Errorf("run %s: its status: %w", record.ID, err)
	}
	envelope, err := outcome(ctx, n.results, record, at)
	if err != nil {
		return push.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
	}
	text := ""
	if record.FinalText != nil {
		text = *record.FinalText
	}
	result, err := artifact(text, envelope, nil)
	if err != nil {
		return push.Body{}, fmt.Errorf("run %s: its result: %w", record.ID, err)
	}
	t.Artifacts = []*sdk.Artifact{result}
	b, err := encodeNotice(t)
	if err == nil && len(b.Bytes) > push.MaxBody {
		t.Artifacts = nil
		b, err = encodeNotice(t)
	}
	return b, err
}

func encodeNotice(e sdk.Event) (push.Body, error) {
	b, err := json.Marshal(sdk.StreamResponse{Event: e})
	return push.Body{Type: "application/json", Bytes: b}, err
}
