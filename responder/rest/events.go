package rest

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
)

func getEvents(q *exchange) (*Answer, error) {
	after, limit, err := q.after()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), askTime)
	defer cancel()
	if err := q.Service.Connected(); err != nil {
		return nil, err
	}
	if q.stream {
		events, err := q.Service.Follow(ctx, q.run(), after)
		if err != nil {
			return nil, err
		}
		return nil, q.streamEvents(events)
	}
	page, err := q.Service.Events(ctx, q.run(), after, int(limit), maxEventBytes)
	if err != nil {
		return nil, err
	}
	return &Answer{Status: http.StatusOK, Body: &page}, nil
}

// after returns where to begin, and the size of a page. A reconnecting client
// sends its last event in a header.
func (q *exchange) after() (after uint64, limit int64, err error) {
	const most = 1 << 62
	n, err := q.query.number("after", 0, most, 0)
	if err != nil {
		return 0, 0, err
	}
	if limit, err = q.query.number("limit", 1, maxEvents, 100); err != nil {
		return 0, 0, err
	}
	if text := q.r.Header.Get("Last-Event-ID"); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 || n > most {
			return 0, 0, invalid("Last-Event-ID", "must be the id of an event of this stream")
		}
	}
	return uint64(n), limit, nil
}

// streamEvents writes events as they arrive, until the run's completion. It
// returns an error only before anything was written.
func (q *exchange) streamEvents(events *responder.Follow) error {
	if events.Ended {
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
	s := &sse{w: q.w, control: http.NewResponseController(q.w)}
	if q.r.Method == http.MethodHead {
		return nil
	}
	if s.write([]byte("retry: 2000\n\n")) != nil {
		panic(http.ErrAbortHandler)
	}
	group, ctx := errgroup.WithContext(q.r.Context())
	stored := make(chan api.Event)
	group.Go(func() error {
		defer close(stored)
		return events.Each(ctx, func(e api.Event) error {
			select {
			case stored <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	group.Go(func() error { return s.copy(stored, q.Beat) })
	if group.Wait() != nil {
		panic(http.ErrAbortHandler) // the client reconnects, with its last event
	}
	return nil
}

// sse writes server-sent events.
type sse struct {
	w       io.Writer
	control *http.ResponseController
	buffer  bytes.Buffer
}

// copy writes events as they arrive, and a comment whenever the stream is idle.
func (s *sse) copy(events <-chan api.Event, beat time.Duration) error {
	silence := time.NewTicker(beat)
	defer silence.Stop()
	for {
		select {
		case e, more := <-events:
			if !more {
				return nil
			}
			silence.Reset(beat)
			if err := s.write(s.frame(e)); err != nil {
				return err
			}
		case <-silence.C:
			if err := s.write([]byte(": still here\n\n")); err != nil {
				return err
			}
		}
	}
}

// frame is an event on the wire. An envelope has no line breaks; if it had any,
// each line would still be data.
func (s *sse) frame(e api.Event) []byte {
	s.buffer.Reset()
	s.buffer.WriteString("id: " + strconv.FormatUint(e.Seq, 10) + "\nevent: " + e.Kind + "\n")
	for line := range bytes.SplitSeq(e.Body, []byte("\n")) {
		s.buffer.WriteString("data: ")
		s.buffer.Write(line)
		s.buffer.WriteByte('\n')
	}
	s.buffer.WriteByte('\n')
	return s.buffer.Bytes()
}

// write sends bytes to the client, with a write timeout.
func (s *sse) write(p []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return s.control.Flush()
}
