package bus

import (
	"context"
	"errors"
	"net/http"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// IsAway reports whether an error means that the server, or its streams, gave
// no answer: that the same may succeed once they are back.
func IsAway(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return api.Code >= http.StatusInternalServerError
	}
	for _, away := range []error{
		ErrUnreachable, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, nats.ErrConnectionReconnecting,
		nats.ErrReconnectBufExceeded, nats.ErrDisconnected, nats.ErrStaleConnection,
	} {
		if errors.Is(err, away) {
			return true
		}
	}
	return false
}
