package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// socket is where the servers of a [Server] listen, one after the other. It stays open when none runs: another user
// of the machine could listen there meanwhile, and clients that reconnect send their passwords to whoever does. They
// wait for the next server.
type socket struct{ *net.TCPListener }

// listen opens a socket at HOST:PORT. A program that is being started by this process has a copy of each open socket
// until it runs, also of one that was closed meanwhile: such a copy is waited for.
func listen(address string) (*socket, error) {
	config := net.ListenConfig{KeepAlive: -1} // as NATS does: it has pings of its own
	l, err := config.Listen(context.Background(), "tcp", address)
	for tries := 0; errors.Is(err, syscall.EADDRINUSE) && tries < 20; tries++ {
		time.Sleep(10 * time.Millisecond)
		l, err = config.Listen(context.Background(), "tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrListen, address, err)
	}
	return &socket{l.(*net.TCPListener)}, nil
}

// serve makes a server that has started accept connections until it is shut down. The server has no option for it, but
// uses a listener that it has.
func (k *socket) serve(s *server.Server) error {
	if err := k.SetDeadline(time.Time{}); err != nil { // it was closed
		return err
	}
	set := false
	guarded(reflect.ValueOf(s), func(s reflect.Value) {
		if l := at[net.Listener](field(s, "listener")); l != nil {
			*l, set = &turn{socket: k}, true
		}
	})
	if !set {
		return errors.New("this version of the NATS server opens a socket of its own")
	}
	s.AcceptLoop(make(chan struct{}))
	return nil
}

// turn is the socket as the listener of one server, which closes it.
type turn struct {
	*socket
	over atomic.Bool
}

func (t *turn) Accept() (net.Conn, error) {
	c, err := t.AcceptTCP()
	switch {
	case err == nil:
		return c, nil
	case t.over.Load():
		return nil, net.ErrClosed
	}
	return nil, err
}

// Close ends Accept, and leaves the socket open.
func (t *turn) Close() error {
	t.over.Store(true)
	return t.SetDeadline(time.Now())
}
