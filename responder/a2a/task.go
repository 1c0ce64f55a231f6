package a2a

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/runs"
)

// resultID is the artifact of a task: the agent's messages, and at the end the
// data of the result as the last part. That of a run that is kept has between two
// turns the last message.
const resultID = sdk.ArtifactID("result")

// wanted is what a task contains beyond its status.
type wanted struct {
	context   string // the caller's name of its context; "": its own
	artifacts bool
	question  bool            // what a run asks people
	history   *int            // number of messages, the last ones; nil: none
	room      *int            // remaining bytes of history in the answer; nil: MaxHistoryBytes
	echo      json.RawMessage // an AdCP context to echo; nil: none
	again     bool            // the answer to a repeated message
}

// states maps run states to A2A states.
var states = map[runs.State]sdk.TaskState{
	runs.StateQueued: sdk.TaskStateSubmitted, runs.StateWorking: sdk.TaskStateWorking,
	runs.StateInputRequired: sdk.TaskStateInputRequired, runs.StateCompleted: sdk.TaskStateCompleted,
	runs.StateCancelled: sdk.TaskStateCanceled, runs.StateFailed: sdk.TaskStateFailed,
	runs.StateTimeout: sdk.TaskStateFailed,
}

// stateOf returns the A2A state of a run.
func stateOf(s runs.State) sdk.TaskState { return cmp.Or(states[s], sdk.TaskStateUnspecified) }

// shownAs returns the run states with an A2A state; none for an unknown one.
func shownAs(state sdk.TaskState) (in []runs.State) {
	for _, s := range slices.Sorted(maps.Keys(states)) {
		if states[s] == state {
			in = append(in, s)
		}
	}
	return in
}

// contextOf returns the context of a run: its thread or, until that is known,
// the run itself, which remains a name of the context.
func contextOf(r runs.Header) string { return cmp.Or(r.Thread, r.ID) }

// updatedAt returns the time of a record's contents, so that every reader and
// every stream gets the same.
func updatedAt(r runs.Header) runs.Time {
	// An empty record has no time.
	return cmp.Or(r.EndedAt, r.ActiveAt, r.ChangedAt(), api.TimeOf(time.Now()))
}

// task converts a run to a task.
func (h *handler) task(ctx context.Context, v runs.Header, w wanted) (*sdk.Task, error) {
	v, record, err := h.record(ctx, v)
	if err != nil {
		return nil, err
	}
	return h.describe(ctx, v, record, w)
}

// describe is task with the record already read.
func (h *handler) describe(ctx context.Context, v runs.Header, record *runs.Record, w wanted) (*sdk.Task, error) {
	t := &sdk.Task{ID: sdk.TaskID(v.ID), ContextID: cmp.Or(w.context, contextOf(v)), Metadata: metadata(v)}
	var q *api.Question
	var err error
	if w.question {
		if q, err = h.question(ctx, v, record); err != nil {
			return nil, err
		}
	}
	if t.Status, err = status(t, v, record, q, w.echo); err != nil {
		return nil, err
	}
	if w.artifacts && v.State.Final() {
		result, err := h.result(ctx, v, record, w.echo)
		if err != nil {
			return nil, h.explain("read a result", err)
		}
		t.Artifacts = []*sdk.Artifact{result}
	}
	if w.artifacts && record != nil && record.Live != nil && record.Live.WaitsFor == runs.WaitsMessage {
		if text := h.Service.FinalText(ctx, record); text != "" {
			t.Artifacts = []*sdk.Artifact{{ID: resultID, Name: "result", Parts: sdk.ContentParts{sdk.NewTextPart(text)}}}
		}
	}
	if w.again {
		replayed(t)
	}
	if w.history != nil && *w.history > 0 {
		room := maxHistoryBytes
		if w.room == nil {
			w.room = &room
		}
		if t.History, err = h.history(ctx, t, v, min(*w.history, maxHistory), w.room); err != nil {
			return nil, h.explain("read the history", err)
		}
	}
	return t, nil
}

