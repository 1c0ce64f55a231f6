package a2a

import (
	"cmp"
	"context"
	"strconv"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// states maps A2A states to run states. No run has one of the last two.
var states = map[sdk.TaskState][]runs.State{
	sdk.TaskStateUnspecified:   nil, // all
	sdk.TaskStateSubmitted:     {runs.StateQueued},
	sdk.TaskStateWorking:       {runs.StateWorking},
	sdk.TaskStateInputRequired: {runs.StateInputRequired},
	sdk.TaskStateCompleted:     {runs.StateCompleted},
	sdk.TaskStateFailed:        {runs.StateFailed, runs.StateTimeout},
	sdk.TaskStateCanceled:      {runs.StateCancelled},
	sdk.TaskStateAuthRequired:  {"auth-required"},
	sdk.TaskStateRejected:      {"rejected"},
}

// ListTasks lists runs by the time of their last state change, newest first. A
// run whose state changes between two pages moves to the front and is not on
// later pages.
func (h *Handler) ListTasks(ctx context.Context, q *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
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
	in, known := states[q.Status]
	if !known {
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
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	answer := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}, TotalSize: page.Total, NextPageToken: page.Next}
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
