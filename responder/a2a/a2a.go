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
	"cmp"
	"context"
	"errors"
	"strconv"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"go.uber.org/zap"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
)

// Limits of requests and answers.
const (
	maxBody    = 1 << 20 // bytes of a request's body
	maxParts   = 64      // of a message
	maxPage    = 100     // tasks
	maxHistory = 100     // messages of a task
	maxWait    = time.Hour
	// MaxHeld bounds concurrent streams and blocking sends, with the prompts of package natsagents; further ones are
	// refused. Together with those of REST they leave connections free.
	MaxHeld = 128

	// maxHistoryBytes bounds the messages of all tasks of an answer. Beyond it,
	// the oldest messages of a task, and those of the last tasks of a page, are
	// omitted.
	maxHistoryBytes = 4 << 20
	// maxHistoryTexts is how many of the newest texts of a run are looked through, since not every one is said to the
	// user: also reasoning, and what sub-agents say, are texts.
	maxHistoryTexts = 16 * maxHistory

	askTime = 30 * time.Second // timeout of reading the streams
)

// Scopes that a caller needs.
const (
	scopeRead   = "read"
	scopeSubmit = "submit"
	scopeAnswer = "answer" // to see a question, and to answer it
)

// Config is what a [handler] needs.
type Config struct {
	Service *responder.Service
	Tools   *tools.Set  // its tools for clients of AdCP are the skills
	Push    pushConfigs // nil: push notifications are not supported

	// URL is the base URL for the card, such as http://127.0.0.1:8080. "": the
	// card names the host of the request, with https if a proxy sets
	// X-Forwarded-Proto.
	URL     string
	Version string // of linesman

	// Allows reports whether the caller of a request has a scope: read, submit
	// or answer. nil: always.
	Allows func(ctx context.Context, scope string) bool

	Beat time.Duration // interval of comments in an idle stream; default 15 s
	Slow time.Duration // write timeout of a client, after which it is disconnected; default 30 s
	Held int           // replaces MaxHeld, unless 0
	// Slots are shared with other streams, instead of Held of its own.
	Slots *responder.Slots
	Log   *zap.Logger // default: none
}

// handler answers the operations of A2A.
type handler struct {
	Config
	log  *zap.Logger
	held *responder.Slots // one for each stream and blocking send
}

var _ a2asrv.RequestHandler = (*handler)(nil)

// New returns a handler. It can answer once the service is running.
func New(c Config) *handler {
	c.Log = cmp.Or(c.Log, zap.NewNop())
	c.Beat = cmp.Or(c.Beat, 15*time.Second)
	c.Slow = cmp.Or(c.Slow, 30*time.Second)
	c.Held = cmp.Or(c.Held, MaxHeld)
	return &handler{Config: c, log: c.Log.Named("a2a"), held: cmp.Or(c.Slots, responder.NewSlots(c.Held))}
}

// GetTask returns the state of a run, and its result.
func (h *handler) GetTask(ctx context.Context, q *sdk.GetTaskRequest) (*sdk.Task, error) {
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
	return h.task(ctx, v, wanted{artifacts: true, question: true, history: q.HistoryLength})
}

// CancelTask cancels a run. It returns the current task: one whose agent is
// still being terminated is still working.
func (h *handler) CancelTask(ctx context.Context, q *sdk.CancelTaskRequest) (*sdk.Task, error) {
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
	case responder.IsCloud(v):
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
	t, err := h.task(ctx, v, wanted{artifacts: true, question: true})
	if err == nil && c.State == runs.StateCancelled && !t.Status.State.Terminal() {
		t.Status.State = sdk.TaskStateCanceled
	}
	return t, err
}

// ListTasks lists runs by the time of their last state change, newest first. A
// run whose state changes between two pages moves to the front and is not on
// later pages.
func (h *handler) ListTasks(ctx context.Context, q *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	if err := h.admit(ctx, scopeRead); err != nil {
		return nil, err
	}
	if err := fill(ctx, q); err != nil {
		return nil, err
	}
	size := cmp.Or(q.PageSize, 50)
	if size < 1 || size > maxPage {
		return nil, fail(sdk.ErrInvalidParams, "pageSize: must be 1 to "+strconv.Itoa(maxPage))
	}
	if err := checkHistory(q.HistoryLength); err != nil {
		return nil, err
	}
	in := shownAs(q.Status)
	switch {
	case q.Status == sdk.TaskStateRejected, q.Status == sdk.TaskStateAuthRequired: // no task that is stored
		return &sdk.ListTasksResponse{Tasks: []*sdk.Task{}}, nil
	case q.Status != sdk.TaskStateUnspecified && len(in) == 0:
		return nil, fail(sdk.ErrInvalidParams, "status: must be a state of tasks")
	}
	list := api.List{States: in, Context: q.ContextID, Order: api.ByChange, Limit: size, Cursor: q.PageToken}
	if q.StatusTimestampAfter != nil {
		list.Since = api.TimeOf(*q.StatusTimestampAfter)
	}
	page, err := h.Service.List(list)
	if api.Is(err, api.Validation) {
		return nil, fail(sdk.ErrInvalidParams, "pageToken: must be nextPageToken of an answer to the same filters")
	}
	if err != nil {
		return nil, h.explain("list tasks", err)
	}
	total, err := h.Service.Count(list)
	if err != nil {
		return nil, h.explain("list tasks", err)
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, TotalSize: total, NextPageToken: page.Next}
	room := maxHistoryBytes
	for _, v := range page.Runs {
		w := wanted{context: q.ContextID, artifacts: q.IncludeArtifacts, history: q.HistoryLength, room: &room}
		t, err := h.task(ctx, v, w)
		if err != nil {
			return nil, err
		}
		answer.Tasks = append(answer.Tasks, t)
	}
	answer.PageSize = len(answer.Tasks)
	return answer, nil
}

