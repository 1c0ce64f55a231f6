package a2a

import (
	"context"
	"errors"
	"slices"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder/adcp"
	"github.com/linesman/linesman/responder/request"
	"github.com/linesman/linesman/runs"
)

// SendMessage submits a task, or carries out what its message says to one. It returns when the
// task has ended or waits for people, or at once with returnImmediately. A
// message repeated with the same messageId gets the task of the first one.
func (h *handler) SendMessage(ctx context.Context, q *sdk.SendMessageRequest) (sdk.SendMessageResult, error) {
	if err := h.admit(ctx, neededBy(ctx, q)); err != nil {
		return nil, err
	}
	if callsSkill(ctx, q) {
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
		if err := h.settle(ctx, run, m.settled); err != nil {
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

// asksAnew reports whether a run has ended, or waits for people, but not for the answer to a question that was just
// answered: the run table may lag behind.
func asksAnew(answered string) func(runs.Header) bool {
	return func(v runs.Header) bool {
		return v.State.Final() || v.State == runs.StateInputRequired && !slices.Equal(v.Questions, []string{answered})
	}
}

// settle waits until the message of a run is settled.
func (h *handler) settle(ctx context.Context, run string, settled func(runs.Header) bool) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	_, err := h.Service.WaitUntil(ctx, run, nil, settled)
	if err != nil && ctx.Err() == nil {
		return h.explain("wait", err)
	}
	return nil
}

// wanted is what the answer to a message contains.
func (m *message) wanted(q *sdk.SendMessageRequest) wanted {
	w := wanted{context: m.context, artifacts: true, question: true, again: m.again}
	if m.args != nil {
		w.echo = m.args.Echo()
	}
	if q.Config != nil {
		w.history = q.Config.HistoryLength
	}
	return w
}

// submit carries a message out. It queues its task, once: a repeated message gets the
// first run. A refused task is returned as rejected.
func (h *handler) submit(ctx context.Context, q *sdk.SendMessageRequest, m *message) (run string, refused *sdk.Task,
	err error) {
	if err := h.checkPush(ctx, q); err != nil {
		return "", nil, err
	}
	if m.args == nil {
		if m.settled, err = m.do(ctx); err != nil {
			return "", nil, err
		}
		return m.run, nil, h.register(ctx, m.run, q)
	}
	done, err := h.queue(ctx, m.args)
	var e *api.Error
	switch {
	case err == nil:
		m.again = done.Replayed
		return done.Run, nil, h.register(ctx, done.Run, q)
	case !errors.As(err, &e):
		return "", nil, h.explain("submit", err)
	case answers[e.Code].rejects:
		refused, err := h.refusal(ctx, m, e)
		return "", refused, err
	}
	return "", nil, fail(sdk.ErrServerError, e.Message)
}

// queue submits the task of arguments that have an idempotency key.
func (h *handler) queue(ctx context.Context, args *request.Args) (api.Submitted, error) {
	q := request.Submission(h.Service, request.ToolExec, args)
	if err := args.Err(); err != nil && !request.Again(ctx, h.Service, request.ToolExec, args) {
		return api.Submitted{}, err
	}
	return once(ctx, func(ctx context.Context) (api.Submitted, error) {
		return request.Submit(ctx, h.Service, request.ToolExec, args, q)
	})
}

// once executes a request that has an idempotency key. While the same request
// is being executed, it waits for the outcome.
func once[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	const most = 45 * time.Second // somewhat longer than the lease of a submission
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for pause := 20 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		done, err := do(ctx)
		if !api.Is(err, api.KeyInFlight) {
			return done, err
		}
		next := time.NewTimer(pause)
		select {
		case <-next.C:
		case <-ctx.Done():
			next.Stop()
			return done, fail(sdk.ErrServerError, "the same message is being taken; send it again")
		}
	}
}

// refusal is the task of a refused message: it had no effect and is not stored,
// so it cannot be read later.
func (h *handler) refusal(ctx context.Context, m *message, e *api.Error) (*sdk.Task, error) {
	said := adcp.Fail(ctx, h.Service, adcp.Call{Args: m.args}, e)
	data, err := rest(said.Encode(), said.Context)
	if err != nil {
		return nil, err
	}
	now := time.Now().UTC()
	t := &sdk.Task{ID: sdk.NewTaskID()}
	t.ContextID = m.context
	t.Status = sdk.TaskStatus{State: sdk.TaskStateRejected, Timestamp: &now, Message: &sdk.Message{
		ID: string(t.ID) + "-rejected", Role: sdk.MessageRoleAgent, TaskID: t.ID, ContextID: t.ContextID,
		Parts: sdk.ContentParts{sdk.NewTextPart(said.Message)},
	}}
	t.Artifacts = []*sdk.Artifact{{ID: resultID, Name: "result", Parts: sdk.ContentParts{dataPart(data)}}}
	return t, nil
}
