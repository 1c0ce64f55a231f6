package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
)

// maxUnknown is how many connections may be open that have shown no password, or an eighth of this process's file
// descriptors if that is less. Each further one replaces the oldest: everybody on the machine can connect, and the
// server waits connectTime for a password.
const maxUnknown = 1024

// socket is where the servers of a [Server] listen, one after the other. It stays open when none runs: another user
// of the machine could listen there meanwhile, and clients that reconnect send their passwords to whoever does. They
// wait for the next server.
type socket struct {
	*net.TCPListener
	log     *zap.Logger
	limiter bus.LogLimiter
	most    int

	mu      sync.Mutex
	unknown []unknownConn // the oldest first; some may have closed their connection
}

// unknownConn is a connection that has shown no password.
type unknownConn struct {
	net.Conn
	until time.Time // the server has closed it
}

// descriptors returns a part of this process's file descriptors, or most if that is less.
func descriptors(part uint64, most int) int {
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) != nil {
		return most
	}
	return int(min(uint64(most), uint64(files.Cur)/part))
}

// listen opens a socket at HOST:PORT. A program that is being started by this process has a copy of each open socket
// until it runs, also of one that was closed meanwhile: such a copy is waited for.
func listen(address string, log *zap.Logger) (*socket, error) {
	config := net.ListenConfig{KeepAlive: -1} // as NATS does: it has pings of its own
	l, err := config.Listen(context.Background(), "tcp", address)
	for tries := 0; errors.Is(err, syscall.EADDRINUSE) && tries < 20; tries++ {
		time.Sleep(10 * time.Millisecond)
		l, err = config.Listen(context.Background(), "tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("%w on %s: %w", ErrListen, address, err)
	}
	return &socket{
		TCPListener: l.(*net.TCPListener), log: log, limiter: bus.LogLimiter{Max: 1}, most: descriptors(8, maxUnknown),
	}, nil
}

// accepted counts a new connection, and closes the oldest one without a password if there are too many.
func (k *socket) accepted(c net.Conn, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	over := slices.IndexFunc(k.unknown, func(s unknownConn) bool { return now.Before(s.until) })
	if over < 0 {
		over = len(k.unknown)
	}
	k.unknown = append(slices.Delete(k.unknown, 0, over), unknownConn{c, now.Add(connectTime + time.Second)})
	if len(k.unknown) <= k.most {
		return
	}
	_ = k.unknown[0].Close() // fails if the server has closed it
	k.unknown = slices.Delete(k.unknown, 0, 1)
	if k.limiter.Allow("", now) {
		k.log.Warn("many connections show no password: the oldest ones are closed", zap.Int("connections", k.most))
	}
}

// known ends the count of a connection that has shown its password.
func (k *socket) known(from net.Addr) {
	peer, ok := from.(*net.TCPAddr)
	if !ok { // a client in this process
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unknown = slices.DeleteFunc(k.unknown, func(c unknownConn) bool {
		at, ok := c.RemoteAddr().(*net.TCPAddr)
		return ok && at.Port == peer.Port && at.IP.Equal(peer.IP)
	})
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
		t.accepted(c, time.Now())
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
