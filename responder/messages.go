package responder

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/idempotency"
	"github.com/linesman/linesman/runs"
)

// Send sends a message to a live run, or changes one that waits. The error is [api.Conflict] for a run that takes none.
func (s *Service) Send(ctx context.Context, q api.SendRequest) (api.Sent, error) {
	switch {
	case strings.TrimSpace(q.Text) == "":
		return api.Sent{}, api.Invalid("text", "is required")
	case len(q.Text) > runs.MaxMessage:
		return api.Sent{}, api.Invalid("text", fmt.Sprintf("at most %d bytes, got %d", runs.MaxMessage, len(q.Text)))
	case bounds.StringSize(q.Text) > runs.MaxMessageJSON:
		return api.Sent{}, api.Invalid("text", fmt.Sprintf("at most %d bytes as JSON", runs.MaxMessageJSON))
	case len(q.Message) > runs.MaxCommandID:
		return api.Sent{}, api.Invalid("message", fmt.Sprintf("at most %d bytes", runs.MaxCommandID))
	case !utf8.ValidString(q.Text):
		return api.Sent{}, api.Invalid("text", "must be UTF-8")
	case q.When != "" && q.When != "next" && q.When != runs.WhenNow:
		return api.Sent{}, api.Invalid("when", "must be next or now")
	case q.When != "" && q.Message != "":
		return api.Sent{}, api.Invalid("when", "is not for a message that waits")
	case len(q.Key) > maxKey:
		return api.Sent{}, api.Invalid("key", fmt.Sprintf("at most %d bytes", maxKey))
	}
	c := runs.Command{Do: runs.DoSend, Text: q.Text, Message: q.Message}
	if q.When == runs.WhenNow {
		c.When = q.When
	}
	if q.Message != "" {
		c.Do = runs.DoEdit
	}
	return s.order(ctx, q.Run, keyOf(q), c)
}

// WasSent reports whether a live run has a message with an idempotency key, as far as is known. It sends nothing.
func (s *Service) WasSent(ctx context.Context, q api.SendRequest) bool {
	if q.Key == "" {
		return false
	}
	id := keyed(ctx, q.Run, q.Key, runs.Command{Do: runs.DoSend, Text: q.Text})
	if s.cfg.Requests != nil {
		request := idempotency.Request{Caller: Caller(ctx), Key: keyOf(q).stored(ctx), Hash: id}
		if done, _, err := s.cfg.Requests.Begun(ctx, request, time.Now()); err == nil && done != nil {
			return true
		}
	}
	v, err := s.Look(ctx, q.Run)
	if err == nil { // what stops no turn has no effect, but of a known id
		_, err = s.give(ctx, v, runs.Command{ID: id, Do: runs.DoStop, Turn: -1})
	}
	return err == nil
}

const maxKey = 255 // bytes of an idempotency key

// keyed returns the id that its idempotency key gives a command.
func keyed(ctx context.Context, run, key string, c runs.Command) string {
	c.Turn = 0 // a turn that is not named may be the same one
	caller, _ := decider(ctx)
	of, request := sha256.Sum256(runs.Encode([]string{caller, run, key})), sha256.Sum256(runs.Encode(c))
	return hex.EncodeToString(of[:16]) + runs.BehindKey + hex.EncodeToString(request[:8])
}

// commandKey is the idempotency key of a command for a run; "": it is for no other one either.
type commandKey struct{ run, key string }

func keyOf(q api.SendRequest) commandKey {
	if q.Unique {
		return commandKey{"", q.Key}
	}
	return commandKey{q.Run, q.Key}
}

// stored is the key in the bucket of keys, where it is none of a submission.
func (k commandKey) stored(ctx context.Context) string {
	caller, _ := decider(ctx)
	sum := sha256.Sum256(runs.Encode([]string{caller, k.run, k.key}))
	return "command:" + hex.EncodeToString(sum[:])
}

// RunOf returns the run that a message with a key that is unique was sent to; "": to none.
func (s *Service) RunOf(ctx context.Context, key string) (string, error) {
	if s.cfg.Requests == nil {
		return "", nil
	}
	q := idempotency.Request{Caller: Caller(ctx), Key: commandKey{"", key}.stored(ctx)}
	run, err := s.cfg.Requests.RunOf(ctx, q)
	return run, s.explain("look for a message", err)
}

// Unsend takes back a message that waits.
func (s *Service) Unsend(ctx context.Context, q api.MessageRequest) (api.Sent, error) {
	switch {
	case q.Message == "":
		return api.Sent{}, api.Invalid("message", "is required")
	case len(q.Message) > runs.MaxCommandID:
		return api.Sent{}, api.Invalid("message", fmt.Sprintf("at most %d bytes", runs.MaxCommandID))
	}
	return s.order(ctx, q.Run, commandKey{}, runs.Command{Do: runs.DoUnsend, Message: q.Message})
}

