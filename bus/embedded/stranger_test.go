package embedded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
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
	l, err := listen(strings.TrimPrefix(s.URL(), "nats://"), zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if c, err := s.InProcessConn(); err == nil {
		_ = c.Close()
		t.Errorf("it connects to %s", c.RemoteAddr())
	}
}

// Connections without a password, of any user of the machine, leave descriptors for files and for other clients. The
// test is not parallel: all of the process has few of them.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	const files, silent = 512, 400 // their other ends are in this process, too
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	few := before
	few.Cur = files
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
	s, b := serve(t)
	var last net.Conn
	for i := range silent {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		t.Cleanup(func() { _ = c.Close() })
		last = c
	}
	if _, err := bufio.NewReader(last).ReadString('\n'); err != nil { // those before were accepted, too
		t.Fatal(err)
	}
	bustest.Until(t, "too many connections stay", func() bool {
		return s.current().NumClients() <= files/8+b.Connections()
	})
	log, err := b.OpenLog(t.Context(), "codex", "x", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(
		t.Context(), runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run"})},
	); err != nil {
		t.Error(err)
	}
	bustest.Connect(t, s, OperatorUser)
	if f, err := os.Create(t.TempDir() + "/file"); err != nil {
		t.Error(err)
	} else {
		_ = f.Close()
	}
}

// A health check that opens and closes a connection all the time causes no warning: closed connections do not count.
func TestConnectionsWithoutAPasswordThatHaveEndedAreNoneOfMany(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.WarnLevel)
	k, at := &socket{log: zap.New(core), limiter: bus.LogLimiter{Max: 1}, most: 4}, time.Now()
	connect := func() {
		c, other := net.Pipe()
		t.Cleanup(func() { _ = errors.Join(c.Close(), other.Close()) })
		k.accepted(c, at)
	}
	for range 10 {
		connect()
		at = at.Add(2 * connectTime)
	}
	if logs.Len() > 0 || len(k.unknown) != 1 {
		t.Errorf("%d warnings, %d connections", logs.Len(), len(k.unknown))
	}
	for range 4 {
		connect()
	}
	if logs.Len() != 0 || len(k.unknown) != 4 {
		t.Errorf("%d warnings, %d connections", logs.Len(), len(k.unknown))
	}
	if connect(); logs.Len() != 1 || len(k.unknown) != 4 {
		t.Errorf("%d warnings, %d connections: want that the oldest is closed", logs.Len(), len(k.unknown))
	}
}
