package rest

import (
	"context"
	"net/http"
	"strconv"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
)

func getEvents(ctx context.Context, q *exchange) (*reply, error) {
	after, limit, err := q.after()
	if err != nil {
		return nil, err
	}
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	if q.stream {
		events, err := q.Service.Follow(ctx, q.run(), after)
		if err != nil {
			return nil, err
		}
		return nil, q.streamFrames(events.Ended, func(ctx context.Context, send sender) error {
			return events.Frames(ctx, "envelope", func(e api.Event) ([]byte, error) { return frame(e), nil }, send)
		})
	}
	page, err := q.Service.Events(ctx, q.run(), after, int(limit), maxEventBytes)
	if err != nil {
		return nil, err
	}
	return &reply{Status: http.StatusOK, Body: &page}, nil
}

// listEvents answers with the events of all runs, or of one.
func listEvents(ctx context.Context, q *exchange) (*reply, error) {
	after, limit, err := q.after()
	if err != nil {
		return nil, err
	}
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	request := api.EventsRequest{
		Run: q.query.Get("run"), Agent: q.query.Get("agent"), Kinds: q.query.Values["kind"],
		Labels: q.query.Values["label"], After: after,
	}
	if q.stream {
		events, err := q.Service.FollowAll(ctx, request)
		if err != nil {
			return nil, listed(err)
		}
		return nil, q.streamFrames(events.Ended, func(ctx context.Context, send sender) error {
			return events.Frames(ctx, "event", func(e api.Event) (_ []byte, err error) {
				e.Body, err = bounds.Encode(e) // strings, numbers, and JSON that was read before
				return frame(e), err
			}, send)
		})
	}
	page, err := q.Service.AllEvents(ctx, request, int(limit), maxEventBytes)
	if err != nil {
		return nil, listed(err)
	}
	return &reply{Status: http.StatusOK, Body: &page}, nil
}

// after returns where to begin, and the size of a page. A reconnecting client
// sends its last event in a header.
func (q *exchange) after() (after uint64, limit int64, err error) {
	n := q.query.number("after")
	limit = q.query.number("limit")
	if text := q.r.Header.Get(lastEventID); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 || n > maxSequence {
			q.query.refuse(lastEventID, "must be the id of an event of this stream")
		}
	}
	return uint64(n), limit, q.query.err
}

func getOutput(ctx context.Context, q *exchange) (*reply, error) {
	stream := q.query.word("stream")
	offset, limit := q.query.number("offset"), q.query.number("limit")
	if q.query.err != nil {
		return nil, q.query.err
	}
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	part, err := q.Service.Output(ctx, api.OutputRequest{
		Run: q.run(), Stderr: stream == "stderr", Offset: offset, Limit: int(limit),
	})
	if err != nil {
		return nil, err
	}
	free, err := q.room(len(part.Data))
	if err != nil {
		return nil, err
	}
	defer free()
	h := q.w.Header()
	h.Set("Content-Type", bytesType)
	h.Set("Content-Length", strconv.Itoa(len(part.Data)))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", "attachment") // a browser must not display an agent's output as a page
	h.Set("X-Linesman-Offset", strconv.FormatInt(part.Offset, 10))
	h.Set("X-Linesman-Size", strconv.FormatInt(part.Size, 10))
	q.send(http.StatusOK, part.Data)
	return nil, nil
}

func getDiff(ctx context.Context, q *exchange) (*reply, error) {
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	d, err := q.Service.Diff(ctx, api.RunRequest{Run: q.run()})
	if err != nil {
		return nil, err
	}
	if !q.patch {
		return &reply{Status: http.StatusOK, Body: d}, nil
	}
	if d.Reason != "" {
		return nil, &api.Error{Code: api.Conflict, Message: d.Why, Reason: string(d.Reason), Run: d.Run}
	}
	free, err := q.room(len(d.Patch))
	if err != nil {
		return nil, err
	}
	defer free()
	h := q.w.Header()
	h.Set("Content-Type", patchType)
	h.Set("Content-Length", strconv.Itoa(len(d.Patch)))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", "attachment") // a browser must not display the work of an agent as a page
	h.Set("X-Linesman-Truncated", strconv.FormatBool(d.Truncated))
	h.Add("Vary", "Accept")
	q.send(http.StatusOK, []byte(d.Patch))
	return nil, nil
}
