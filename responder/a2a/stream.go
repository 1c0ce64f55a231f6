package a2a

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"golang.org/x/sync/errgroup"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// SendStreamingMessage is SendMessage with a stream of updates until the task
// ends, also while it waits for answers; of a run that is kept, until SendMessage
// returns.
func (h *handler) SendStreamingMessage(ctx context.Context, q *sdk.SendMessageRequest) iter.Seq2[sdk.Event, error] {
	return stream(func(yield func(sdk.Event) bool) error {
		if err := h.admit(ctx, neededBy(ctx, q)); err != nil {
			return err
		}
		if callsSkill(ctx, q) {
			t, err := h.invoke(ctx, q)
			if err == nil {
				yield(t)
			}
			return err
		}
		m, err := h.read(ctx, q)
		if err != nil {
			return err
		}
		free, err := h.hold(ctx)
		if err != nil {
			return err
		}
		defer free()
		run, refused, err := h.submit(ctx, q, m)
		if err != nil {
			return err
		}
		if refused != nil {
			yield(refused)
			return nil
		}
		v, err := h.find(ctx, sdk.TaskID(run))
		if err != nil {
			return err
		}
		s := &follower{h: h, w: m.wanted(q), yield: yield, seq: m.after}
		if m.keeps {
			s.until = m.settled
		}
		return s.follow(ctx, v)
	})
}

// SubscribeToTask follows an open task: first its current state, then all messages
// of its agent, earlier ones too, and each change of state. A disconnected client
// subscribes again, and loses nothing.
func (h *handler) SubscribeToTask(ctx context.Context, q *sdk.SubscribeToTaskRequest) iter.Seq2[sdk.Event, error] {
	return stream(func(yield func(sdk.Event) bool) error {
		if err := h.admit(ctx, scopeRead); err != nil {
			return err
		}
		v, err := h.find(ctx, q.ID)
		if err != nil {
			return err
		}
		if v.State.Final() {
			return fail(sdk.ErrUnsupportedOperation, "the task has ended, it is "+string(v.State)+
				": nothing comes of it any more")
		}
		free, err := h.hold(ctx)
		if err != nil {
			return err
		}
		defer free()
		return (&follower{h: h, w: wanted{artifacts: true, question: true}, yield: yield}).follow(ctx, v)
	})
}

// stream returns the events that do yields, and its error as the last one. A
// client that has disconnected gets nothing more: a stopped iteration must not
// continue.
func stream(do func(yield func(sdk.Event) bool) error) iter.Seq2[sdk.Event, error] {
	return func(each func(sdk.Event, error) bool) {
		left := false
		err := do(func(e sdk.Event) bool {
			left = left || !each(e, nil)
			return !left
		})
		if err != nil && !left {
			each(nil, err)
		}
	}
}

// errLeft ends a stream whose client has disconnected.
var errLeft = errors.New("the client has left")

// follow sends the current task and then its updates, up to its end. A context
// that the task gets meanwhile is used in later answers: within a stream the
// name stays. The error is for the client.
func (s *follower) follow(ctx context.Context, v runs.Header) error {
	v, record, err := s.h.record(ctx, v)
	if err != nil {
		return err
	}
	first, err := s.h.describe(ctx, v, record, s.w)
	if err != nil {
		return err
	}
	s.w.context = first.ContextID
	if !s.yield(first) || first.Status.State.Terminal() {
		return nil
	}
	s.info, s.view, s.state = first.TaskInfo(), v, first.Status.State
	s.governance, s.asked = governance(v, record), v.Questions[:min(len(v.Questions), 1)]
	err = s.run(ctx)
	if err == nil && !s.view.State.Final() {
		err = s.rest(ctx)
	}
	switch {
	case errors.Is(err, errLeft):
		return nil
	case err != nil:
		return s.h.explain("follow the run", err)
	}
	if err := s.end(context.WithoutCancel(ctx)); !errors.Is(err, errLeft) {
		return err
	}
	return nil
}

