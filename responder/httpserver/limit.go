package httpserver

import (
	"container/list"
	"context"
	"net"
	"sync"
)

// limit bounds the open connections of a listener. At the bound, a new
// connection replaces the one that has been idle, or unauthenticated, for the
// longest time, which is closed: a client that opens many connections and sends
// nothing, or sends slowly, cannot lock others out. If all connections are
// serving authenticated requests, Accept waits until one ends.
func limit(l net.Listener, maxOpen int) *limited {
	return &limited{Listener: l, maxOpen: maxOpen, freed: make(chan struct{}, 1), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	maxOpen int

	mu      sync.Mutex
	open    int
	waiting list.List // of *counted: connections that serve no authenticated request, oldest first

	freed  chan struct{} // a connection may have been closed
	closed chan struct{}
	once   sync.Once
}

func (l *limited) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		if admitted := l.admit(c); admitted != nil {
			return admitted, nil
		}
		select {
		case <-l.freed:
		case <-l.closed:
			_ = c.Close()
			return nil, net.ErrClosed
		}
	}
}

// admit counts a connection, and returns nil if the limit is reached and none
// can be closed.
func (l *limited) admit(c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.maxOpen {
		oldest := l.waiting.Front()
		if oldest == nil {
			return nil
		}
		out := l.waiting.Remove(oldest).(*counted)
		l.leave(out)
		_ = out.Conn.Close() // its reader gets an error, and closes it again
	}
	l.open++
	admitted := &counted{Conn: c, of: l, held: true}
	admitted.element = l.waiting.PushBack(admitted)
	return admitted
}

// leave removes a connection from the count. The caller holds the lock.
func (l *limited) leave(c *counted) {
	if !c.held {
		return
	}
	c.held = false
	l.open--
	if c.element != nil {
		l.waiting.Remove(c.element)
		c.element = nil
	}
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// counted is a connection that is counted until it is closed.
type counted struct {
	net.Conn
	of      *limited
	held    bool          // it is counted
	element *list.Element // in waiting; nil: it serves an authenticated request
}

func (c *counted) Close() error {
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// busy protects a connection while it serves an authenticated request, until
// done is called.
func (c *counted) busy() (done func()) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.element != nil {
		c.of.waiting.Remove(c.element)
		c.element = nil
	}
	return func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		if !c.held || c.element != nil {
			return
		}
		c.element = c.of.waiting.PushBack(c)
		select { // it may be closed now in favor of another one
		case c.of.freed <- struct{}{}:
		default:
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
