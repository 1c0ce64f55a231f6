package natsagents

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/tidwall/gjson"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// prompt answers a prompt: it queues a run, or sends a message to one, and streams what comes of it.
func (s *server) prompt(i *instance, c call) {
	r, err := read(c.body)
	t := &stream{call: c, profile: i.profile(), events: r.Events}
	var q api.Submission
	var text string
	session := t.profile.Session != ""
	if err == nil {
		t.live, t.keep = t.profile.Live && (r.Live == nil || *r.Live), session || r.Keep
		text, err = r.text(t.live)
	}
	switch {
	case err != nil:
	case session:
		err = r.none()
	default:
		q, err = s.Service.Prompt(t.profile.Profile, r.submission(text), r.Live)
	}
	if err != nil && !session && t.again(r) {
		err = nil
	}
	if err != nil {
		c.fail(err, "")
		return
	}
	_ = t.send(message("status", "ack")) // of a stream that is lost the run is queued all the same
	if session {
		var free func()
		if free, err = s.talk(t.profile.Session); err == nil {
			defer free()
			err = t.next(text)
		}
	} else {
		err = t.begin(q, r)
	}
	if err != nil {
		c.fail(err, "")
		return
	}
	about := map[string]any{"run": t.run, "seq": t.pos}
	if t.keep {
		about["session"], about["prompt"] = t.profile.Token(), subjectOf("prompt", t.profile)
	}
	_ = t.send(message("linesman.run", about))
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

// again finds the run of a prompt that was carried out before with its key, whatever else holds now.
func (t *stream) again(r request) bool {
	once, err := r.once()
	if err != nil {
		return false
	}
	done, again := t.s.Service.Again(t.profile.In(t.s.ctx), once)
	if again {
		t.of(done.Run)
	}
	return again
}

// of notes which run the stream is of.
func (t *stream) of(run string) {
	if t.run = run; t.keep {
		t.profile.Session = run
	}
}

// begin queues the run of a prompt, unless an earlier one of its key has.
func (t *stream) begin(q api.Submission, r request) (err error) {
	if t.run != "" {
		return nil
	}
	if q.Once, err = r.once(); err != nil {
		return err
	}
	done, err := t.s.Service.Begin(t.s.ctx, t.profile.Profile, q, t.s.Profiles)
	if e := api.Known(err); err != nil && e.Code == api.Validation && e.Field == api.FieldDir { // it may name others
		err = api.Invalid(api.FieldDir, "is not where tasks may work")
	}
	t.of(done.Run)
	return err
}

// next sends a prompt to its session.
func (t *stream) next(text string) error {
	ctx := t.profile.In(t.s.ctx)
	t.run = t.profile.Session
	last, err := t.last(ctx)
	if err != nil {
		return err
	}
	sent, err := t.s.Service.PromptNext(ctx, t.profile, text)
	t.pos, t.entry = last, sent.Entry
	return err
}

// last returns the sequence of the last event of the run; 0: there is none.
func (t *stream) last(ctx context.Context) (uint64, error) {
	all, err := t.s.Service.LastEvents(ctx, runs.Header{Summary: runs.Summary{
		ID: t.run, Attributes: runs.Attributes{Agent: t.profile.Agent}}}, "", 1)
	if err != nil || len(all) == 0 {
		return 0, err
	}
	return all[0].Seq, nil
}

// talk holds a session for a prompt, as its row tells of the turn only a moment later.
func (s *server) talk(session string) (free func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.talks[session] {
		return nil, &api.Error{Code: api.Conflict, Run: session, Message: "a turn of the session runs"}
	}
	s.talks[session] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.talks, session)
	}, nil
}

// errLost ends a stream of which a message could not be sent: what follows would leave a gap.
var errLost = errors.New("a message was not sent")

// errOver ends the reading of events at the end of a turn.
var errOver = errors.New("the turn has ended")

