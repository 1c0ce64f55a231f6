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
)

// lastEventID is the header with the last id that a reconnecting client has received.
const lastEventID = "Last-Event-ID"

// sender writes a frame.
type sender func(frame []byte) error

// streamFrames writes what each sends, as it arrives, until each returns. A stream that has
// ended is answered with 204. It returns an error only before anything was written.
func (q *exchange) streamFrames(ended bool, each func(ctx context.Context, send sender) error) error {
	if ended {
		q.w.WriteHeader(http.StatusNoContent) // stops an EventSource from reconnecting
		return nil
	}
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
	ctx, over := context.WithCancel(ctx)
	group.Go(func() error {
		defer over()
		return each(ctx, s.write)
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

// frame is an event on the wire.
func frame(e api.Event) []byte { return frameOf(strconv.FormatUint(e.Seq, 10), e.Kind, e.Body) }

// frameOf is a server-sent event. JSON from the streams has no line breaks; if it had any,
// each line would still be data.
func frameOf(id, kind string, body []byte) []byte {
	b := fmt.Appendf(nil, "id: %s\nevent: %s\n", id, kind)
	for line := range bytes.SplitSeq(api.OneLine(body), []byte("\n")) {
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
