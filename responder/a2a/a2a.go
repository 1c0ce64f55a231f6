// Package a2a serves runs as tasks of A2A 1.0: JSON-RPC at /a2a, which speaks
// version 0.3 too, HTTP+JSON below /a2a/v1, and the agent card. It owns what a
// run is called there; what it says comes from the responder, and so from the
// streams. What begins a run is asked of the tools, so that all surfaces take
// and refuse the same.
//
//	request ──▶ version, scope ──▶ a2a-go's transports ──▶ Handler ──▶ Responder, Streams, Tools
//	                                                          │
//	                     Task, updates  ◀── state, artifact ◀─┘
//
// The one rule: nothing that counts is kept here. A task is the record of its
// run, its id the run id, and any responder answers for it, after a restart as
// before.
package a2a

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"go.uber.org/zap"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/cloud"
	"github.com/linesman/linesman/responder/delegator"
	"github.com/linesman/linesman/responder/push"
	"github.com/linesman/linesman/runs"
)

// Limits of requests and answers.
const (
	MaxBody    = 1 << 20 // bytes of a request's body
	MaxParts   = 64      // of a message
	MaxPage    = 100     // tasks
	MaxHistory = 100     // messages of a task
	MaxWait    = time.Hour
	MaxHeld    = 128 // streams and blocking sends at a time; one more is refused. With those of REST they leave connections free

	// MaxHistoryBytes bounds the messages of all tasks of an answer. What does
	// not fit is left out: of a task the oldest, of a page the last tasks'.
	MaxHistoryBytes = 4 << 20

	askTime = 30 * time.Second // for the streams to answer
)

// Scopes that a caller needs.
const (
	scopeRead   = "read"
	scopeSubmit = "submit"
)

// Streams is what is read of the bus beyond what a responder reads.
type Streams interface {
	// EventsAfter calls each with the events of a run behind a sequence, the
	// completion being one; with follow also with those that come, until ctx ends.
	EventsAfter(ctx context.Context, agent, run string, after uint64, follow bool, each func(seq uint64, token string, body []byte) error) error
	// EventsEnd returns the sequence of a run's completion, 0 without one, and
	// the last one that the stream has given.
	EventsEnd(ctx context.Context, agent, run string) (completion, last uint64, err error)
}

// Tools is what begins runs, and tells what came of them; see
// [delegator.Delegator].
type Tools interface {
	push.Results
	Call(ctx context.Context, tool string, args json.RawMessage, progress func(delegator.Progress)) (delegator.Answer, error)
}

// Config is what a [Handler] needs.
type Config struct {
	Responder *responder.Responder
	Streams   Streams
	Tools     Tools
	Push      PushConfigs // nil: there are no push notifications

	// URL is where this is served, as in http://127.0.0.1:8080, for the card.
	// "": the card names the host that it was asked at, by https where a proxy
	// says so in X-Forwarded-Proto.
	URL     string
	Version string // of linesman

	// Allows reports whether the caller of a request may do what a scope, read
	// or submit, stands for. nil: everything.
	Allows func(ctx context.Context, scope string) bool

	Away     func() bool        // whether NATS is away; nil: nobody knows
	Why      func(error) string // what kept the streams from answering, as in [delegator.Config]; nil: nothing is known
	Patience time.Duration      // to wait for the run table after the responder's start; default 10 s
	Beat     time.Duration      // between comments in a silent stream; default 15 s
	Slow     time.Duration      // for a client to take what was written, before it is left; default 30 s
	Held     int                // instead of MaxHeld, unless it is 0
	Log      *zap.Logger        // default: none
}

// Handler answers the operations of A2A.
type Handler struct {
	Config
	log  *zap.Logger
	held *responder.Slots // one for each stream and blocking send
}

var _ a2asrv.RequestHandler = (*Handler)(nil)