// fill adds the parameters that a2a-go's HTTP+JSON does not parse: those whose
// fields are pointers.
func fill(ctx context.Context, q *sdk.ListTasksRequest) error {
	query := callOf(ctx).query
	if text := query.Get("historyLength"); text != "" && q.HistoryLength == nil {
		n, err := strconv.Atoi(text)
		if err != nil {
			return fail(sdk.ErrInvalidParams, "historyLength: must be a whole number")
		}
		q.HistoryLength = &n
	}
	if text := query.Get("statusTimestampAfter"); text != "" && q.StatusTimestampAfter == nil {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return fail(sdk.ErrInvalidParams, "statusTimestampAfter: must be a time of RFC 3339")
		}
		q.StatusTimestampAfter = &at
	}
	return nil
}

// GetExtendedAgentCard is not supported: the public card is complete.
func (h *handler) GetExtendedAgentCard(ctx context.Context, _ *sdk.GetExtendedAgentCardRequest) (*sdk.AgentCard,
	error) {
	if err := h.admit(ctx, scopeRead); err != nil {
		return nil, err
	}
	return nil, fail(sdk.ErrUnsupportedOperation, "there is no extended card: the public one says all")
}

// admit refuses requests in an unsupported version, without the scope, or
// before the run table is read.
func (h *handler) admit(ctx context.Context, scope string) error {
	if callOf(ctx).version == versionUnknown {
		return fail(sdk.ErrVersionNotSupported, "A2A-Version must be 1.0; over JSON-RPC 0.3 is spoken too")
	}
	if !h.allows(ctx, scope) {
		return lacks(scope)
	}
	if err := h.Service.Connected(); err != nil {
		return h.explain("connect", err)
	}
	if err := h.Service.Ready(ctx); err != nil {
		return h.explain("read the run table", err)
	}
	return nil
}

func lacks(scope string) error { return fail(sdk.ErrUnauthorized, "the token lacks the scope "+scope) }

func (h *handler) allows(ctx context.Context, scope string) bool {
	return h.Allows == nil || h.Allows(ctx, scope)
}

// find returns the run of a task.
func (h *handler) find(ctx context.Context, id sdk.TaskID) (runs.Header, error) {
	if id == "" {
		return runs.Header{}, fail(sdk.ErrInvalidParams, "id: is required")
	}
	v, err := h.Service.Look(ctx, string(id))
	if err != nil {
		return v, h.explain("find a task", err)
	}
	return v, nil
}

// hold takes a slot for a long-lived request.
func (h *handler) hold(ctx context.Context) (free func(), err error) {
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

// answers maps the codes of the service's errors to A2A.
var answers = map[api.Code]struct {
	kind    error // the error of a request
	rejects bool  // a message with this error becomes a rejected task; otherwise it is a server error
}{
	api.Validation:     {sdk.ErrInvalidParams, true},
	api.NotFound:       {sdk.ErrTaskNotFound, false},
	api.Ended:          {sdk.ErrTaskNotCancelable, false},
	api.NotEnded:       {sdk.ErrUnsupportedOperation, false},
	api.NotWaiting:     {sdk.ErrUnsupportedOperation, false},
	api.Conflict:       {sdk.ErrUnsupportedOperation, false},
	api.Timeout:        {sdk.ErrServerError, false},
	api.Unsupported:    {sdk.ErrUnsupportedOperation, true},
	api.ProgramFailed:  {sdk.ErrServerError, false},
	api.NotSignedIn:    {sdk.ErrServerError, false},
	api.QueueFull:      {sdk.ErrServerError, true},
	api.TooMany:        {sdk.ErrServerError, false},
	api.KeyConflict:    {sdk.ErrInvalidParams, true},
	api.KeyInFlight:    {sdk.ErrServerError, false},
	api.KeyExpired:     {sdk.ErrInvalidParams, true},
	api.RateLimited:    {sdk.ErrServerError, true},
	api.OutcomeUnknown: {sdk.ErrServerError, false},
	api.Unavailable:    {sdk.ErrServerError, false},
	api.Internal:       {sdk.ErrInternalError, false},
}

// fail returns an error for callers: its kind in the protocol, and the reason.
func fail(kind error, why string) *sdk.Error { return sdk.NewError(kind, why) }

// explain converts any error into one for callers. Internal causes are only
// logged.
func (h *handler) explain(what string, err error) error {
	var known *sdk.Error
	var e *api.Error
	switch {
	case errors.As(err, &known):
		return known
	case !errors.As(err, &e):
		h.log.Warn("a request failed", zap.String("operation", what), zap.Error(err))
	case e.Code != api.Internal:
		return fail(answers[e.Code].kind, e.Message)
	}
	return fail(sdk.ErrInternalError, "internal error; see linesman's log")
}