// stream is the answer to a prompt.
type stream struct {
	call
	profile    responder.LiveProfile
	run        string
	events     bool   // wanted
	live, keep bool   // as the run
	entry      uint64 // of the message that began the turn
	asked      chan []string

	mu    sync.Mutex
	lost  bool
	sent  time.Time // the last message
	state string    // the last status of the run
	pos   uint64    // of the last event
	till  uint64    // of the last event of the turn; 0: it is not known yet

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

// follow sends the texts and the states of the run until it has ended, or the turn of a session has.
func (t *stream) follow(ctx context.Context) (v runs.Header, err error) {
	f, err := t.s.Service.Follow(ctx, t.run, t.pos)
	if err != nil {
		return v, err
	}
	until := api.WaitRequest{}
	if t.keep {
		until = api.WaitRequest{Until: api.UntilTurn, After: t.entry}
	}
	t.asked = make(chan []string, 1)
	group, ctx := errgroup.WithContext(ctx)
	reading, enough := context.WithCancel(ctx)
	idle, over := context.WithCancel(ctx)
	group.Go(func() error {
		defer over()
		if err := f.Frames(reading, "prompt", frame, t.take); !errors.Is(err, errOver) {
			return err
		}
		return nil
	})
	group.Go(func() (err error) {
		defer over()
		v, err = t.s.Service.WaitUntil(ctx, t.run, t.stands, responder.Reached(until))
		if err != nil {
			return err
		}
		// The completion, and the last event of a turn, are stored before the record tells of them: if there is none,
		// it has expired.
		if v.State.Final() {
			complete, err := t.s.Service.HasCompletion(ctx, v)
			if !complete {
				enough()
			}
			return err
		}
		last, err := t.last(ctx)
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.till = last; t.pos >= last {
			enough()
		}
		return err
	})
	group.Go(func() error { return t.remind(idle) })
	group.Go(func() error { return t.query(idle) })
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
	if t.live {
		select {
		case <-t.asked: // those of before
		default:
		}
		t.asked <- v.Questions
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
	aLine    // as a message; of a live run the next text continues it
)

// lineBytes is the length from which on a text of a live run may end within a line.
const lineBytes = 1 << 10

// fullBytes is the length from which on a text may fill its event.
const fullBytes = 64<<10 - utf8.UTFMax + 1

// frame is an event as all streams of prompts share it: a line with its sequence, another one with the kind of its text
// and the text as JSON without the first quotation mark, and one with the message for those that want events.
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
		case len(text) >= lineBytes || strings.HasSuffix(text, "\n"):
			kind = aLine
		}
	}
	e.Body = api.OneLine(e.Body)
	b, err := bounds.Encode(e)
	if err != nil {
		return nil, err
	}
	out := append(strconv.AppendUint(nil, e.Seq, 10), '\n', kind)
	out = append(out, quoted[1:]...)
	out = append(out, "\n"+`{"type":"linesman.event","data":`...)
	return append(append(out, b...), "}\n"...), nil
}

// take sends frames.
func (t *stream) take(frames []byte) error {
	for len(frames) > 0 {
		at, rest, _ := bytes.Cut(frames, []byte("\n"))
		text, rest, _ := bytes.Cut(rest, []byte("\n"))
		event, after, _ := bytes.Cut(rest, []byte("\n"))
		frames = after
		kind := text[0]
		if kind != noText {
			body := []byte(`{"type":"response","data":"`)
			if t.begun && !t.full && (kind != aPiece && !t.live || !t.joins) {
				body = append(body, `\n\n`...)
			}
			t.begun = true
			if err := t.send(append(append(body, text[1:]...), '}')); err != nil {
				return err
			}
		}
		t.joins, t.full = kind == aPiece || t.live && kind == aLine, kind == fullText
		if t.events {
			if err := t.send(event); err != nil {
				return err
			}
		}
		if t.passed(at) {
			return errOver
		}
	}
	return nil
}

// passed notes that an event was sent, by its sequence, and reports whether it is the last one of the turn.
func (t *stream) passed(at []byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pos, _ = strconv.ParseUint(string(at), 10, 64)
	return t.till > 0 && t.pos >= t.till
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
	if f := t.failed(ctx, v, record); f.Error != "" {
		t.refuse(500, f)
		return
	}
	result := struct {
		Run     string        `json:"run"`
		State   runs.State    `json:"state"`
		Usage   *api.RunUsage `json:"usage,omitempty"`
		Session string        `json:"session,omitempty"` // it goes on
		Prompt  string        `json:"prompt,omitempty"`  // subject of its next prompt
	}{Run: t.run, State: runs.StateCompleted}
	if !v.State.Final() {
		if t.s.lookNow(ctx, t.profile) {
			result.Session, result.Prompt = t.profile.Token(), subjectOf("prompt", t.profile)
		}
	}
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

// failed returns the error of a run, or of a turn of a session, that is not completed.
func (t *stream) failed(ctx context.Context, v runs.Header, record *runs.Record) (f failure) {
	f = failure{Error: "tool_error", Message: "the run is " + string(v.State), Run: t.run}
	switch {
	case v.State == runs.StateCompleted, record != nil && !v.State.Final() && record.LastTurn == runs.TurnCompleted:
		return failure{}
	case v.State == runs.StateTimeout || v.State == runs.StateCancelled:
		f.Error = string(v.State)
	case !v.State.Final():
		f.Message = "the turn failed, and the session goes on"
		if t.lastStatus(ctx, v) == "turn cancelled" {
			f.Error, f.Message = string(runs.StateCancelled), "the turn was cancelled, and the session goes on"
		}
		return f
	}
	switch {
	case record == nil:
	case record.Reason == string(runs.ReasonSpawn) && record.Exit != nil && record.Exit.Why != "": // it may name others
		f.Message = "the worker does not take the task"
	default:
		f.Message = record.Summary()
	}
	return f
}

// lastStatus returns the message of the last status of a run.
func (t *stream) lastStatus(ctx context.Context, v runs.Header) string {
	all, err := t.s.Service.LastEvents(ctx, v, "status", 1)
	if err != nil || len(all) == 0 {
		return ""
	}
	return gjson.GetBytes(all[0].Body, "message").String()
}

// lookNow waits until Serve has announced what there is, and reports whether a profile or a session is.
func (s *server) lookNow(ctx context.Context, p responder.LiveProfile) (is bool) {
	answer := make(chan bool, 1)
	select {
	case s.looks <- glance{subjectOf("hb", p), answer}:
		return <-answer
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return false
}
