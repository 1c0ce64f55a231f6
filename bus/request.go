package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// ErrNoResponder reports that nobody answers requests here.
var ErrNoResponder = errors.New("no responder answers")

// Ask calls one tool or verb of the NATS service with args, a JSON object, and
// returns the envelope that answers it, be it that of an error. It waits as
// long as ctx does. The error is [ErrNoResponder] where nobody takes the
// request, [ErrUnreachable] while the server is away, and what the service
// said where it had no envelope to give. After any other error, as that of
// ctx, the request may have been carried out all the same.
func (b *Bus) Ask(ctx context.Context, tool string, args []byte) (body []byte, err error) {
	m, err := b.inside.RequestWithContext(ctx, b.API()+"."+tool, args)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrNoResponder
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected), errors.Is(err, nats.ErrConnectionClosed):
		return nil, fmt.Errorf("%w: the connection is lost", ErrUnreachable)
	case err != nil:
		return nil, fmt.Errorf("request %s: %w", tool, err)
	case len(m.Data) == 0:
		return nil, fmt.Errorf("request %s: the responder refused it: %.200q", tool, m.Header.Get(micro.ErrorHeader))
	}
	return m.Data, nil
}