// metadata returns the metadata of a task: what it is for, and what works on it, as far as that is known.
func metadata(v runs.Header) map[string]any {
	m := map[string]any{"agent": v.Agent}
	for name, text := range map[string]string{
		"title": v.Title, "agentVersion": v.Version, "model": v.Model, "workingDir": v.Dir,
	} {
		if text != "" {
			m[name] = text
		}
	}
	if v.Labels != "" {
		m["labels"] = v.Labels.Map()
	}
	if v.Tokens != nil {
		m["tokens"] = v.Tokens
	}
	if v.Doing != nil {
		m["doing"] = v.Doing
	}
	if v.Unseen {
		m["unseen"] = true
	}
	if len(v.Questions) > 0 {
		m["questions"] = v.Questions
	}
	return m
}

// record reads the record of a run, which may be newer than its view; nil if
// there is none yet.
func (h *handler) record(ctx context.Context, v runs.Header) (runs.Header, *runs.Record, error) {
	record, err := h.Service.Record(ctx, v.ID)
	if api.Is(err, api.NotFound) {
		return v, nil, nil
	}
	if err != nil {
		return v, nil, h.explain("read a record", err)
	}
	return responder.Newer(v, record), record, nil
}

// status returns the status of a run. Until the run ends, the data of its
// message is the AdCP envelope, without the fields of the task itself. The message
// of a run that asks people is about one question; q is what it asks, nil: not for
// this caller.
func status(t *sdk.Task, v runs.Header, record *runs.Record, q *api.Question, echo json.RawMessage) (sdk.TaskStatus,
	error) {
	said := adcp.Summary(v, record)
	m := &sdk.Message{
		ID: v.ID + "-" + string(v.State) + "-" + strconv.FormatUint(v.Seq, 10), Role: sdk.MessageRoleAgent,
		TaskID: t.ID, ContextID: t.ContextID, Parts: sdk.ContentParts{sdk.NewTextPart(said)},
	}
	if !v.State.Final() {
		data, err := rest(adcp.Response{
			Status: adcp.StatusOf(v.State), Message: said, At: updatedAt(v), Governance: governance(v, record),
			Body: interim(v),
		}.Encode(), echo)
		if err != nil {
			return sdk.TaskStatus{}, err
		}
		m.Parts = append(m.Parts, dataPart(data))
	}
	if len(v.Questions) > 0 {
		m.ID = v.ID + "-" + v.Questions[0]
	}
	if q != nil {
		m.Parts[0] = sdk.NewTextPart(asks(q))
		m.Parts = append(m.Parts, dataPart(map[string]any{"question": q}))
	}
	s := sdk.TaskStatus{State: stateOf(v.State), Message: m}
	if ms := int64(v.ChangedAt()); ms != 0 {
		at := time.UnixMilli(ms).UTC()
		s.Timestamp = &at
	}
	return s, nil
}

func governance(v runs.Header, record *runs.Record) string {
	if record != nil {
		return record.Governance
	}
	return v.Governance
}

// interim returns the data of an open run. What a run does that asks people is what it
// asks.
func interim(v runs.Header) json.RawMessage {
	if len(v.Questions) > 0 {
		v.Activity = ""
	}
	body := struct {
		Position  *int   `json:"queue_position,omitempty"`
		Progress  any    `json:"progress,omitempty"`
		Activity  string `json:"current_activity,omitempty"`
		Cancelled bool   `json:"cancel_requested,omitempty"`
		Lost      bool   `json:"worker_lost,omitempty"`
		Seq       uint64 `json:"stream_seq,omitempty"`
	}{Activity: v.Activity, Cancelled: v.CancelRequested, Lost: v.WorkerLost, Seq: v.Seq}
	if v.State == runs.StateQueued {
		body.Position = new(v.Before())
	}
	if p := v.Plan(); p.Total > 0 {
		steps := map[string]any{"completed_steps": p.Done, "total_steps": p.Total, "current_activity": nil}
		if v.Activity != "" {
			steps["current_activity"] = v.Activity
		}
		body.Progress = steps
	}
	return runs.Encode(body)
}