// rest sends what the agent has said before the state in which the stream ends.
func (s *follower) rest(ctx context.Context) error {
	const most = 1 << 20 // bytes of a page
	for {
		page, err := s.h.Service.Events(ctx, s.view.ID, s.seq, 1000, most)
		if err != nil || page.Next == s.seq {
			return err
		}
		for _, e := range page.Events {
			if text, ok := responder.Spoken(e); ok && !s.yield(s.said(text)) {
				return errLeft
			}
		}
		s.seq = page.Next
	}
}

// run sends the updates of the task until its run has ended, or the stream ends before.
func (s *follower) run(ctx context.Context) error {
	first, texts, views := s.view, make(chan []text), make(chan runs.Header)
	from := s.seq
	group, ctx := errgroup.WithContext(ctx)
	events, enough := context.WithCancel(ctx)
	defer enough()
	group.Go(func() error {
		defer close(texts)
		f, err := s.h.Service.Follow(events, first.ID, from)
		if err == nil {
			err = f.Frames(events, "text", frame, func(frames []byte) error {
				select {
				case texts <- textsOf(frames):
					return nil
				case <-events.Done():
					return events.Err()
				}
			})
		}
		if events.Err() != nil {
			return nil
		}
		return err
	})
	group.Go(func() error {
		defer close(views)
		_, err := s.h.Service.WaitUntil(ctx, first.ID, func(v runs.Header) {
			select {
			case views <- v:
			case <-ctx.Done():
			}
		}, s.over)
		if ctx.Err() != nil {
			return errLeft
		}
		return err
	})
	group.Go(func() error { return s.copy(ctx, texts, views, enough) })
	return group.Wait()
}

// follower is the state of a stream: what was sent to the client.
type follower struct {
	h     *handler
	w     wanted
	info  sdk.TaskInfo
	yield func(sdk.Event) bool
	until func(runs.Header) bool // when the stream ends before the task; nil: never
	view  runs.Header
	seq   uint64 // of the last event with a text that was sent
	state sdk.TaskState
	tail  []byte // end of the texts that were sent, at most 2*maxTail bytes
	last  int    // length of the last text
	first string // first piece of its message
	begun bool   // a text was sent

	governance string   // of the run
	asked      []string // questions that were sent, of those that were open in view
}

// over reports whether the stream has the last state.
func (s *follower) over(v runs.Header) bool { return v.State.Final() || s.until != nil && s.until(v) }

// copy sends events until the run has ended and all of its events were read.
// The completion of an ended run is stored before its record says so: if it is
// missing, it has expired, and nothing more will come.
func (s *follower) copy(ctx context.Context, texts <-chan []text, views <-chan runs.Header, enough func()) error {
	for texts != nil || views != nil {
		select {
		case some, more := <-texts:
			if !more {
				texts = nil
				continue
			}
			for _, t := range some {
				if s.seq = t.seq; !s.yield(s.said(t.text)) {
					return errLeft
				}
			}
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
			if s.over(v) {
				s.view = v
				enough()
				continue
			}
			if err := s.changed(ctx, v); err != nil {
				return err
			}
		case <-ctx.Done():
			return errLeft
		}
	}
	return nil
}

// text is a text of the agent.
type text struct {
	seq  uint64
	text string
}

// frame is an event as all streams share it: of a text its sequence, its length and itself, of any other nothing.
func frame(e api.Event) ([]byte, error) {
	said, ok := responder.Spoken(e)
	if !ok {
		return []byte{}, nil
	}
	b := binary.AppendUvarint(binary.AppendUvarint(nil, e.Seq), uint64(len(said)))
	return append(b, said...), nil
}

// textsOf are the texts of frames.
func textsOf(frames []byte) (all []text) {
	number := func() uint64 {
		n, size := binary.Uvarint(frames)
		frames = frames[size:]
		return n
	}
	for len(frames) > 0 {
		t := text{seq: number()}
		size := number()
		t.text, frames = string(frames[:size]), frames[size:]
		all = append(all, t)
	}
	return all
}

