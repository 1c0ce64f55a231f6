package a2a

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/runs"
)

// SendMessage gives an agent a task, and answers when it has ended; with
// returnImmediately once it is queued. A message that comes again, by its
// messageId, is answered with the task of the first time.
func (h *Handler) SendMessage(ctx context.Context, q *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	if err := h.admit(ctx, scopeSubmit); err != nil {
		return nil, err
	}
	if callOf(ctx).asks(ProfileURI) {
		return h.invoke(ctx, q)
	}
	m, err := h.read(ctx, q)
	if err != nil {
		return nil, err
	}
	wait := q.Config == nil || !q.Config.ReturnImmediately
	if wait {
		free, err := h.hold(ctx)
		if err != nil {
			return nil, err
		}
		defer free()
	}
	run, refused, err := h.submit(ctx, q, m)
	if err != nil {
		return nil, err
	}
	if refused != nil {
		return refused, nil
	}
	if wait {
		if err := h.settle(ctx, run); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	v, err := h.find(ctx, sdk.TaskID(run))
	if err != nil {
		return nil, err
	}
	return h.task(ctx, v, m.wanted(q))
}

// settle waits until a run has ended, or waits for its caller itself.
func (h *Handler) settle(ctx context.Context, run string) error {
	ctx, cancel := context.WithTimeout(ctx, MaxWait)
	defer cancel()
	_, err := h.Responder.Wait(ctx, run, func(v responder.View) {
		if v.State == runs.StateInputRequired {
			cancel()
		}
	})
	if err != nil && ctx.Err() == nil {
		return h.explain("wait", err)
	}
	return nil
}

// wanted is how the task of a message is told to who sent it.
func (m *message) wanted(q *sdk.SendMessageRequest) wanted {
	w := wanted{context: m.context, artifacts: true, again: m.again}
	if q.Config != nil {
		w.history = q.Config.HistoryLength
	}
	if echo := gjson.GetBytes(m.options, "context"); echo.IsObject() {
		w.echo = json.RawMessage(echo.Raw)
	}
	return w
}

// submit puts the task of a message on the queue, once: the run is that of the
// first time. A task that is refused at the door comes back as one.
func (h *Handler) submit(ctx context.Context, q *sdk.SendMessageRequest, m *message) (run string, refused *sdk.Task, err error) {
	if err := h.checkPush(q); err != nil {
		return "", nil, err
	}
	args := m.arguments()
	said, err := h.callOnce(ctx, "_codex_local_exec", args)
	if err != nil {
		return "", nil, err
	}
	switch e := gjson.ParseBytes(said); {
	case !e.Get("adcp_error").Exists():
		run, m.again = e.Get("task_id").String(), e.Get("replayed").Bool()
	case e.Get("status").String() == string(adcp.Rejected):
		refused, err := refusal(m, said)
		return "", refused, err
	default:
		return "", nil, fail(sdk.ErrServerError, e.Get("adcp_error.message").String())
	}
	return run, nil, h.register(ctx, run, q)
}

// arguments are those of _codex_local_exec. Its parameters take a thread to go
// on with, too.
func (m *message) arguments() json.RawMessage {
	args := map[string]string{"format": "adcp", "idempotency_key": keyOf(m.id)}
	if m.prompt != "" {
		args["task"] = m.prompt
	}
	if m.thread != "" {
		args["context_id"] = m.thread
	}
	return join(runs.Encode(args), m.options)
}

// join puts the members of a second object behind those of a first that has some.
func join(first, second json.RawMessage) json.RawMessage {
	empty := true
	o := gjson.ParseBytes(second)
	o.ForEach(func(_, _ gjson.Result) bool {
		empty = false
		return false
	})
	if empty {
		return first
	}
	both := append(first[:len(first)-1:len(first)-1], ',')
	return append(both, o.Raw[1:]...)
}

// callOnce calls a tool whose arguments have an idempotency key. While the same
// request is being carried out, it waits for what comes of it.
func (h *Handler) callOnce(ctx context.Context, tool string, args json.RawMessage) ([]byte, error) {
	const most = 45 * time.Second // somewhat longer than the lease of a submission
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		answer, err := h.Tools.Call(ctx, tool, args, nil)
		if err != nil {
			return nil, h.explain(tool, err)
		}
		if gjson.GetBytes(answer.Envelope, "adcp_error.code").String() != string(adcp.IdempotencyFlight) {
			return answer.Envelope, nil
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return nil, fail(sdk.ErrServerError, "the same message is being taken; send it again")
		}
	}
}

// refusal is the task of a message that was refused: nothing was begun, and no
// stream tells of it, so nobody can ask about it later.
func refusal(m *message, envelope []byte) (*sdk.Task, error) {
	echo := json.RawMessage(gjson.GetBytes(envelope, "context").Raw) // unless it is what was refused
	data, err := rest(envelope, echo)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	t := &sdk.Task{ID: sdk.NewTaskID(), ContextID: m.context}
	if t.ContextID == "" {
		t.ContextID = string(t.ID)
	}
	t.Status = sdk.TaskStatus{State: sdk.TaskStateRejected, Timestamp: &now, Message: &sdk.Message{
		ID: string(t.ID) + "-rejected", Role: sdk.MessageRoleAgent, TaskID: t.ID, ContextID: t.ContextID,
		Parts: sdk.ContentParts{sdk.NewTextPart(gjson.GetBytes(envelope, "adcp_error.message").String())},
	}}
	t.Artifacts = []*sdk.Artifact{{ID: resultID, Name: "result", Parts: sdk.ContentParts{dataPart(data)}}}
	return t, nil
}
