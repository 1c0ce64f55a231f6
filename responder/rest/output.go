package rest

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/linesman/linesman/runs"
)

func getOutput(q *request) (*Answer, error) {
	stream, err := q.query.word("stream", "stdout", "stderr")
	if err != nil {
		return nil, err
	}
	offset, err := q.query.number("offset", 0, 1<<60, 0)
	if err != nil {
		return nil, err
	}
	limit, err := q.query.number("limit", 1, MaxOutput, 64<<10)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), askTime)
	defer cancel()
	v, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	kind := runs.Out
	if stream == "stderr" {
		kind = runs.ErrOut
	}
	at, data, err := q.Streams.OutputAt(ctx, v.Agent, v.ID, kind, offset, int(limit))
	if err != nil {
		return nil, err
	}
	size, err := q.size(ctx, v.ID, kind)
	if err != nil {
		return nil, err
	}
	h := q.w.Header()
	h.Set("Content-Type", bytesType)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Disposition", "attachment") // a browser must not show what an agent wrote as a page of ours
	h.Set("X-Linesman-Offset", strconv.FormatInt(at, 10))
	h.Set("X-Linesman-Size", strconv.FormatInt(max(size, ends(at, data)), 10))
	q.send(http.StatusOK, data)
	return nil, nil
}

// size is how much of a stream is known to the run's own record: that of its
// task may be the next run's.
func (q *request) size(ctx context.Context, run string, kind runs.Kind) (int64, error) {
	record, err := q.Responder.OwnRecord(ctx, run)
	switch {
	case errors.Is(err, runs.ErrNoRun): // nobody has made it yet
		return 0, nil
	case err != nil:
		return 0, err
	case kind == runs.ErrOut:
		return record.ErrBytes, nil
	}
	return record.Bytes, nil
}

// ends is where data ends that begins at an offset; none ends nothing.
func ends(at int64, data []byte) int64 {
	if len(data) == 0 {
		return 0
	}
	return at + int64(len(data))
}
