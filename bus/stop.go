package bus

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

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
