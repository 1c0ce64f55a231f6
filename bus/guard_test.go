package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// subscribe connects as a program that reads events does.
func subscribe(t *testing.T, s *Server) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect(s.URL(), nats.UserInfo(SubscriberUser, s.Credentials[SubscriberUser]), nats.CustomInboxPrefix(InboxPrefix(SubscriberUser)),
		nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// set changes bounds.
func (g *readerGuard) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// asks is one request to the JetStream API.
func asks(nc *nats.Conn) error {
	m, err := nc.Request("$JS.API.STREAM.INFO."+testNames.Events(), nil, time.Second)
	if err == nil && strings.Contains(string(m.Data), `"error"`) {
		err = errors.New(string(m.Data))
	}
	return err
}

// ask sends a direct get so many times, on a connection that never reads.
func ask(t *testing.T, s *Server, times int, body string) {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.(*net.TCPConn).SetReadBuffer(4 << 10)
	login, err := json.Marshal(map[string]any{"user": SubscriberUser, "pass": s.Credentials[SubscriberUser], "headers": true, "no_responders": true})
	if err != nil {
		t.Fatal(err)
	}
	inbox := InboxPrefix(SubscriberUser) + ".x"
	fmt.Fprintf(nc, "CONNECT %s\r\nSUB %s 1\r\n", login, inbox)
	for range times {
		fmt.Fprintf(nc, "PUB %s%s %s %d\r\n%s\r\n", directGet, testNames.Events(), inbox, len(body), body)
	}
}

// limited waits until the server has recorded a limit.
func limited(t *testing.T, s *Server, why string) {
	t.Helper()
	until(t, "a limit because of "+why, func() bool {
		l, err := ReadLimited(filepath.Dir(s.store))
		return err == nil && l.Why == why && l.User == SubscriberUser && l.Connections > 0
	})
}

func TestAFloodOfAPIRequestsKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	many(t, b, 1)
	flood, stop := context.WithCancel(t.Context())
	defer stop()
	over := make(chan struct{})
	for range 6 {
		nc, err := subscribe(t, s)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for flood.Err() == nil {
				for range 200 {
					_ = nc.PublishRequest("$JS.API.STREAM.INFO."+testNames.Events(), InboxPrefix(SubscriberUser)+".nobody", nil)
				}
				_ = nc.FlushTimeout(time.Second)
			}
			over <- struct{}{}
		}()
	}
	limited(t, s, whyRequests)
	until(t, "the operator is not answered", func() bool {
		_, err := b.jsPub.Stream(t.Context(), testNames.Events())
		return err == nil
	})
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		if _, err := b.jsPub.Stream(ctx, testNames.Events()); err != nil {
			t.Errorf("the operator is not answered: %v", err)
		}
		cancel()
	}
	late, err := subscribe(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := asks(late); err == nil {
		t.Error("the user still has the API")
	}
	s.guard.set(func() { s.guard.until = time.Now() })
	stop()
	for range 6 {
		<-over
	}
	until(t, "the user has the API again", func() bool { return asks(late) == nil })
}

func TestConnectionsOfReadersAreBounded(t *testing.T) {
	t.Parallel()
	const most = 8
	s, _ := serve(t)
	s.guard.set(func() { s.guard.most = most })
	var open []*nats.Conn
	for i := range most + 2 {
		nc, err := subscribe(t, s)
		switch {
		case err == nil:
			open = append(open, nc)
		case i < most || !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded):
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if len(open) != most {
		t.Errorf("%d connections, want %d", len(open), most)
	}
	connect(t, s, ResponderUser) // one of its connections is in the readers' account
	limited(t, s, whyFull)
	for _, nc := range open {
		nc.Close()
	}
	until(t, "there is room again", func() bool {
		_, err := subscribe(t, s)
		return err == nil
	})
}

func TestReadersThatDoNotReadAreClosed(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	s.guard.set(func() { s.guard.mostUnread, s.guard.period = 1<<20, time.Second })
	body := []byte(strings.Repeat("x", 512<<10))
	for range 32 { // more than the kernel takes for a client that does not read
		if _, err := b.jsPub.Publish(t.Context(), b.EventSubject("codex", "x", "status"), body); err != nil {
			t.Fatal(err)
		}
	}
	ask(t, s, 1, `{"seq":1,"batch":32}`)
	limited(t, s, whyUnread)
	until(t, "the connection is still there", func() bool { return len(s.guard.readers(s.now())) == 0 })
	reader, err := subscribe(t, s)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the user has the API again", func() bool { return asks(reader) == nil })
	js, err := jetstream.New(reader)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(dump(t, js, testNames.Events())); n != 32 {
		t.Errorf("%d events are read, want 32", n)
	}
}

// A follower that was there before a limit outlives it; one that comes during
// it ends, with an error that names the limit.
func TestFollowerOutlivesALimit(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	many(t, b, 1)
	r := connect(t, s, SubscriberUser)
	denied := make(chan struct{}, 1)
	defer r.denied.watch(func(string) {
		select {
		case denied <- struct{}{}:
		default:
		}
	}, "$JS.API.STREAM.INFO."+testNames.Events())()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	got, ended := make(chan struct{}, 2), make(chan error, 1)
	go func() {
		n := 0
		ended <- r.Read(ctx, Filter{Follow: true}, func(Stored) error {
			got <- struct{}{}
			if n++; n == 2 {
				return enough
			}
			return nil
		})
	}()
	<-got

	s.guard.limit(s.now(), time.Now(), whyUnread, s.guard.readers(s.now()))
	select {
	case <-denied:
	case <-ctx.Done():
		t.Fatal("the limit is not felt")
	}
	late := connect(t, s, SubscriberUser)
	if err := late.Read(ctx, Filter{Follow: true}, func(Stored) error { return nil }); !errors.Is(err, ErrDenied) || !strings.Contains(err.Error(), "linesman doctor") {
		t.Errorf("one that comes during the limit ends with %v", err)
	}
	if _, err := b.jsPub.PublishMsg(t.Context(), newEvent(b, "x", 2, []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	s.guard.set(func() { s.guard.until = time.Now() })
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("the follower ends with %v", err)
	}
}
