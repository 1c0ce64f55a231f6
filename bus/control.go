package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"strconv"

	"github.com/linesman/linesman/runs"
)

// command is a request to the owner of a run.
type command struct {
	Do     string        `json:"do"` // cancel, unfollow or answer
	Reason string        `json:"reason,omitempty"`
	Answer *runs.Command `json:"answer,omitempty"`
}

type reply struct {
	Done   bool         `json:"done"`
	Error  string       `json:"error,omitempty"`
	Ruling *runs.Ruling `json:"ruling,omitempty"`
}

// Owner carries out what is asked of the owner of a run.
type Owner = interface {
	Cancel(ctx context.Context, reason string) error
	Unfollow(ctx context.Context) error
	Answer(ctx context.Context, c runs.Command) (runs.Ruling, error)
}

// Listen receives requests to the owner of a run. Each call has ten
// seconds. Stop ends that.
func (b *Bus) Listen(run string, owner Owner) (stop func(), err error) {
	sub, err := b.inside.Subscribe(b.ControlSubject(run), func(m *nats.Msg) {
		go func() { // do not block the next request
			ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
			defer done()
			if body, err := json.Marshal(carryOut(ctx, owner, m.Data)); err == nil {
				_ = m.Respond(body) // the requester may be gone
			}
		}()
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: listen: %w", run, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

func carryOut(ctx context.Context, owner Owner, request []byte) (r reply) {
	var c command
	err := json.Unmarshal(request, &c)
	switch {
	case err == nil && c.Do == doCancel:
		err = owner.Cancel(ctx, c.Reason)
	case err == nil && c.Do == doUnfollow:
		err = owner.Unfollow(ctx)
	case err == nil && c.Do == doAnswer && c.Answer != nil:
		var ruling runs.Ruling
		ruling, err = owner.Answer(ctx, *c.Answer)
		r.Ruling = &ruling
	default:
		return reply{Error: "unknown command"}
	}
	switch r.Done = err == nil; {
	case errors.Is(err, runs.ErrFilling):
		r.Error = notNow
	case err != nil:
		r.Error = "failed"
	}
	return r
}

// The commands.
const (
	doCancel   = "cancel"
	doUnfollow = "unfollow"
	doAnswer   = "answer"
)

const notNow = "not now" // the error in a reply for [runs.ErrFilling]

// AskCancel asks the owner of a run to cancel it, and returns when the log contains
// that. The error is [runs.ErrNoOwner] if no owner answers.
func (b *Bus) AskCancel(ctx context.Context, run, reason string) error {
	_, err := b.askOwner(ctx, run, command{Do: doCancel, Reason: reason})
	return err
}

// AskUnfollow asks the owner of the run of a session to follow it no longer, and returns when
// the run has ended. The error is [runs.ErrNoOwner] if no owner answers.
func (b *Bus) AskUnfollow(ctx context.Context, run string) error {
	_, err := b.askOwner(ctx, run, command{Do: doUnfollow})
	return err
}

// AskAnswer gives the answer to a question to the owner of a live run, and returns what became of it. The error is
// [runs.ErrNoOwner] if no owner answers; it may have the answer all the same. It is [runs.ErrFilling] if the owner can
// not rule on it now.
func (b *Bus) AskAnswer(ctx context.Context, run string, c runs.Command) (runs.Ruling, error) {
	r, err := b.askOwner(ctx, run, command{Do: doAnswer, Answer: &c})
	if err == nil && r.Ruling == nil {
		err = fmt.Errorf("run %s: its owner did not rule on the answer", run)
	}
	if err != nil {
		return runs.Ruling{}, err
	}
	return *r.Ruling, nil
}

func (b *Bus) askOwner(ctx context.Context, run string, c command) (r reply, err error) {
	body, err := json.Marshal(c)
	if err != nil {
		return r, err
	}
	ctx, done := context.WithTimeout(ctx, 5*time.Second)
	defer done()
	m, err := b.inside.RequestWithContext(ctx, b.ControlSubject(run), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return r, runs.ErrNoOwner
	case err != nil:
		return r, fmt.Errorf("run %s: ask its owner to %s it: %w", run, c.Do, err)
	}
	switch err := json.Unmarshal(m.Data, &r); {
	case err == nil && r.Error == notNow:
		return r, fmt.Errorf("run %s: %w", run, runs.ErrFilling)
	case err != nil || !r.Done:
		return r, fmt.Errorf("run %s: its owner did not %s it", run, c.Do)
	}
	return r, nil
}

// ListenStop receives requests to stop the process pid, which is this one, from users
// that may publish to its subject. Stop is called after the answer. Process IDs are
// reused, so a request names the process, and uses its own server.
func (b *Bus) ListenStop(pid int, stop func()) error {
	_, err := b.inside.Subscribe(b.stopSubject(), func(m *nats.Msg) {
		if string(m.Data) != strconv.Itoa(pid) {
			return
		}
		_ = m.Respond(nil) // the requester may be gone
		_ = b.inside.Flush()
		stop()
	})
	if err != nil {
		return fmt.Errorf("listen for requests to end: %w", err)
	}
	return nil
}

// AskStop asks the process pid, which runs this server, to stop, and returns when it
// confirms that.
func (b *Bus) AskStop(ctx context.Context, pid int) error {
	if _, err := b.inside.RequestWithContext(ctx, b.stopSubject(), []byte(strconv.Itoa(pid))); err != nil {
		return fmt.Errorf("ask process %d to end: %w", pid, err)
	}
	return nil
}
