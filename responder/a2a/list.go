package a2a

import (
	"cmp"
	"context"
	"encoding/base64"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/linesman/linesman/runs"
)

// place is a run's place in a list: by when it came to its state, the newest
// first, and among those of one millisecond by its id.
type place struct {
	at int64
	id string
}

func newer(a, b place) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(b.id, a.id)) }

// ListTasks lists runs by when they came to their state, the newest first. A
// run whose state changes between two pages moves to the front: the pages
// behind have it no more.
func (h *Handler) ListTasks(ctx context.Context, q *sdk.ListTasksRequest) (*sdk.ListTasksResponse, error) {
	if err := h.admit(ctx, scopeRead); err != nil {
		return nil, err
	}
	if err := fill(ctx, q); err != nil {
		return nil, err
	}
	size := cmp.Or(q.PageSize, 50)
	if size < 1 || size > MaxPage {
		return nil, fail(sdk.ErrInvalidParams, "pageSize: must be 1 to "+strconv.Itoa(MaxPage))
	}
	if err := checkHistory(q.HistoryLength); err != nil {
		return nil, err
	}
	keep, err := h.filter(q)
	if err != nil {
		return nil, err
	}
	after, err := cursor(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	// The newest ones behind the cursor, and one more, which says that there
	// is a next page. All rows are looked at, none is kept by the snapshot.
	var page []place
	answer := &sdk.ListTasksResponse{Tasks: []*sdk.Task{}}
	h.Responder.Snapshot(0, func(r runs.Row) bool {
		if !keep(r) {
			return false
		}
		answer.TotalSize++
		p := place{statusTime(r), r.ID}
		if after != nil && newer(*after, p) >= 0 {
			return false
		}
		at, _ := slices.BinarySearchFunc(page, p, newer)
		if at > size {
			return false
		}
		if page = slices.Insert(page, at, p); len(page) > size+1 {
			page = page[:size+1]
		}
		return false
	})
	if len(page) > size {
		page = page[:size]
		answer.NextPageToken = encodeCursor(q, page[size-1])
	}
	room := MaxHistoryBytes
	for _, p := range page {
		v, ok := h.Responder.Get(p.id)
		if !ok { // removed meanwhile
			continue
		}
		t, err := h.task(ctx, v, wanted{context: q.ContextID, artifacts: q.IncludeArtifacts, history: q.HistoryLength, room: &room})
		if err != nil {
			return nil, err
		}
		answer.Tasks = append(answer.Tasks, t)
	}
	answer.PageSize = len(answer.Tasks)
	return answer, nil
}

// fill adds what a2a-go's HTTP+JSON leaves out of a request: parameters whose
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

// filter is what a request asks of a run.
func (h *Handler) filter(q *sdk.ListTasksRequest) (func(runs.Row) bool, error) {
	switch q.Status {
	case sdk.TaskStateUnspecified, sdk.TaskStateSubmitted, sdk.TaskStateWorking, sdk.TaskStateCompleted, sdk.TaskStateFailed, sdk.TaskStateCanceled,
		sdk.TaskStateInputRequired, sdk.TaskStateAuthRequired, sdk.TaskStateRejected:
	default:
		return nil, fail(sdk.ErrInvalidParams, "status: must be a state of tasks")
	}
	thread := q.ContextID
	if v, ok := h.Responder.Get(q.ContextID); ok {
		thread = v.Thread
	}
	var since int64
	if q.StatusTimestampAfter != nil {
		since = q.StatusTimestampAfter.UnixMilli()
	}
	return func(r runs.Row) bool {
		return (q.Status == sdk.TaskStateUnspecified || stateOf(r.State) == q.Status) && statusTime(r) >= since &&
			(q.ContextID == "" || r.ID == q.ContextID || thread != "" && strings.EqualFold(r.Thread, thread))
	}, nil
}

// A cursor is the place of the last run of a page, and of which list: it fits
// no other filters.
func encodeCursor(q *sdk.ListTasksRequest, p place) string {
	return base64.RawURLEncoding.EncodeToString([]byte(listed(q) + " " + strconv.FormatInt(p.at, 10) + " " + p.id))
}

func cursor(q *sdk.ListTasksRequest) (*place, error) {
	if q.PageToken == "" {
		return nil, nil
	}
	wrong := fail(sdk.ErrInvalidParams, "pageToken: must be nextPageToken of an answer to the same filters")
	text, err := base64.RawURLEncoding.DecodeString(q.PageToken)
	if err != nil {
		return nil, wrong
	}
	part := strings.Split(string(text), " ")
	if len(part) != 3 || part[0] != listed(q) || runs.CheckID(part[2]) != nil {
		return nil, wrong
	}
	at, err := strconv.ParseInt(part[1], 10, 64)
	if err != nil {
		return nil, wrong
	}
	return &place{at, part[2]}, nil
}

// listed names the list that a request asks for.
func listed(q *sdk.ListTasksRequest) string {
	since := ""
	if q.StatusTimestampAfter != nil {
		since = strconv.FormatInt(q.StatusTimestampAfter.UnixMilli(), 10)
	}
	sum := fnv.New64a()
	for _, text := range []string{q.ContextID, string(q.Status), since} {
		_, _ = sum.Write([]byte(strconv.Itoa(len(text)) + ":" + text)) // it never fails
	}
	return strconv.FormatUint(sum.Sum64(), 36)
}