// Release sends what is held since a turn was not completed.
func (s *Service) Release(ctx context.Context, q api.RunRequest) (api.Sent, error) {
	return s.order(ctx, q.Run, commandKey{}, runs.Command{Do: runs.DoRelease})
}

// StopTurn cancels the turn that runs. The run goes on.
func (s *Service) StopTurn(ctx context.Context, q api.TurnRequest) (api.Sent, error) {
	switch {
	case q.Turn < 0:
		return api.Sent{}, api.Invalid("turn", "must be from 1")
	case len(q.Key) > maxKey:
		return api.Sent{}, api.Invalid("key", fmt.Sprintf("at most %d bytes", maxKey))
	}
	return s.order(ctx, q.Run, commandKey{q.Run, q.Key}, runs.Command{Do: runs.DoStop, Turn: q.Turn})
}

// SetOptions changes the mode and the model of the session, from the next turn on.
func (s *Service) SetOptions(ctx context.Context, q api.SetRequest) (api.Sent, error) {
	switch {
	case q.Mode == "" && q.Model == "":
		return api.Sent{}, api.Invalid("mode", "or a model is required")
	case q.Mode != "" && !slices.Contains(runs.Modes, q.Mode):
		return api.Sent{}, api.Invalid("mode", "must be read-only, workspace-write or danger-full-access")
	case len(q.Model) > runs.MaxModel:
		return api.Sent{}, api.Invalid("model", fmt.Sprintf("at most %d bytes", runs.MaxModel))
	case len(q.Key) > maxKey:
		return api.Sent{}, api.Invalid("key", fmt.Sprintf("at most %d bytes", maxKey))
	}
	return s.order(ctx, q.Run, commandKey{q.Run, q.Key}, runs.Command{Do: runs.DoSet, Mode: q.Mode, Model: q.Model})
}

// End ends the run after its turn, at once if none runs. What waits is not sent.
func (s *Service) End(ctx context.Context, q api.RunRequest) (api.Sent, error) {
	return s.order(ctx, q.Run, commandKey{}, runs.Command{Do: runs.DoEnd, ID: runs.DoEnd})
}

// order stores a command of a live run that is kept; with an idempotency key, once.
func (s *Service) order(ctx context.Context, run string, k commandKey, c runs.Command) (sent api.Sent, err error) {
	v, err := s.Look(ctx, run)
	if err != nil {
		return api.Sent{}, err
	}
	if k.key != "" {
		c.ID = keyed(ctx, run, k.key, c)
	}
	stops := c.Do == runs.DoStop && c.Turn > 0 // at most once whatever its key is
	if k.key == "" || s.cfg.Requests == nil || stops {
		return s.give(ctx, v, c)
	}
	// Without a lease: the run ignores a command whose id it has, so two attempts may run at the same time.
	done, err := s.once(ctx, api.Once{Key: k.stored(ctx), Hash: c.ID}, nil, v.ID, 0, func(string, bool) (outcome, error) {
		sent, err = s.give(ctx, v, c)
		return outcome{Run: v.ID, At: time.Now().UnixMilli(), Turn: sent.Turn, Delivered: sent.Delivered,
			Entry: sent.Entry}, err
	})
	if k.run != "" && (errors.Is(err, idempotency.ErrNotStored) || api.Is(err, api.RateLimited)) { // its id has to do
		return s.give(ctx, v, c)
	}
	if err == nil && done.replayed {
		sent = s.sent(ctx, &c, api.Sent{Run: v.ID, State: v.State, Turn: done.Turn, Delivered: done.Delivered,
			Entry: done.Entry})
	}
	return sent, s.explainRun(v.ID, c.Do, err)
}

// give stores a command. Without an id it has one of its own.
func (s *Service) give(ctx context.Context, v runs.Header, c runs.Command) (api.Sent, error) {
	record, err := s.table.Record(ctx, v.ID)
	switch {
	case errors.Is(err, runs.ErrNoRun) && !v.State.Final():
		return api.Sent{}, takesNone(v.ID, "has not begun yet")
	case err != nil:
		return api.Sent{}, s.explainRun(v.ID, c.Do, err)
	case record.State == runs.StateQueued:
		return api.Sent{}, takesNone(v.ID, "has not begun yet")
	case record.State.Final() && (c.Do != runs.DoSend || c.ID == "" || record.Live == nil): // else the log may have it
		return api.Sent{}, ended(v.ID, record.State)
	case record.Live == nil || !record.Live.Keep:
		return api.Sent{}, takesNone(v.ID, "takes no messages: it was not submitted with keep")
	}
	if c.Do == runs.DoStop && c.Turn == 0 {
		c.Turn = record.Live.Turn
	}
	if c.ID == "" {
		c.ID = strings.ToLower(rand.Text()[:10]) // 50 bits, in one run
	}
	c.By, c.Via = decider(ctx)
	ruling, err := s.table.Decide(ctx, v.ID, c)
	if err != nil {
		return api.Sent{}, s.explainRun(v.ID, c.Do, err)
	}
	if !ruling.Holds {
		return api.Sent{}, refused(v.ID, &c, ruling)
	}
	return s.sent(ctx, &c, api.Sent{
		Run: v.ID, State: record.State, Turn: ruling.Turn, Delivered: ruling.Delivered, Entry: ruling.Seq,
	}), nil
}

