package bus

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// ErrManyConnections reports that the server rejected a login because its account
// has the maximum number of connections.
var ErrManyConnections = nats.ErrMaxAccountConnectionsExceeded

// ServerInfo describes the server of the inside account.
type ServerInfo struct {
	URL        string // without a password
	Version    string
	MaxPayload int64 // bytes
}

// Server returns what the server said of itself when it was last connected.
func (b *Bus) Server() ServerInfo {
	return ServerInfo{
		URL: b.inside.ConnectedUrlRedacted(), Version: b.inside.ConnectedServerVersion(), MaxPayload: b.inside.MaxPayload(),
	}
}

// StreamUsage is the content of a stream.
type StreamUsage struct {
	Bytes, Messages uint64
	Time            time.Time // of the server's clock; zero if the server does not send it
}

// StreamUsage reads the usage of a stream of the inside account.
func (b *Bus) StreamUsage(ctx context.Context, stream string) (StreamUsage, error) {
	s, err := b.js.Stream(ctx, stream)
	if err != nil {
		return StreamUsage{}, fmt.Errorf("stream %s: %w", stream, err)
	}
	info := s.CachedInfo()
	return StreamUsage{Bytes: info.State.Bytes, Messages: info.State.Msgs, Time: info.TimeStamp}, nil
}
