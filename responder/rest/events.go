package rest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
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
		return nil, q.streamEvents(events, frame)
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
		return nil, q.streamEvents(events, func(e api.Event) []byte {
			var err error
			e.Body, err = bounds.Encode(e)
			if err != nil { // strings, numbers, and JSON that was read before
				panic("rest: encode an event: " + err.Error())
			}
			return frame(e)
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
	const most = 1 << 62
	n := q.query.number("after", 0, most, 0)
	limit = q.query.number("limit", 1, maxEvents, 100)
	if text := q.r.Header.Get("Last-Event-ID"); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 || n > most {
			q.query.refuse("Last-Event-ID", "must be the id of an event of this stream")
		}
	}
	return uint64(n), limit, q.query.err
}

// streamEvents writes events as they arrive, until the run's completion. It
// returns an error only before anything was written.
func (q *exchange) streamEvents(events *responder.Follow, encode func(api.Event) []byte) error {
	if events.Ended {
		q.w.WriteHeader(http.StatusNoContent) // stops an EventSource from reconnecting
		return nil
	}
	return q.serveEvents(func(ctx context.Context, write func([]byte) error) error {
		return events.Each(ctx, func(e api.Event) error { return write(encode(e)) })
	})
}

// serveEvents answers with server-sent events, and comments while there are none. Send
// writes all events; after it the stream ends. The error is from before anything was written.
func (q *exchange) serveEvents(send func(ctx context.Context, write func([]byte) error) error) error {
	free, err := q.hold()
	if err != nil {
		return err
	}
	defer free()
	h := q.w.Header()
	h.Set("Content-Type", streamType)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a buffering proxy would delay events
	h.Add("Vary", "Accept")
	s := &sse{w: q.w, control: http.NewResponseController(q.w), beat: q.Beat, idle: time.NewTicker(q.Beat)}
	defer s.idle.Stop()
	if q.r.Method == http.MethodHead {
		return nil
	}
	if s.write([]byte("retry: 2000\n\n")) != nil {
		panic(http.ErrAbortHandler)
	}
	group, ctx := errgroup.WithContext(q.r.Context())
	ctx, ended := context.WithCancel(ctx)
	group.Go(func() error {
		defer ended()
		return send(ctx, s.write)
	})
	group.Go(func() error { return s.comment(ctx) })
	if group.Wait() != nil {
		panic(http.ErrAbortHandler) // the client reconnects, with its last event
	}
	return nil
}

// sse writes server-sent events.
type sse struct {
	w       io.Writer
	control *http.ResponseController
	beat    time.Duration

	mu   sync.Mutex
	idle *time.Ticker // reset by each write
}

// comment writes a comment whenever the stream was idle, until ctx ends.
func (s *sse) comment(ctx context.Context) error {
	for {
		select {
		case <-s.idle.C:
			if err := s.write([]byte(": still here\n\n")); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// frame is an event on the wire. An envelope has no line breaks; if it had any,
// each line would still be data.
func frame(e api.Event) []byte {
	b := fmt.Appendf(nil, "id: %d\nevent: %s\n", e.Seq, e.Kind)
	for line := range bytes.SplitSeq(e.Body, []byte("\n")) {
		b = append(append(append(b, "data: "...), line...), '\n')
	}
	return append(b, '\n')
}

// write sends bytes to the client, with a write timeout.
func (s *sse) write(p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	s.idle.Reset(s.beat)
	return s.control.Flush()
}

func getOutput(ctx context.Context, q *exchange) (*reply, error) {
	stream := q.query.word("stream", "stdout", "stderr")
	offset, limit := q.query.number("offset", 0, 1<<60, 0), q.query.number("limit", 1, maxOutput, 64<<10)
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