// sent adds how the run of a command stands now.
func (s *Service) sent(ctx context.Context, c *runs.Command, sent api.Sent) api.Sent {
	if c.Do == runs.DoSend {
		sent.Message = c.ID
	}
	if now, err := s.table.Record(ctx, sent.Run); err == nil && now.Live != nil {
		q := &now.Live.Queue
		sent.State, sent.Waiting, sent.Held, sent.Turn = now.State, len(q.Messages), q.Held, max(sent.Turn, now.Live.Turn)
		sent.Waits = c.Do == runs.DoSend && q.Of(c.ID) != nil
	}
	return sent
}

func takesNone(run, why string) error {
	return &api.Error{Code: api.Conflict, Run: run, Message: "the run " + why}
}

// refused is the error of a command that has no effect.
func refused(run string, c *runs.Command, ruling runs.Ruling) error {
	e := &api.Error{Code: api.Conflict, Run: run, Reason: ruling.Why}
	switch {
	case ruling.Why == runs.WhyKey:
		e.Code, e.Field = api.KeyConflict, api.FieldKey
		e.Message = "the idempotency key belongs to another request: use a new one"
	case ruling.Why == runs.WhyFull:
		e.Message = fmt.Sprintf("%d messages, or %d bytes, wait already", runs.MaxQueued, runs.MaxQueuedBytes)
	case ruling.Why == runs.WhyEnds:
		e.Message = "the run ends with its turn"
	case c.Do == runs.DoStop:
		e.Message = fmt.Sprintf("turn %d does not run", c.Turn)
	case ruling.Why == runs.WhyCeiling:
		e.Message = "mode " + string(c.Mode) + " may do more than the mode of the task"
	case ruling.Why == runs.WhyFixed:
		e.Message = "the agent has no such mode that can be set"
	case ruling.Why == runs.WhySent:
		e.Message = "message " + c.Message + " does not wait: it was sent or taken back, or there is none"
	case c.Do == runs.DoRelease:
		e.Message = "nothing is held"
	case ruling.Why == runs.WhyUnfit:
		e.Message = "the request was refused"
	default:
		e.Code, e.Message = api.Unavailable, "the request was not stored"
	}
	return e
}

// Reached is the condition of a wait.
func Reached(q api.WaitRequest) func(v runs.Header) bool {
	return func(v runs.Header) bool {
		switch {
		case v.State.Final():
			return true
		case q.Until == "" || q.Until == api.UntilEnd || v.Seq < q.After || v.State != runs.StateInputRequired:
			return false
		}
		return q.Until == api.UntilInput || len(v.Questions) == 0 && v.Agent != runs.AgentExternal
	}
}

// conversation is how a live run that is kept stands; nil: it is none.
func conversation(record *runs.Record) *api.Conversation {
	l := record.Live
	if l == nil || !l.Keep {
		return nil
	}
	c := &api.Conversation{Turn: l.Turn, WaitsFor: l.WaitsFor, Waiting: len(l.Queue.Messages), Held: l.Queue.Held,
		Process: l.Process, Asleep: l.Asleep, Mode: l.Mode, Model: l.Model}
	switch record.LastTurn {
	case runs.TurnCompleted:
		c.Last = "completed"
	case runs.TurnFailed:
		c.Last = "failed"
	}
	return c
}

// Messages returns what waits, read from the raw log.
func (s *Service) Messages(ctx context.Context, q api.RunRequest) (api.Messages, error) {
	v, err := s.Look(ctx, q.Run)
	if err != nil {
		return api.Messages{}, err
	}
	all := api.Messages{Run: v.ID, Messages: []api.Message{}}
	record, err := s.table.Record(ctx, v.ID)
	if errors.Is(err, runs.ErrNoRun) || err == nil && record.Live == nil {
		return all, nil
	}
	if err != nil {
		return api.Messages{}, s.explainRun(v.ID, "read", err)
	}
	all.Held = record.Live.Queue.Held
	for _, m := range record.Live.Queue.Messages {
		one := api.Message{Message: m.ID}
		err := s.cfg.Streams.Entries(ctx, record.Agent, record.ID, m.Seq, false, func(_ uint64, e runs.Entry) error {
			var c runs.Command
			if e.Kind == runs.Ordered && json.Unmarshal(e.Body, &c) == nil {
				one.Text, one.By, one.Via = c.Text, c.By, c.Via
			}
			return errEnough
		})
		if err != nil && !errors.Is(err, errEnough) {
			return api.Messages{}, s.explainRun(v.ID, "read", err)
		}
		all.Messages = append(all.Messages, one)
	}
	return all, nil
}
