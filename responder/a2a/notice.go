package a2a

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/webhook"
	"github.com/linesman/linesman/runs"
)

// Versions of the request that registered a receiver. One in 1.0 has it only if it calls a skill.
const (
	in10 = "1.0"
	in03 = "0.3"
)

// notices encodes push notifications.
type notices struct{ service *responder.Service }

// NewNotices returns the encoder of push notifications of A2A: a status update while a task works, and the whole task
// when it has ended. In 0.3, and for the call of a skill, it is always the whole task; for such a call its last data
// has the status and the task_id of AdCP, too.
func NewNotices(s *responder.Service) webhook.Encoder { return notices{s} }

// Encode encodes a notification, as an event of a stream. A result that is too
// large is omitted: the receiver can request it.
func (n notices) Encode(ctx context.Context, r webhook.Registration, record *runs.Record, _ string) (webhook.Body,
	error) {
	if !record.State.Final() { // changing data would make a different body of the same notification
		return encodeInterim(r, record)
	}
	v := record.Header()
	ms := cmp.Or(int64(v.ChangedAt()), 1) // a log without times
	t := &sdk.Task{ID: sdk.TaskID(record.ID), ContextID: contextOf(v)}
	var err error
	if t.Status, err = status(t, v, record, nil, nil); err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: its status: %w", record.ID, err)
	}
	envelope, err := adcp.Outcome(ctx, n.service, record, runs.Time(ms))
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
	if r.Tool != "" {
		if data, ok := result.Parts[len(result.Parts)-1].Data().(map[string]any); ok {
			data["status"], data["task_id"] = adcp.StatusOf(record.State), record.ID
		}
	}
	b, err := encodeTask(r.Version, t)
	if err == nil && len(b.Bytes) > webhook.MaxBody {
		t.Artifacts = nil
		if r.Tool != "" {
			short := map[string]any{"status": adcp.StatusOf(record.State), "task_id": record.ID}
			t.Artifacts = []*sdk.Artifact{{ID: result.ID, Name: result.Name, Parts: sdk.ContentParts{dataPart(short)}}}
		}
		b, err = encodeTask(r.Version, t)
	}
	return b, err
}

// encodeInterim encodes the notification for a run that has not ended.
func encodeInterim(r webhook.Registration, record *runs.Record) (webhook.Body, error) {
	at := time.UnixMilli(cmp.Or(int64(record.Header().ChangedAt()), 1)).UTC()
	id, text, told := string(record.State), "The task works", json.RawMessage(nil)
	w := adcp.Awaited(record)
	switch {
	case w != nil:
		if id, text = w.ID, adcp.Needs(w.ID); !w.Question {
			id, text = "turn-"+w.ID, "The task needs a message after turn "+w.ID
		}
		at, told = time.UnixMilli(cmp.Or(w.At, record.StartedAt)).UTC(), w.Told
	case record.State == runs.StateInputRequired:
		text = "The task waits for an answer from outside"
	}
	e := &sdk.TaskStatusUpdateEvent{
		TaskID: sdk.TaskID(record.ID), ContextID: record.ID, Status: sdk.TaskStatus{State: stateOf(record.State),
			Timestamp: &at},
	}
	if told != nil || r.Tool != "" {
		e.Status.Message = &sdk.Message{
			ID: record.ID + "-" + id, Role: sdk.MessageRoleAgent, TaskID: e.TaskID, ContextID: e.ContextID,
			Parts: sdk.ContentParts{sdk.NewTextPart(text), dataPart(told)},
		}
	}
	t := &sdk.Task{ID: e.TaskID, ContextID: e.ContextID, Status: e.Status}
	switch {
	case r.Tool == "" && r.Version == in03:
		return encodeTask(r.Version, t)
	case r.Tool == "":
		return encodeNotice(e)
	}
	said := adcp.Response{Status: adcp.StatusOf(record.State), TaskID: record.ID, Message: text,
		At: runs.Time(at.UnixMilli()), Body: told}
	data, err := object(said.Encode(), nil)
	if err != nil {
		return webhook.Body{}, fmt.Errorf("run %s: its state: %w", record.ID, err)
	}
	e.Status.Message.Parts[1] = dataPart(data)
	return encodeTask(r.Version, t)
}

// encodeTask encodes a task for a receiver.
func encodeTask(version string, t *sdk.Task) (webhook.Body, error) {
	if version != in03 {
		return encodeNotice(t)
	}
	b, err := json.Marshal(a2av0.FromV1Task(t))
	return webhook.Body{Type: "application/json", Bytes: b}, err
}

func encodeNotice(e sdk.Event) (webhook.Body, error) {
	b, err := json.Marshal(sdk.StreamResponse{Event: e})
	return webhook.Body{Type: "application/json", Bytes: b}, err
}
