package httpserver

import (
	"context"
	"net"
	"sync"
)

// limited bounds the open connections of a listener. At the bound, a new
// connection replaces the one that has been idle, or unauthenticated, for the
// longest time, which is closed: a client that opens many connections and sends
// nothing, or sends slowly, cannot lock others out. If all connections are
// serving authenticated requests, Accept waits until one ends.
type limited struct {
	net.Listener
	maxOpen int

	mu      sync.Mutex
	changed *sync.Cond // a connection was closed or became idle, or the listener was closed
	open    map[*counted]uint64
	idle    uint64 // increases with each connection that becomes idle
	closed  bool
}

// counted is a connection that is counted until it is closed. Its number in open
// says when it became idle; 0: it serves an authenticated request.
type counted struct {
	net.Conn
	of *limited
}

func limit(l net.Listener, maxOpen int) *limited {
	bound := &limited{Listener: l, maxOpen: maxOpen, open: map[*counted]uint64{}}
	bound.changed = sync.NewCond(&bound.mu)
	return bound
}

func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.open) >= l.maxOpen {
		if l.closed {
			_ = c.Close()
			return nil, net.ErrClosed
		}
		if !l.closeOldest() {
			l.changed.Wait()
		}
	}
	admitted := &counted{c, l}
	l.idle++
	l.open[admitted] = l.idle
	return admitted, nil
}

// closeOldest closes the connection that has been idle for the longest time, and
// reports false if none is idle.
func (l *limited) closeOldest() bool {
	var oldest *counted
	for c, since := range l.open {
		if since != 0 && (oldest == nil || since < l.open[oldest]) {
			oldest = c
		}
	}
	if oldest == nil {
		return false
	}
	delete(l.open, oldest)
	_ = oldest.Conn.Close() // its reader gets an error, and closes it again
	return true
}

func (l *limited) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.changed.Broadcast()
	return l.Listener.Close()
}

func (c *counted) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	c.of.changed.Broadcast()
	return c.Conn.Close()
}

// busy protects a connection while it serves an authenticated request, until
// done is called: then it may be closed in favor of another one.
func (c *counted) busy() (done func()) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if _, held := c.of.open[c]; held {
		c.of.open[c] = 0
	}
	return func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		if _, held := c.of.open[c]; held {
			c.of.idle++
			c.of.open[c] = c.of.idle
			c.of.changed.Broadcast()
		}
	}
}

type connKey struct{}

// withConn makes the connection available in the contexts of its requests.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// busy is the busy of a request's connection.
func busy(ctx context.Context) (done func()) {
	if c, ok := ctx.Value(connKey{}).(*counted); ok {
		return c.busy()
	}
	return func() {} // a request without a connection, as in a test
}
