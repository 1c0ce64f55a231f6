package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/runs"
)

func getRun(q *request) (*Answer, error) {
	ctx, cancel := context.WithTimeout(q.r.Context(), askTime)
	defer cancel()
	v, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	a, err := q.answerRun(ctx, http.StatusOK, v)
	if err == nil {
		a.tagged = true
	}
	return a, err
}

// answerRun reads the record of a run, and answers with it.
func (q *request) answerRun(ctx context.Context, status int, v responder.View) (*Answer, error) {
	record, err := q.Responder.Record(ctx, v.ID)
	if err != nil && !errors.Is(err, runs.ErrNoRun) { // nobody has made it yet
		return nil, err
	}
	a := &Answer{Status: status, Body: describeRun(v, record), record: record}
	if record == nil {
		a.record = &runs.Record{ID: v.ID, Agent: v.Agent, State: v.State, Thread: v.Thread, Governance: v.Governance}
	}
	return a, nil
}

func waitForRun(q *request) (*Answer, error) {
	seconds, err := q.query.number("timeout", 0, int64(MaxWait/time.Second), 60)
	if err != nil {
		return nil, err
	}
	ctx := q.r.Context()
	v, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	if seconds > 0 && !v.State.Final() {
		free, err := q.hold()
		if err != nil {
			return nil, err
		}
		defer free()
		limited, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
		if v, err = q.Responder.Wait(limited, v.ID, nil); err != nil && limited.Err() == nil {
			return nil, err
		}
		if v.ID == "" { // it left the table as the time was over
			return nil, noRun()
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	a, err := q.answerRun(ctx, http.StatusOK, v)
	if err == nil && seconds > 0 && !a.Body.(*Run).State.Final() {
		a.late = true
	}
	return a, err
}

func submitRun(q *request) (*Answer, error) {
	args, err := q.arguments(nil, "format")
	if err != nil {
		return nil, err
	}
	return q.begin(q.r.Context(), "_codex_local_exec", args)
}

func resumeRun(q *request) (*Answer, error) {
	ctx, cancel := context.WithTimeout(q.r.Context(), askTime)
	defer cancel()
	v, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	conflict := &Problem{Status: http.StatusConflict, Code: "CONFLICT", RunID: v.ID, State: v.State}
	switch {
	case v.Agent != agent:
		conflict.Status, conflict.Code, conflict.Detail = http.StatusNotImplemented, "UNSUPPORTED", "only threads of "+agent+" on this machine can be gone on with"
		return nil, conflict
	case v.Thread == "":
		conflict.Detail, conflict.Retryable = "no thread of the run is known", !v.State.Final()
		return nil, conflict
	}
	args, err := q.arguments(map[string]string{"threadId": v.Thread}, "format", "threadId", "thread_id")
	if err != nil {
		return nil, err
	}
	return q.begin(ctx, "_codex_local_resume", args)
}

// agent is whom the local tools give their tasks.
const agent = "codex"

// begin submits a task.
func (q *request) begin(ctx context.Context, tool string, args json.RawMessage) (*Answer, error) {
	if q.Away != nil && q.Away() {
		return nil, unavailable("NATS is away")
	}
	if q.form == adcpType {
		return q.callADCP(ctx, tool, args)
	}
	e, err := q.call(ctx, tool, args)
	if err != nil {
		return nil, err
	}
	run := e.Data.TaskID
	v, ok := q.Responder.Get(run)
	if !ok { // removed already
		v = responder.View{Row: runs.Row{ID: run, Agent: agent, State: runs.StateQueued}}
	}
	return &Answer{Status: http.StatusAccepted, Body: summarize(v), location: "/v1/runs/" + run}, nil
}

func cancelRun(q *request) (*Answer, error) {
	ctx, end := context.WithTimeout(q.r.Context(), askTime)
	defer end()
	v, err := q.find(ctx)
	if p := (*Problem)(nil); errors.As(err, &p) && p.Code == "NOT_FOUND" && (q.key != "" || bytes.Contains(q.body, []byte("idempotency"))) && runs.CheckID(q.r.PathValue("id")) == nil {
		v = responder.View{Row: runs.Row{ID: q.r.PathValue("id"), Agent: agent, State: runs.StateQueued}} // a key may tell of it yet
	} else if err != nil {
		return nil, err
	}
	tool, id := "_codex_local_cancel", "task_id"
	if v.Agent == cloud.Agent || strings.HasPrefix(v.ID, "T-cloud-") {
		tool = "_codex_cloud_cancel"
	}
	args, err := q.arguments(map[string]string{id: v.ID}, "format", "task_id", "taskId")
	if err != nil {
		return nil, err
	}
	if q.form == adcpType {
		return q.callADCP(ctx, tool, args)
	}
	e, err := q.call(ctx, tool, args)
	if err != nil {
		return nil, err
	}
	if now, ok := q.Responder.Get(v.ID); ok {
		v = now
	}
	a, err := q.answerRun(ctx, http.StatusAccepted, v)
	if err != nil {
		return nil, err
	}
	r := a.Body.(*Run)
	if e.Data.State == "cancelled" {
		a.Status = http.StatusOK
		if !r.State.Final() { // it is written; the record follows
			r.State, r.Position, r.CancelRequested = runs.StateCancelled, nil, true
		}
	}
	return a, nil
}

// arguments are those of a tool: the body, without what the path or the
// headers say, and with what was added.
func (q *request) arguments(add map[string]string, taken ...string) (json.RawMessage, error) {
	body := bytes.Trim(q.body, " \t\r\n") // no other space is JSON
	if len(body) == 0 {
		body = []byte("{}")
	}
	if body[0] != '{' || !json.Valid(body) {
		return nil, invalid("body", "must be a JSON object")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, invalid("body", "must be a JSON object")
	}
	for _, name := range taken {
		if _, given := members[name]; given {
			return nil, invalid(name, "is no parameter of this request")
		}
	}
	if add == nil {
		add = map[string]string{}
	}
	if q.form == adcpType {
		add["format"] = "adcp"
	}
	if err := q.addKey(add, members); err != nil {
		return nil, err
	}
	args := []byte{'{'}
	for name, value := range add {
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		args = append(append(append(args, '"'), name...), `":`...)
		args = append(append(args, text...), ',')
	}
	if len(members) == 0 && len(add) > 0 {
		args = args[:len(args)-1]
	}
	return append(args, body[1:]...), nil
}
