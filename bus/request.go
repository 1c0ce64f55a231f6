package bus

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ErrNoResponder reports that nobody answers requests here. Nothing was done.
var ErrNoResponder = errors.New("no responder answers")

// Ask calls one tool or verb of the NATS service with args, a JSON object, and
// returns the envelope that answers it, be it that of an error. It waits as
// long as ctx does. The error is [ErrNoResponder] where nobody takes the
// request, [ErrDenied] where the user may not make it, [ErrUnreachable] where the server is away or goes away before the
// answer comes, and what the service said where it had no envelope to give.
// But for the first two of these the request may have been carried out.
func (b *Bus) Ask(ctx context.Context, tool string, args []byte) (body []byte, err error) {
	asking, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	// An answer that was on its way when the connection broke never comes.
	lost := b.inside.StatusChanged(nats.RECONNECTING, nats.CLOSED)
	var watch sync.WaitGroup
	watch.Go(func() {
		if _, broke := <-lost; broke {
			cancel(ErrUnreachable)
		}
	})
	defer watch.Wait()
	defer b.inside.RemoveStatusListener(lost)

	subject := b.API() + "." + tool
	unwatch := b.denied.watch(func(subject string) {
		cancel(fmt.Errorf("%w: the user of these keys may not use %s", ErrDenied, subject))
	}, subject, cmp.Or(b.inside.Opts.InboxPrefix, strings.TrimSuffix(nats.InboxPrefix, ".")))
	defer unwatch()

	m, err := b.inside.RequestWithContext(asking, subject, args)
	switch {
	case err == nil && len(m.Data) > 0:
		return m.Data, nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrNoResponder
	case errors.Is(context.Cause(asking), ErrDenied):
		return nil, context.Cause(asking)
	case errors.Is(context.Cause(asking), ErrUnreachable),
		errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrConnectionClosed):
		return nil, fmt.Errorf("%w: the connection is lost", ErrUnreachable)
	case err != nil:
		return nil, fmt.Errorf("request %s: %w", tool, err)
	}
	return nil, fmt.Errorf("request %s: the responder refused it: %.200q", tool, m.Header.Get(micro.ErrorHeader))
}