// New returns a handler that answers once the responder is at work.
func New(c Config) *Handler {
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.Patience == 0 {
		c.Patience = 10 * time.Second
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

// GetTask tells how a run stands, and what came of it.
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

// CancelTask ends a run. The task comes back as it stands then: one whose
// agent takes its time to end is still at work.
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
	if v.Agent == cloud.Agent && !v.State.Final() {
		return nil, fail(sdk.ErrUnsupportedOperation, "a task of Codex Cloud can be cancelled on its web page only")
	}
	reason, _ := q.Metadata["reason"].(string)
	c, err := h.Responder.Cancel(ctx, v.ID, reason)
	var ended *responder.EndedError
	switch {
	case errors.As(err, &ended):
		return nil, fail(sdk.ErrTaskNotCancelable, "the task has ended: it is "+string(ended.State))
	case err != nil:
		return nil, h.explain("cancel", err)
	}
	if c.State == runs.StateCancelled { // it is written; the record follows
		soon, stop := context.WithTimeout(ctx, 3*time.Second)
		_, err := h.Responder.Wait(soon, v.ID, nil)
		stop()
		if err != nil && soon.Err() == nil {
			return nil, h.explain("cancel", err)
		}
	}
	if now, ok := h.Responder.Get(v.ID); ok {
		v = now
	}
	t, err := h.task(ctx, v, wanted{artifacts: true})
	if err == nil && c.State == runs.StateCancelled && !t.Status.State.Terminal() {
		t.Status.State = sdk.TaskStateCanceled
	}
	return t, err
}

// GetExtendedAgentCard is not offered: the card says all there is.
func (h *Handler) GetExtendedAgentCard(ctx context.Context, _ *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard, error) {
	if err := h.admit(ctx, scopeRead); err != nil {
		return nil, err
	}
	return nil, fail(sdk.ErrUnsupportedOperation, "there is no extended card: the public one says all")
}

// admit refuses what comes in another version, without the scope, or before
// there is something to answer with.
func (h *Handler) admit(ctx context.Context, scope string) error {
	if callOf(ctx).version == versionUnknown {
		return fail(sdk.ErrVersionNotSupported, "A2A-Version must be 1.0; over JSON-RPC 0.3 is spoken too")
	}
	if h.Allows != nil && !h.Allows(ctx, scope) {
		return fail(sdk.ErrUnauthorized, "the token lacks the scope "+scope)
	}
	if h.Away != nil && h.Away() {
		return fail(sdk.ErrServerError, "NATS is away")
	}
	if err := h.Responder.ReadyWithin(ctx, h.Patience); err != nil {
		return fail(sdk.ErrServerError, err.Error())
	}
	return nil
}

// find is the run of a task.
func (h *Handler) find(ctx context.Context, id sdk.TaskID) (responder.View, error) {
	if id == "" {
		return responder.View{}, fail(sdk.ErrInvalidParams, "id: is required")
	}
	v, err := h.Responder.Look(ctx, string(id))
	if err != nil {
		return v, h.explain("find a task", err)
	}
	return v, nil
}

// hold takes a slot for a request that is answered for long.
func (h *Handler) hold(ctx context.Context) (free func(), err error) {
	free, ok := h.held.Take(delegator.Caller(ctx))
	if !ok {
		return nil, fail(sdk.ErrServerError, "there are as many streams and blocking sends as there may be")
	}
	return free, nil
}

// fail is an error that a caller sees: what it is to the protocol, and why.
func fail(kind error, why string) *sdk.Error { return sdk.NewError(kind, why) }

// explain makes any error one that a caller may see. What happened inside
// stays inside: the log tells it.
func (h *Handler) explain(what string, err error) error {
	var known *sdk.Error
	why := ""
	if h.Why != nil {
		why = h.Why(err)
	}
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, runs.ErrNoRun):
		return fail(sdk.ErrTaskNotFound, "there is no task of this id")
	case why != "":
		h.log.Warn("a request failed", zap.String("operation", what), zap.Error(err))
		return fail(sdk.ErrServerError, why)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return fail(sdk.ErrServerError, "the streams did not answer in time")
	case h.Away != nil && h.Away():
		return fail(sdk.ErrServerError, "NATS is away")
	}
	h.log.Warn("a request failed", zap.String("operation", what), zap.Error(err))
	return fail(sdk.ErrInternalError, "linesman broke off; its log says where")
}

func checkHistory(n *int) error {
	if n != nil && *n < 0 {
		return fail(sdk.ErrInvalidParams, "historyLength: must not be negative")
	}
	return nil
}
