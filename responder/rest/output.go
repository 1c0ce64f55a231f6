package rest

import (
	"context"
	"net/http"
	"strconv"

	"github.com/linesman/linesman/api"
)

func getOutput(q *exchange) (*Answer, error) {
	stream, err := q.query.word("stream", "stdout", "stderr")
	if err != nil {
		return nil, err
	}
	offset, err := q.query.number("offset", 0, 1<<60, 0)
	if err != nil {
		return nil, err
	}
	limit, err := q.query.number("limit", 1, maxOutput, 64<<10)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), askTime)
	defer cancel()
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	part, err := q.Service.Output(ctx, api.OutputRequest{
		Run: q.run(), Stderr: stream == "stderr", Offset: offset, Limit: int(limit),
	})
	if err != nil {
		return nil, err
	}
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