// said returns the update with a piece of the agent's message.
func (s *follower) said(text string) sdk.Event {
	e := sdk.NewArtifactUpdateEvent(s.info, resultID, sdk.NewTextPart(text))
	e.Artifact.Name, e.Append = "result", s.begun
	if s.last < fullPiece {
		s.first = text
	}
	if s.tail = append(s.tail, text...); len(s.tail) > 2*maxTail {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-maxTail:]...)
	}
	s.last, s.begun = len(text), true
	return e
}

// fullPiece is the length in bytes from which on a text may fill its event: the
// next event may continue it.
const fullPiece = 64<<10 - utf8.UTFMax + 1

const maxTail = 64 << 10 // bytes: no final text is longer

// toldFinal reports whether the agent's final text was sent: in one text, or in several if
// the agent prints a message in parts. A text that is longer than an event was sent in
// pieces, and the final text is its beginning.
func (s *follower) toldFinal(final string) bool {
	const enough = 32 << 10 // equal bytes that make two texts the same
	return s.begun && (bytes.HasSuffix(s.tail, []byte(final)) ||
		len(final) > enough && strings.HasPrefix(s.first, final[:enough]))
}

// changed sends the current state of the run, unless it was sent already. While people
// are asked that is once for each question.
func (s *follower) changed(ctx context.Context, v runs.Header) error {
	old := s.view
	if v.Seq < old.Seq { // the record that the stream began with was newer
		return nil
	}
	s.view = v
	if len(v.Questions) > 0 {
		return s.ask(ctx, v)
	}
	s.asked = nil
	if stateOf(v.State) == s.state && v.Activity == old.Activity && v.CancelRequested == old.CancelRequested &&
		v.WorkerLost == old.WorkerLost && v.Before() == old.Before() && v.Plan() == old.Plan() {
		return nil
	}
	return s.send(v, nil)
}

// ask sends the questions that were not sent. One that is closed meanwhile is left out.
func (s *follower) ask(ctx context.Context, v runs.Header) error {
	sent := s.asked
	s.asked = v.Questions
	for _, id := range v.Questions {
		if slices.Contains(sent, id) {
			continue
		}
		now, record, err := s.h.record(ctx, v)
		if err != nil {
			return err
		}
		if !slices.Contains(now.Questions, id) {
			continue
		}
		now.Questions = []string{id}
		q, err := s.h.question(ctx, now, record)
		if err != nil {
			return err
		}
		if err := s.send(now, q); err != nil {
			return err
		}
	}
	return nil
}

// send sends the state of the run.
func (s *follower) send(v runs.Header, q *api.Question) error {
	s.state = stateOf(v.State)
	t := &sdk.Task{ID: s.info.TaskID, ContextID: s.info.ContextID}
	v.Governance = s.governance
	now, err := status(t, v, nil, q, s.w.echo)
	if err != nil {
		return err
	}
	if !s.yield(&sdk.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: now}) {
		return errLeft
	}
	return nil
}

// end sends the rest of the result, and the last state.
func (s *follower) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s.w.history = nil
	t, err := s.h.task(ctx, s.view, s.w)
	if err != nil {
		return err
	}
	for _, a := range t.Artifacts {
		e := &sdk.TaskArtifactUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Artifact: a, Append: s.begun, LastChunk: true}
		if final, ok := a.Parts[0].Content.(sdk.Text); ok && s.toldFinal(string(final)) {
			a.Parts = a.Parts[1:]
		}
		if len(a.Parts) > 0 && !s.yield(e) {
			return errLeft
		}
	}
	s.yield(&sdk.TaskStatusUpdateEvent{TaskID: t.ID, ContextID: t.ContextID, Status: t.Status})
	return nil
}
