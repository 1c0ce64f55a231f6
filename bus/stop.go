package bus

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
)

// ListenStop lets whoever may publish everything end the process pid, which is
// this one: stop is called once it was answered. The number of a process that
// is gone is given again, so a request names the one that it means, and reaches
// it over its own server.
func (b *Bus) ListenStop(pid int, stop func()) error {
	_, err := b.inside.Subscribe(b.StopSubject(), func(m *nats.Msg) {
		if string(m.Data) != strconv.Itoa(pid) {
			return
		}
		_ = m.Respond(nil) // whoever asked may have gone
		_ = b.inside.Flush()
		stop()
	})
	if err != nil {
		return fmt.Errorf("listen for requests to end: %w", err)
	}
	return nil
}

// AskStop asks the process pid, whose server this is, to end. It returns once
// that is about to.
func (b *Bus) AskStop(ctx context.Context, pid int) error {
	if _, err := b.inside.RequestWithContext(ctx, b.StopSubject(), []byte(strconv.Itoa(pid))); err != nil {
		return fmt.Errorf("ask process %d to end: %w", pid, err)
	}
	return nil
}
