package embedded

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// stranger is a program of another user, which tries all the time to listen at the address of a server, and then asks
// clients for their credentials.
type stranger struct {
	at    string
	tries atomic.Int64
	came  chan string // what clients say
}

func (s *stranger) run(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		l, err := net.Listen("tcp", s.at)
		s.tries.Add(1)
		if err == nil {
			s.serve(ctx, l)
			return
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (s *stranger) serve(ctx context.Context, l net.Listener) {
	defer context.AfterFunc(ctx, func() { _ = l.Close() })()
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			fmt.Fprint(c, `INFO {"server_id":"x","version":"2.15.2","max_payload":8388608,"headers":true,"auth_required":true}`+
				"\r\n")
			line, _ := bufio.NewReader(c).ReadString('\n')
			select {
			case s.came <- line:
			case <-ctx.Done():
			}
		}()
	}
}

// While a server restarts its clients try to reconnect, with their passwords, to whoever listens at its address.
func TestNobodyElseListensWhileTheServerRestarts(t *testing.T) {
	t.Parallel()
	s, operator := serve(t)
	worker := bustest.Connect(t, s, WorkerUser)
	other := &stranger{at: strings.TrimPrefix(s.URL(), "nats://"), came: make(chan string)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); other.run(ctx) }()
	defer func() { stop(); <-ended }()
	for range 5 {
		tried := false
		err := s.Restart(func() error {
			before := other.tries.Load()
			tried = fixture.Poll(fixture.Patience, func() bool { return other.tries.Load() > before })
			return nil
		})
		if err != nil || !tried {
			select {
			case line := <-other.came:
				t.Fatalf("%v; a stranger gets %s", err, line)
			case <-time.After(fixture.Patience):
				t.Fatalf("%v; a stranger listens at the address", err)
			}
		}
	}
	for _, b := range []*bus.Bus{operator, worker} {
		bustest.Until(t, "a client does not reconnect", b.Connected)
	}
	if at := worker.Inside().ConnectedAddr(); at != "pipe" {
		t.Errorf("the worker is connected to %q", at)
	}
	select {
	case line := <-other.came:
		t.Errorf("a stranger gets %s", line)
	default:
	}
}

// Once a server has stopped, another one may have its address.
func TestWorkerOfAStoppedServerConnectsToNobody(t *testing.T) {
	t.Parallel()
	s, _ := serve(t)
	s.Stop()
	l, err := listen(strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c, err := s.InProcessConn(); err == nil {
		_ = c.Close()
		t.Errorf("it connects to %s", c.RemoteAddr())
	}
}
