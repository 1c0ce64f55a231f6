// Package a2a serves runs as tasks of A2A 1.0: JSON-RPC at /a2a, which speaks
// version 0.3 too, HTTP+JSON below /a2a/v1, and the agent card. It owns the form
// that requests, runs and errors have in A2A. It decides nothing about runs: it
// decodes a request, calls the service, and encodes the outcome.
//
//	request ──▶ version, scope ──▶ a2a-go's transports ──▶ Handler ──▶ responder.Service
//	                                                          │
//	                     Task, updates  ◀── state, artifact ◀─┘
//
// The one rule: it stores no state of a task. A task is the record of its run,
// its id the run id, and any responder answers for it, after a restart as before.
package a2a

import (
	"context"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Limits of requests and answers.
const (
	MaxBody    = 1 << 20 // bytes of a request's body
	MaxParts   = 64      // of a message
	maxPage    = 100     // tasks
	maxHistory = 100     // messages of a task
	maxWait    = time.Hour
	// MaxHeld bounds concurrent streams and blocking sends; further ones are
	// refused. Together with those of REST they leave connections free.
	MaxHeld = 128

	// maxHistoryBytes bounds the messages of all tasks of an answer. Beyond it,
	// the oldest messages of a task, and those of the last tasks of a page, are
	// omitted.
	maxHistoryBytes = 4 << 20

	askTime = 30 * time.Second // timeout of reading the streams
)

// Scopes that a caller needs.
const (
	scopeRead   = "read"
	scopeSubmit = "submit"
)

// Config is what a [Handler] needs.
type Config struct {
	Service *responder.Service
	Push    PushConfigs // nil: there are no push notifications

	// URL is the base URL for the card, such as http://127.0.0.1:8080. "": the
	// card names the host of the request, with https if a proxy sets
	// X-Forwarded-Proto.
	URL     string
	Version string // of linesman

	// Allows reports whether the caller of a request has a scope, read or
	// submit. nil: always.
	Allows func(ctx context.Context, scope string) bool

	Beat time.Duration // interval of comments in an idle stream; default 15 s
	Slow time.Duration // write timeout of a client, after which it is disconnected; default 30 s
	Held int           // replaces MaxHeld, unless 0
	Log  *zap.Logger   // default: none
}

// Handler answers the operations of A2A.
type Handler struct {
	Config
	log  *zap.Logger
	held *responder.Slots // one for each stream and blocking send
}

var _ a2asrv.RequestHandler = (*Handler)(nil)

// New returns a handler. It can answer once the service is running.
func New(c Config) *Handler {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Beat == 0 {
		c.Beat = 15 * time.Second
	}
	if c.Slow == 0 {
		c.Slow = 30 * time.Second
	}
	if c.Held == 0 {
		c.Held = MaxHeld
	}
	return &Handler{Config: c, log: c.Log.Named("a2a"), held: responder.NewSlots(c.Held)}
}

// GetTask returns the state of a run, and its result.
func (h *Handler) GetTask(ctx context.Context, q *sdk.GetTaskRequest) (*sdk.Task, error) {
	if err := h.admit(ctx, scopeRead); err != nil {
		return nil, err
	}
	if err := checkHistory(q.HistoryLength); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	v, err := h.find(ctx, q.ID)
	if err != nil {
		return nil, err
	}
	return h.task(ctx, v, wanted{artifacts: true, history: q.HistoryLength})
}

// CancelTask cancels a run. It returns the current task: one whose agent is
// still being terminated is still working.
func (h *Handler) CancelTask(ctx context.Context, q *sdk.CancelTaskRequest) (*sdk.Task, error) {
	if err := h.admit(ctx, scopeSubmit); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	v, err := h.find(ctx, q.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case v.State.Final():
		return nil, fail(sdk.ErrTaskNotCancelable, "the task has ended: it is "+string(v.State))
	case responder.IsCloud(v.Row):
		return nil, fail(sdk.ErrUnsupportedOperation, "a task of Codex Cloud can be cancelled on its web page only")
	}
	reason, _ := q.Metadata["reason"].(string)
	c, err := h.Service.Cancel(ctx, api.Cancel{Run: v.ID, Reason: reason})
	if err != nil {
		return nil, h.explain("cancel", err)
	}
	if c.State == runs.StateCancelled { // the cancel entry is stored; the record follows
		soon, stop := context.WithTimeout(ctx, 3*time.Second)
		_, err := h.Service.Wait(soon, v.ID, nil)
		stop()
		if err != nil && soon.Err() == nil {
			return nil, h.explain("cancel", err)
		}
	}
	if now, ok := h.Service.Get(v.ID); ok {
		v = now
	}
	t, err := h.task(ctx, v, wanted{artifacts: true})
	if err == nil && c.State == runs.StateCancelled && !t.Status.State.Terminal() {
		t.Status.State = sdk.TaskStateCanceled
	}
	return t, err
}

// GetExtendedAgentCard is not supported: the public card is complete.
func (h *Handler) GetExtendedAgentCard(ctx context.Context, _ *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard,
	error) {
	if err := h.admit(ctx, scopeRead); err != nil {
		return nil, err
	}
	return nil, fail(sdk.ErrUnsupportedOperation, "there is no extended card: the public one says all")
}

// admit refuses requests in an unsupported version, without the scope, or
// before the run table is read.
func (h *Handler) admit(ctx context.Context, scope string) error {
	if callOf(ctx).version == versionUnknown {
		return fail(sdk.ErrVersionNotSupported, "A2A-Version must be 1.0; over JSON-RPC 0.3 is spoken too")
	}
	if h.Allows != nil && !h.Allows(ctx, scope) {
		return fail(sdk.ErrUnauthorized, "the token lacks the scope "+scope)
	}
	if err := h.Service.Connected(); err != nil {
		return h.explain("connect", err)
	}
	if err := h.Service.Ready(ctx); err != nil {
		return h.explain("read the run table", err)
	}
	return nil
}

// find returns the run of a task.
func (h *Handler) find(ctx context.Context, id sdk.TaskID) (responder.View, error) {
	if id == "" {
		return responder.View{}, fail(sdk.ErrInvalidParams, "id: is required")
	}
	v, err := h.Service.Look(ctx, string(id))
	if err != nil {
		return v, h.explain("find a task", err)
	}
	return v, nil
}

// hold takes a slot for a long-lived request.
func (h *Handler) hold(ctx context.Context) (free func(), err error) {
	free, ok := h.held.Take(responder.Caller(ctx))
	if !ok {
		return nil, fail(sdk.ErrServerError, "there are as many streams and blocking sends as there may be")
	}
	return free, nil
}

func checkHistory(n *int) error {
	if n != nil && *n < 0 {
		return fail(sdk.ErrInvalidParams, "historyLength: must not be negative")
	}
	return nil
}
