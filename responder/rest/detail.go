package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
)

func getDetail(ctx context.Context, q *exchange) (*reply, error) {
	want := api.DetailRequest{
		Run: q.run(), After: q.query.Get("after"), Last: int(q.query.number("last")),
		Limit: int(q.query.number("limit")),
	}
	if last := q.r.Header.Get(lastEventID); last != "" {
		want.After = last
	}
	if q.query.err != nil {
		return nil, q.query.err
	}
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	answer, err := q.detail(ctx, want)
	if e := new(api.Error); errors.As(err, &e) && q.r.Header.Get(lastEventID) != "" {
		return nil, e.Rename(map[string]string{api.FieldAfter: lastEventID})
	}
	return answer, err
}

func (q *exchange) detail(ctx context.Context, want api.DetailRequest) (*reply, error) {
	if q.stream {
		return nil, q.streamDetail(ctx, want)
	}
	page, err := q.Service.DetailPage(ctx, want, maxEventBytes)
	if err != nil {
		return nil, err
	}
	return &reply{Status: http.StatusOK, Body: &page}, nil
}

// streamDetail writes the details of a run until its completion.
func (q *exchange) streamDetail(ctx context.Context, want api.DetailRequest) error {
	open, err := q.Service.OpenDetail(ctx, want.Run, want.After, want.Last)
	if err != nil {
		return err
	}
	defer open.Close()
	return q.streamFrames(open.Ended, func(ctx context.Context, send sender) error {
		return open.Each(ctx, true, func(item api.DetailItem) error {
			body, err := bounds.Encode(item)
			if err != nil {
				return err
			}
			return send(frameOf(item.Pos, item.Kind, body))
		})
	})
}
