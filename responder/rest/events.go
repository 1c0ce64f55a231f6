package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/responder"
)

// EventPage is some events of a run.
type EventPage struct {
	Events []Event `json:"events"`
	Next   uint64  `json:"next"` // what the next page comes after
	Done   bool    `json:"done"` // nothing comes after it
}

// Event is one event, and where it is stored.
type Event struct {
	Seq  uint64          `json:"seq"`
	Kind string          `json:"kind"` // token of the kind
	Body json.RawMessage `json:"event"`
}

// errEnough ends the reading of events.
var errEnough = errors.New("enough events")

func getEvents(q *request) (*Answer, error) {
	after, limit, err := q.after()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(q.r.Context(), askTime)
	defer cancel()
	v, err := q.find(ctx)
	if err != nil {
		return nil, err
	}
	completion, last, err := q.Streams.EventsEnd(ctx, v.Agent, v.ID)
	if err != nil {
		return nil, err
	}
	if after > last {
		return nil, &Problem{
			Status: http.StatusConflict, Code: "CONFLICT", Field: "after", RunID: v.ID, State: v.State,
			Detail: "after: the stream of events does not reach that far: it was made anew; begin again without it",
		}
	}
	if q.stream {
		return nil, q.streamEvents(v, after, completion)
	}
	page := &EventPage{Events: []Event{}, Next: after, Done: completion != 0 && completion <= after}
	size := 0
	err = q.Streams.EventsAfter(ctx, v.Agent, v.ID, after, false, func(seq uint64, token string, body []byte) error {
		if size += len(body); len(page.Events) == int(limit) || size > maxEventBytes && len(page.Events) > 0 {
			return errEnough
		}
		page.Events = append(page.Events, Event{seq, token, body})
		page.Next, page.Done = seq, token == completionToken
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if err == nil && completion == 0 && over(v) { // it has aged out
		page.Done = true
	}
	return &Answer{Status: http.StatusOK, Body: page}, nil
}

// completionToken is the kind of the last event of a run.
const completionToken = "completion"

// after is where to begin, and how many events a page may have. A client that
// comes again says in a header what it has got.
func (q *request) after() (after uint64, limit int64, err error) {
	const most = 1 << 62
	n, err := q.query.number("after", 0, most, 0)
	if err != nil {
		return 0, 0, err
	}
	if limit, err = q.query.number("limit", 1, MaxEvents, 100); err != nil {
		return 0, 0, err
	}
	if text := q.r.Header.Get("Last-Event-ID"); text != "" {
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || n < 0 || n > most {
			return 0, 0, invalid("Last-Event-ID", "must be the id of an event of this stream")
		}
	}
	return uint64(n), limit, nil
}

// streamEvents writes events as they come, until the run's completion. An
// error is one that comes before anything was written.
func (q *request) streamEvents(v responder.View, after, completion uint64) error {
	if completion != 0 && completion <= after {
		q.w.WriteHeader(http.StatusNoContent) // this ends the attempts of an EventSource
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
	h.Set("X-Accel-Buffering", "no") // a proxy that gathers would hold events back
	h.Add("Vary", "Accept")
	s := &sse{w: q.w, control: http.NewResponseController(q.w)}
	if q.r.Method == http.MethodHead {
		return nil
	}
	if s.write([]byte("retry: 2000\n\n")) != nil {
		panic(http.ErrAbortHandler)
	}
	follow := completion != 0 || !over(v)
	group, ctx := errgroup.WithContext(q.r.Context())
	stored := make(chan Event)
	group.Go(func() error {
		defer close(stored)
		return q.Streams.EventsAfter(ctx, v.Agent, v.ID, after, follow, func(seq uint64, token string, body []byte) error {
			select {
			case stored <- Event{seq, token, body}:
			case <-ctx.Done():
				return ctx.Err()
			}
			if token == completionToken {
				return errEnough
			}
			return nil
		})
	})
	group.Go(func() error { return s.copy(stored, q.Beat) })
	if err := group.Wait(); err != nil && !errors.Is(err, errEnough) {
		panic(http.ErrAbortHandler) // the client comes again, and says what it has got
	}
	return nil
}

// over reports whether a run itself has ended, however its task stands that
// was gone on with, or can be. The completion of such a run is stored before
// its record says so: if it is not there, it has aged out, and no event comes.
func over(v responder.View) bool { return v.State.Final() || v.Waits() || v.Link != "" }

// sse writes server-sent events.
type sse struct {
	w       io.Writer
	control *http.ResponseController
	buffer  bytes.Buffer
}

// copy writes what comes, and a comment whenever nothing came for a while.
func (s *sse) copy(events <-chan Event, beat time.Duration) error {
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

// frame is an event on the wire. An envelope has no line breaks; were there
// any, each line would stay one of the data.
func (s *sse) frame(e Event) []byte {
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

// write hands bytes to the client, which has some time to take them.
func (s *sse) write(p []byte) error {
	_ = s.control.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := s.w.Write(p); err != nil {
		return err
	}
	return s.control.Flush()
}
