package a2a

import (
	"context"
	"errors"
	"iter"
	"strings"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
)

// SendStreamingMessage is SendMessage whose task is followed to its end.
func (h *Handler) SendStreamingMessage(ctx context.Context, q *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return func(each func(sdk.Event, error) bool) {
		yield := untilLeft(each)
		err := h.admit(ctx, scopeSubmit)
		if err == nil && callOf(ctx).asks(ProfileURI) {
			t, err := h.invoke(ctx, q)
			yield(orNothing(t, err))
			return
		}
		var m *message
		if err == nil {
			m, err = h.read(ctx, q)
		}
		var free func()
		if err == nil {
			free, err = h.hold(ctx)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		defer free()
		run, refused, err := h.submit(ctx, q, m)
		switch {
		case err != nil:
			yield(nil, err)
		case refused != nil:
			yield(refused, nil)
		default:
			v, err := h.find(ctx, sdk.TaskID(run))
			if err == nil {
				err = h.follow(ctx, v, m.wanted(q), yield)
			}
			if err != nil {
				yield(nil, err)
			}
		}
	}
}

// untilLeft tells a client nothing more once it has left: whatever goes wrong
// then is no news to it, and a loop that was left must not be gone on with.
func untilLeft(yield func(sdk.Event, error) bool) func(sdk.Event, error) bool {
	left := false
	return func(e sdk.Event, err error) bool {
		left = left || !yield(e, err)
		return !left
	}
}

// orNothing keeps a nil task from being an event.
func orNothing(t *sdk.Task, err error) (sdk.Event, error) {
	if err != nil {
		return nil, err
	}
	return t, nil
}

// SubscribeToTask follows a task that has not ended: first as it stands, then
// all that its agent has said so far and says, and each change of its state.
// Who was cut off asks again, and has lost nothing.
func (h *Handler) SubscribeToTask(ctx context.Context, q *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return func(each func(sdk.Event, error) bool) {
		yield := untilLeft(each)
		err := h.admit(ctx, scopeRead)
		var v responder.View
		if err == nil {
			v, err = h.find(ctx, q.ID)
		}
		if err == nil && v.State.Final() {
			err = fail(sdk.ErrUnsupportedOperation, "the task has ended, it is "+string(v.State)+": nothing comes of it any more")
		}
		var free func()
		if err == nil {
			free, err = h.hold(ctx)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		defer free()
		if err := h.follow(ctx, v, wanted{artifacts: true}, yield); err != nil {
			yield(nil, err)
		}
	}
}

// errLeft ends a stream whose client has left.
var errLeft = errors.New("the client has left")

// follow tells a task as it stands and then what becomes of it, up to its
// end. A context that the task gets meanwhile shows in later answers: within a
// stream it keeps its name. The error is one that the client is to see.
func (h *Handler) follow(ctx context.Context, v responder.View, w wanted, yield func(sdk.Event, error) bool) error {
	v, record, err := h.record(ctx, v)
	if err != nil {
		return err
	}
	first, err := h.describe(ctx, v, record, w)
	if err != nil {
		return err
	}
	w.context = first.ContextID
	if !yield(first, nil) || first.Status.State.Terminal() {
		return nil
	}
	s := &stream{h: h, w: w, info: first.TaskInfo(), yield: yield, view: v, state: first.Status.State, governance: governance(v, record)}
	texts, views := make(chan string), make(chan responder.View)
	group, ctx := errgroup.WithContext(ctx)
	events, enough := context.WithCancel(ctx)
	defer enough()
	group.Go(func() error {
		defer close(texts)
		err := h.Service.EachEvent(events, v, true, func(e api.Event) error {
			text, ok := spoken(e)
			if !ok {
				return nil
			}
			select {
			case texts <- text:
				return nil
			case <-events.Done():
				return events.Err()
			}
		})
		if events.Err() != nil {
			return nil
		}
		return err
	})
	group.Go(func() error {
		defer close(views)
		_, err := h.Service.Wait(ctx, v.ID, func(v responder.View) {
			select {
			case views <- v:
			case <-ctx.Done():
			}
		})
		if ctx.Err() != nil {
			return errLeft
		}
		return err
	})
	group.Go(func() error { return s.copy(ctx, texts, views, enough) })
	switch err := group.Wait(); {
	case err == nil:
		if err := s.end(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, errLeft) {
			return err
		}
		return nil
	case errors.Is(err, errLeft):
		return nil
	default:
		return h.explain("stream", err)
	}
}

// stream is what a client was told of a task.
type stream struct {
	h     *Handler
	w     wanted
	info  sdk.TaskInfo
	yield func(sdk.Event, error) bool
	view  responder.View
	state sdk.TaskState
	text  string // the last one that was told
	first string // piece of the message that it belongs to
	begun bool   // one was

	governance string // of the run
}

// copy tells what comes until the run has ended and all of its events were
// read. The completion of a run that has ended is stored before its record says
// so: if it is not there, it has aged out, and nothing more will come.
func (s *stream) copy(ctx context.Context, texts <-chan string, views <-chan responder.View, enough func()) error {
	for texts != nil || views != nil {
		var event sdk.Event
		select {
		case text, more := <-texts:
			if !more {
				texts = nil
				continue
			}
			event = s.said(text)
		case v, more := <-views:
			if !more {
				views = nil
				continue
			}
			if v.State.Final() {
				s.view = v
				complete, err := s.h.Service.HasCompletion(ctx, v)
				if err != nil {
					return err
				}
				if !complete {
					enough()
				}
				continue
			}
			var err error
			if event, err = s.changed(v); err != nil {
				return err
			}
		case <-ctx.Done():
			return errLeft
		}
		if event != nil && !s.yield(event, nil) {
			return errLeft
		}
	}
	return nil
}

// said is a piece of what the agent says.
func (s *stream) said(text string) sdk.Event {
	e := sdk.NewArtifactUpdateEvent(s.info, resultID, sdk.NewTextPart(text))
	e.Artifact.Name, e.Append = "result", s.begun
	if len(s.text) < fullPiece {
		s.first = text
	}
	s.text, s.begun = text, true
	return e
}

// fullPiece is from how many bytes on a text is one that an event could hold no
// more of: the next goes on with it.
const fullPiece = 64<<10 - utf8.UTFMax + 1

// told reports whether the agent's last word was told. One that is longer than
// an event came in pieces, and the final text is its beginning.
func (s *stream) told(final string) bool {
	const enough = 32 << 10 // of two texts, to be the same
	return s.begun && (final == s.text || len(final) > enough && strings.HasPrefix(s.first, final[:enough]))
}

// changed is how the run stands now, nil where that was told.
func (s *stream) changed(v responder.View) (sdk.Event, error) {
	old := s.view
	s.view = v
	if stateOf(v.State) == s.state && v.Activity == old.Activity && v.Cancel == old.Cancel && v.Lost == old.Lost && v.Position == old.Position && v.Plan == old.Plan {
		return nil, nil
	}
	s.state = stateOf(v.State)
	t := &sdk.Task{ID: s.info.TaskID, ContextID: s.info.ContextID}
	v.Governance = s.governance
	now, err := status(t, v, nil, s.w.echo)
	return &sdk.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: now}, err
}

// end tells the result, as far as it was not told, and the final state.
func (s *stream) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s.w.history = nil
	t, err := s.h.task(ctx, s.view, s.w)
	if err != nil {
		return err
	}
	for _, a := range t.Artifacts {
		e := &sdk.TaskArtifactUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Artifact: a, Append: s.begun, LastChunk: true}
		if final, ok := a.Parts[0].Content.(sdk.Text); ok && s.told(string(final)) {
			a.Parts = a.Parts[1:]
		}
		if !s.yield(e, nil) {
			return errLeft
		}
	}
	s.yield(&sdk.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: t.Status}, nil)
	return nil
}
