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
	Do     string `json:"do"` // cancel
	Reason string `json:"reason,omitempty"`
}

type reply struct {
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
}

// Listen receives requests to cancel a run, for the owner of the run, and calls cancel,
// with a timeout of ten seconds. Stop ends that.
func (b *Bus) Listen(run string, cancel func(ctx context.Context, reason string) error) (stop func(), err error) {
	sub, err := b.inside.Subscribe(b.ControlSubject(run), func(m *nats.Msg) {
		go func() { // do not block the next request
			var c command
			r := reply{}
			if json.Unmarshal(m.Data, &c) != nil || c.Do != "cancel" {
				r.Error = "unknown command"
			} else {
				ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
				defer done()
				err := cancel(ctx, c.Reason)
				if r.Done = err == nil; err != nil {
					r.Error = "failed"
				}
			}
			body, err := json.Marshal(r)
			if err == nil {
				_ = m.Respond(body) // the requester may be gone
			}
		}()
	})
	if err != nil {
		return nil, fmt.Errorf("run %s: listen: %w", run, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// AskCancel asks the owner of a run to cancel it, and returns when the log contains
// that. The error is [runs.ErrNoOwner] if nobody answers.
func (b *Bus) AskCancel(ctx context.Context, run, reason string) error {
	body, err := json.Marshal(command{"cancel", reason})
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, 5*time.Second)
	defer done()
	m, err := b.inside.RequestWithContext(ctx, b.ControlSubject(run), body)
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return runs.ErrNoOwner
	case err != nil:
		return fmt.Errorf("run %s: ask its owner to cancel it: %w", run, err)
	}
	var r reply
	if json.Unmarshal(m.Data, &r) != nil || !r.Done {
		return fmt.Errorf("run %s: its owner did not cancel it", run)
	}
	return nil
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
