package natsagents

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// prompt answers a prompt: it queues a run, and streams what comes of it.
func (s *server) prompt(i *instance, c call) {
	q, events, err := read(c.body)
	p := i.profile().Profile
	if err == nil {
		q, err = s.Service.Prompt(p, q)
	}
	if err != nil {
		c.fail(err, "")
		return
	}
	t := &stream{call: c, events: events}
	_ = t.send(message("status", "ack")) // of a stream that is lost the run is queued all the same
	done, err := s.Service.Queue(p.In(s.ctx), q)
	if e := api.Known(err); err != nil && e.Code == api.Validation && e.Field == api.FieldDir { // it may name others
		err = api.Invalid(api.FieldDir, "is not where tasks may work")
	}
	if err != nil {
		c.fail(err, "")
		return
	}
	t.run = done.Run
	_ = t.send(message("linesman.run", map[string]any{"run": t.run, "seq": 0}))
	v, err := t.follow(s.ctx)
	switch {
	case errors.Is(err, errLost):
		c.count(500)
	case s.ctx.Err() != nil:
		c.refuse(500, failure{Error: "unavailable", Message: "this responder stops, the run continues", Run: t.run})
	case err != nil:
		c.fail(err, t.run)
	default:
		t.finish(v)
	}
}

// errLost ends a stream of which a message could not be sent: what follows would leave a gap.
var errLost = errors.New("a message was not sent")

// stream is the answer to a prompt.
type stream struct {
	call
	run    string
	events bool // wanted

	mu    sync.Mutex
	lost  bool
	sent  time.Time // the last message
	state string    // the last status of the run

	// Of the texts:
	begun bool // one was sent
	joins bool // the next text of a message in pieces continues the last one
	full  bool // so does any text
}

// message is a message of a stream. Data is a value of JSON.
func message(kind string, data any) []byte {
	return runs.Encode(struct {
		Type string `json:"type"`
		Data any    `json:"data"`
	}{kind, data})
}

func (t *stream) send(body []byte) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sent = time.Now(); t.lost {
		return errLost
	}
	if err := t.s.Conn.Publish(t.reply, body); err != nil {
		t.lost = true
		return errLost
	}
	return nil
}

// follow sends the texts and the states of the run until it has ended.
func (t *stream) follow(ctx context.Context) (v runs.Header, err error) {
	f, err := t.s.Service.Follow(ctx, t.run, 0)
	if err != nil {
		return v, err
	}
	group, ctx := errgroup.WithContext(ctx)
	reading, enough := context.WithCancel(ctx)
	idle, over := context.WithCancel(ctx)
	group.Go(func() error {
		defer over()
		return f.Frames(reading, "prompt", frame, t.take)
	})
	group.Go(func() (err error) {
		defer over()
		v, err = t.s.Service.Wait(ctx, t.run, func(v runs.Header) { t.stands(v) })
		if err != nil {
			return err
		}
		// The completion is stored before the record says that the run has ended: if there is none, it has expired.
		complete, err := t.s.Service.HasCompletion(ctx, v)
		if !complete {
			enough()
		}
		return err
	})
	group.Go(func() error { return t.remind(idle) })
	err = group.Wait()
	enough()
	return v, err
}

// stands sends the state of an open run if it has changed.
func (t *stream) stands(v runs.Header) {
	state := "working"
	if v.State == runs.StateQueued {
		state = "queued"
	}
	t.mu.Lock()
	news := !v.State.Final() && t.state != state
	if news {
		t.state = state
	}
	t.mu.Unlock()
	if news {
		_ = t.send(message("status", state)) // a stream that is lost ends with the next text, or the reminder
	}
}

// remind repeats the state when nothing was sent for a while: callers give up after 60 s.
func (t *stream) remind(ctx context.Context) error {
	for {
		t.mu.Lock()
		state, wait := t.state, t.s.Beat-time.Since(t.sent)
		t.mu.Unlock()
		if wait <= 0 {
			if state == "" {
				state = "queued"
			}
			if err := t.send(message("status", state)); err != nil {
				return err
			}
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// How the text of an event relates to the one before.
const (
	noText = iota + 'a'
	aMessage
	aPiece   // of a message that the agent prints in pieces
	fullText // a message, and the next text may continue it
)

// fullBytes is the length from which on a text may fill its event.
const fullBytes = 64<<10 - utf8.UTFMax + 1

// frame is an event as all streams of prompts share it: a line with the kind of its text and the text as JSON without
// the first quotation mark, and a line with the message for those that want events.
func frame(e api.Event) ([]byte, error) {
	kind, quoted := byte(noText), []byte{'"'}
	if text, ok := responder.Spoken(e); ok {
		var err error
		if quoted, err = bounds.Encode(text); err != nil {
			return nil, err
		}
		switch kind = aMessage; {
		case e.Piece:
			kind = aPiece
		case len(text) >= fullBytes:
			kind = fullText
		}
	}
	e.Body = api.OneLine(e.Body)
	b, err := bounds.Encode(e)
	if err != nil {
		return nil, err
	}
	out := append([]byte{kind}, quoted[1:]...)
	out = append(out, "\n"+`{"type":"linesman.event","data":`...)
	return append(append(out, b...), "}\n"...), nil
}

// take sends frames.
func (t *stream) take(frames []byte) error {
	for len(frames) > 0 {
		text, rest, _ := bytes.Cut(frames, []byte("\n"))
		event, after, _ := bytes.Cut(rest, []byte("\n"))
		frames = after
		kind := text[0]
		if kind != noText {
			body := []byte(`{"type":"response","data":"`)
			if t.begun && !t.full && (kind != aPiece || !t.joins) {
				body = append(body, `\n\n`...)
			}
			t.begun = true
			if err := t.send(append(append(body, text[1:]...), '}')); err != nil {
				return err
			}
		}
		t.joins, t.full = kind == aPiece, kind == fullText
		if t.events {
			if err := t.send(event); err != nil {
				return err
			}
		}
	}
	return nil
}

// endTime is how long the end of a stream may read.
const endTime = 30 * time.Second

// finish sends the result of a run, and the end.
func (t *stream) finish(v runs.Header) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.s.ctx), endTime)
	defer cancel()
	record, err := t.s.Service.Record(ctx, t.run)
	if err != nil && !api.Is(err, api.NotFound) {
		t.fail(err, t.run)
		return
	}
	if v.State != runs.StateCompleted {
		f := failure{Error: "tool_error", Message: "the run is " + string(v.State), Run: t.run}
		if v.State == runs.StateTimeout || v.State == runs.StateCancelled {
			f.Error = string(v.State)
		}
		if record != nil {
			f.Message = record.Summary()
		}
		t.refuse(500, f)
		return
	}
	result := struct {
		Run   string        `json:"run"`
		State runs.State    `json:"state"`
		Usage *api.RunUsage `json:"usage,omitempty"`
	}{Run: t.run, State: v.State}
	if record != nil {
		result.Usage = responder.Describe(v, record).Usage
		if text := t.s.Service.FinalText(ctx, record); text != "" && !t.begun {
			err = t.send(message("response", text))
		}
	}
	if api.Is(err, api.NotFound) {
		err = nil
	}
	if err == nil {
		err = t.send(message("linesman.result", result))
	}
	if err != nil { // without an end the caller knows that something is missing
		t.count(500)
		return
	}
	t.end()
	t.count(0)
}
