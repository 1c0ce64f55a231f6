package chaos

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// proxy stands between linesman and its server, and does to their connections
// what networks do.
type proxy struct {
	listener net.Listener
	to       string
	pairs    sync.WaitGroup

	mu     sync.Mutex
	conns  map[*net.TCPConn]bool // both ends of every pair
	away   bool                  // who comes is turned away
	until  int64                 // client bytes that still pass before a reset; 0: no reset is due
	resets int
	delay  time.Duration // of each piece
	slowed int           // pieces
}

// startProxy starts one on a port of its own until the test ends.
func startProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, to: to, conns: map[*net.TCPConn]bool{}}
	p.pairs.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.pairs.Wait()
	})
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.pairs.Go(func() { p.serve(client.(*net.TCPConn)) })
	}
}

// serve carries bytes both ways until one end is gone.
func (p *proxy) serve(client *net.TCPConn) {
	defer client.Close()
	conn, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	p.mu.Lock()
	turned := p.away
	if !turned {
		p.conns[client], p.conns[server] = true, true
	}
	p.mu.Unlock()
	if turned {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		p.carry(client, server, false)
		_ = client.Close()
	})
	p.carry(server, client, true)
	_ = server.Close()
	back.Wait()
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
}

// carry copies until an end is gone, or a reset is due.
func (p *proxy) carry(to, from *net.TCPConn, upstream bool) {
	buf := make([]byte, 16<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			pass, reset, delay := p.pass(int64(n), upstream)
			if delay > 0 {
				<-time.After(delay)
			}
			if _, werr := to.Write(buf[:pass]); werr != nil {
				return
			}
			if reset {
				_ = to.SetLinger(0) // a reset, not an end
				_ = from.SetLinger(0)
				_ = to.Close()
				_ = from.Close()
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				_ = to.SetLinger(0)
			}
			return
		}
	}
}

// pass says how many of n bytes go through, what follows, and after how long.
func (p *proxy) pass(n int64, upstream bool) (pass int64, reset bool, delay time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.delay > 0 {
		p.slowed++
	}
	if !upstream || p.until == 0 {
		return n, false, p.delay
	}
	if p.until > n {
		p.until -= n
		return n, false, p.delay
	}
	pass = p.until
	p.until = 0
	p.resets++
	return pass, true, p.delay
}

// cut ends all connections and turns away who comes, until mend. It returns
// how many there were.
func (p *proxy) cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = true
	for c := range p.conns {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	return len(p.conns) / 2
}

func (p *proxy) connected() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

func (p *proxy) mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = false
}

// resetAfter lets so many more bytes of the clients pass, and resets the
// connection that the last of them came by: in the middle of what it sends.
func (p *proxy) resetAfter(bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.until = bytes
}

func (p *proxy) resetsSoFar() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resets
}

// slow delays each piece of every connection; 0 ends that. It returns how many
// pieces were delayed so far.
func (p *proxy) slow(delay time.Duration) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
	return p.slowed
}
