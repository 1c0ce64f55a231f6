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
	Do     string `json:"do"` // cancel or unfollow
	Reason string `json:"reason,omitempty"`
}

type reply struct {
	Done  bool   `json:"done"`
	Error string `json:"error,omitempty"`
}

// Listen receives requests to cancel a run, or to follow it no longer, for the owner of the
// run, and calls cancel or unfollow, with a timeout of ten seconds. Stop ends that.
func (b *Bus) Listen(
	run string, cancel func(ctx context.Context, reason string) error, unfollow func(ctx context.Context) error,
) (stop func(), err error) {
	sub, err := b.inside.Subscribe(b.ControlSubject(run), func(m *nats.Msg) {
		go func() { // do not block the next request
			var c command
			r := reply{}
			ctx, done := context.WithTimeout(context.Background(), 10*time.Second)
			defer done()
			err := json.Unmarshal(m.Data, &c)
			switch {
			case err != nil || c.Do != doCancel && c.Do != doUnfollow:
				r.Error = "unknown command"
			case c.Do == doCancel:
				err = cancel(ctx, c.Reason)
			default:
				err = unfollow(ctx)
			}
			if r.Done = err == nil && r.Error == ""; err != nil && r.Error == "" {
				r.Error = "failed"
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

// The commands.
const (
	doCancel   = "cancel"
	doUnfollow = "unfollow"
)

// AskCancel asks the owner of a run to cancel it, and returns when the log contains
// that. The error is [runs.ErrNoOwner] if no owner answers.
func (b *Bus) AskCancel(ctx context.Context, run, reason string) error {
	return b.askOwner(ctx, run, command{doCancel, reason})
}

// AskUnfollow asks the owner of the run of a session to follow it no longer, and returns when
// the run has ended. The error is [runs.ErrNoOwner] if no owner answers.
func (b *Bus) AskUnfollow(ctx context.Context, run string) error {
	return b.askOwner(ctx, run, command{Do: doUnfollow})
}

func (b *Bus) askOwner(ctx context.Context, run string, c command) error {
	body, err := json.Marshal(c)
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
		return fmt.Errorf("run %s: ask its owner to %s it: %w", run, c.Do, err)
	}
	var r reply
	if json.Unmarshal(m.Data, &r) != nil || !r.Done {
		return fmt.Errorf("run %s: its owner did not %s it", run, c.Do)
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
