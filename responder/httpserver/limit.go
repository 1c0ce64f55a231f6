package httpserver

import (
	"container/list"
	"context"
	"net"
	"sync"
)

// limit bounds the connections of a listener that are open at once. At the
// bound the next one takes the place of the one that has waited longest for a
// request of somebody who is known: it is closed. So who opens many and says
// nothing, or says it slowly, keeps nobody out. Where all are being answered
// Accept waits for one to end.
func limit(l net.Listener, most int) *limited {
	return &limited{Listener: l, most: most, freed: make(chan struct{}, 1), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	most int

	mu      sync.Mutex
	open    int
	waiting list.List // of *counted: those that are not being answered, the longest first

	freed  chan struct{} // a place may have come free
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

// admit gives a connection a place, nil where there is none to give.
func (l *limited) admit(c net.Conn) net.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.most {
		oldest := l.waiting.Front()
		if oldest == nil {
			return nil
		}
		out := l.waiting.Remove(oldest).(*counted)
		l.leave(out)
		_ = out.Conn.Close() // whoever reads from it gets an error, and closes it again
	}
	l.open++
	admitted := &counted{Conn: c, of: l, held: true}
	admitted.place = l.waiting.PushBack(admitted)
	return admitted
}

// leave takes the place of a connection. The caller has the lock.
func (l *limited) leave(c *counted) {
	if !c.held {
		return
	}
	c.held = false
	l.open--
	if c.place != nil {
		l.waiting.Remove(c.place)
		c.place = nil
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

// counted is a connection that gives its place back when it is closed.
type counted struct {
	net.Conn
	of    *limited
	held  bool          // it has a place
	place *list.Element // among those that wait; nil: it is being answered
}

func (c *counted) Close() error {
	c.of.mu.Lock()
	c.of.leave(c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// busy keeps the place of a connection while somebody who is known is being
// answered on it, until done is called.
func (c *counted) busy() (done func()) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.place != nil {
		c.of.waiting.Remove(c.place)
		c.place = nil
	}
	return func() {
		c.of.mu.Lock()
		defer c.of.mu.Unlock()
		if !c.held || c.place != nil {
			return
		}
		c.place = c.of.waiting.PushBack(c)
		select { // it may be let go now for another one
		case c.of.freed <- struct{}{}:
		default:
		}
	}
}

type connKey struct{}

// withConn lets a request find its connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// busy is that of a request's connection.
func busy(ctx context.Context) (done func()) {
	if c, ok := ctx.Value(connKey{}).(*counted); ok {
		return c.busy()
	}
	return func() {} // a request that came over none, as in a test
}