// result returns the result of a run: the final text, and the tools' result in
// the AdCP envelope. The unmodified output is omitted: it needs the scope raw.
func (h *handler) result(ctx context.Context, v runs.Header, record *runs.Record,
	echo json.RawMessage) (*sdk.Artifact, error) {
	if record == nil { // it has just ended, or no normalizer is running
		record = &runs.Record{ID: v.ID, Attributes: v.Attributes, State: v.State, Governance: v.Governance}
	}
	envelope, err := adcp.Outcome(ctx, h.Service, record, updatedAt(v))
	if err != nil {
		return nil, err
	}
	return artifact(h.Service.FinalText(ctx, record), envelope, echo)
}

// artifact returns a result: the data is its last part.
func artifact(text string, envelope adcp.Response, echo json.RawMessage) (*sdk.Artifact, error) {
	data, err := rest(envelope.Encode(), echo)
	if err != nil {
		return nil, err
	}
	a := &sdk.Artifact{ID: resultID, Name: "result"}
	if text != "" {
		a.Parts = append(a.Parts, sdk.NewTextPart(text))
	}
	a.Parts = append(a.Parts, dataPart(data))
	return a, nil
}

// rest is object without the members that the task has, too.
func rest(envelope []byte, echo json.RawMessage) (map[string]any, error) {
	data, err := object(envelope, echo)
	for _, name := range []string{"status", "task_id", "context_id"} {
		delete(data, name)
	}
	return data, err
}

// object returns an envelope as data, without the unmodified output of the agent.
// Numbers, and the caller's context, stay as they were written.
func object(envelope []byte, echo json.RawMessage) (map[string]any, error) {
	var data map[string]any
	d := json.NewDecoder(bytes.NewReader(envelope))
	d.UseNumber()
	if err := d.Decode(&data); err != nil {
		return nil, err
	}
	delete(data, "output")
	delete(data, "events")
	if metadata, ok := data["metadata"].(map[string]any); ok {
		if failure, ok := metadata["error_context"].(map[string]any); ok {
			delete(failure, "partial_results")
		}
	}
	if len(echo) > 0 {
		data["context"] = echo
	}
	return data, nil
}

// replayed marks the envelope of a task that an earlier message started, with the
// time of this answer, as AdCP requires.
func replayed(t *sdk.Task) {
	parts := t.Status.Message.Parts
	if t.Status.State.Terminal() && len(t.Artifacts) > 0 {
		parts = t.Artifacts[0].Parts
	} else {
		parts = parts[:2] // a question is behind the envelope
	}
	if data, ok := parts[len(parts)-1].Data().(map[string]any); ok {
		data["replayed"], data["timestamp"] = true, api.TimeOf(time.Now()).String()
	}
}

func dataPart(data any) *sdk.Part {
	p := sdk.NewDataPart(data)
	p.MediaType = "application/json"
	return p
}

// history returns the last messages of a run's agent, at most most of them and at
// most room bytes, which it reduces. The prompt is not stored once the run has
// started.
func (h *handler) history(ctx context.Context, t *sdk.Task, v runs.Header, most int, room *int) ([]*sdk.Message,
	error) {
	if *room == 0 {
		return nil, nil
	}
	for n := most; ; n = min(4*n, maxHistoryTexts) {
		events, err := h.Service.LastEvents(ctx, v, textOutput, n)
		if err != nil {
			return nil, err
		}
		var last []*sdk.Message
		size, full := 0, false
		for _, e := range slices.Backward(events) {
			text, ok := responder.Spoken(e)
			if !ok {
				continue
			}
			if full = len(last) == most || size+len(text) > *room; full {
				break
			}
			size += len(text)
			last = append(last, &sdk.Message{
				ID: v.ID + "-" + strconv.FormatUint(e.Seq, 10), Role: sdk.MessageRoleAgent, TaskID: t.ID, ContextID: t.ContextID,
				Parts: sdk.ContentParts{sdk.NewTextPart(text)},
			})
		}
		if full || len(last) == most || len(events) < n || n == maxHistoryTexts {
			slices.Reverse(last)
			*room -= size
			return last, nil
		}
	}
}

// textOutput is the kind of the events with an agent's texts.
const textOutput = "text_output"
