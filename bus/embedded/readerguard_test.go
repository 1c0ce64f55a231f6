package embedded

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
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// subscribe connects like a program that reads events.
func subscribe(t *testing.T, s *Server) (*nats.Conn, error) {
	t.Helper()
	nc, err := nats.Connect(
		s.URL(),
		nats.UserInfo(SubscriberUser, s.Credentials[SubscriberUser]),
		nats.CustomInboxPrefix(bus.InboxPrefix(SubscriberUser)),
		nats.MaxReconnects(
			-1,
		),
		nats.ReconnectWait(10*time.Millisecond),
		nats.Timeout(fixture.Patience),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}),
	)
	if err == nil {
		t.Cleanup(nc.Close)
	}
	return nc, err
}

// set changes limits.
func (g *readerGuard) set(change func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change()
}

// asks sends one request to the JetStream API.
func asks(nc *nats.Conn) error {
	m, err := nc.Request("$JS.API.STREAM.INFO."+bustest.Names.Events(), nil, time.Second)
	if err == nil && strings.Contains(string(m.Data), `"error"`) {
		err = errors.New(string(m.Data))
	}
	return err
}

// ask sends a direct get a number of times, on a connection that never reads.
func ask(t *testing.T, s *Server, times int, body string) {
	t.Helper()
	nc, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.(*net.TCPConn).SetReadBuffer(4 << 10)
	login, err := json.Marshal(
		map[string]any{"user": SubscriberUser, "pass": s.Credentials[SubscriberUser], "headers": true, "no_responders": true},
	)
	if err != nil {
		t.Fatal(err)
	}
	inbox := bus.InboxPrefix(SubscriberUser) + ".x"
	fmt.Fprintf(nc, "CONNECT %s\r\nSUB %s 1\r\n", login, inbox)
	for range times {
		fmt.Fprintf(nc, "PUB %s%s %s %d\r\n%s\r\n", directGet, bustest.Names.Events(), inbox, len(body), body)
	}
}

// limited waits until the server has recorded a limit.
func limited(t *testing.T, s *Server, why string) {
	t.Helper()
	bustest.Until(t, "a limit because of "+why, func() bool {
		l, err := ReadLimited(filepath.Dir(s.store))
		return err == nil && l.Why == why && l.User == SubscriberUser && l.Connections > 0
	})
}

func TestAFloodOfAPIRequestsKeepsNobodyWaiting(t *testing.T) {
	fixture.Long(t, "floods a server")
	t.Parallel()
	s, b := serve(t)
	bustest.Fill(t, b, 1)
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
					_ = nc.PublishRequest(
						"$JS.API.STREAM.INFO."+bustest.Names.Events(),
						bus.InboxPrefix(SubscriberUser)+".nobody",
						nil,
					)
				}
				_ = nc.FlushTimeout(time.Second)
			}
			over <- struct{}{}
		}()
	}
	limited(t, s, whyRequests)
	bustest.Until(t, "the operator is not answered", func() bool {
		_, err := b.PublicJetStream().Stream(t.Context(), bustest.Names.Events())
		return err == nil
	})
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
		if _, err := b.PublicJetStream().Stream(ctx, bustest.Names.Events()); err != nil {
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
	bustest.Until(t, "the user has the API again", func() bool { return asks(late) == nil })
}

func TestConnectionsOfReadersAreBounded(t *testing.T) {
	t.Parallel()
	const limit = 8
	s, _ := serve(t)
	s.guard.set(func() { s.guard.maxConnections = limit })
	var open []*nats.Conn
	for i := range limit + 2 {
		nc, err := subscribe(t, s)
		switch {
		case err == nil:
			open = append(open, nc)
		case i < limit || !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded):
			t.Errorf("connection %d: %v", i, err)
		}
	}
	if len(open) != limit {
		t.Errorf("%d connections, want %d", len(open), limit)
	}
	bustest.Connect(t, s, ResponderUser) // one of its connections is in the readers' account
	limited(t, s, whyFull)
	for _, nc := range open {
		nc.Close()
	}
	bustest.Until(t, "connections are accepted again", func() bool {
		_, err := subscribe(t, s)
		return err == nil
	})
}

func TestReadersThatDoNotReadAreClosed(t *testing.T) {
	fixture.Long(t, "floods a server")
	t.Parallel()
	s, b := serve(t)
	s.guard.set(func() { s.guard.maxUnread, s.guard.period = 1<<20, time.Second })
	body := []byte(strings.Repeat("x", 512<<10))
	const events = 24 // more than the kernel buffers for a client that does not read, less than maxPending
	for range events {
		if _, err := b.PublicJetStream().Publish(t.Context(), b.EventSubject("codex", "x", "status"), body); err != nil {
			t.Fatal(err)
		}
	}
	ask(t, s, 1, fmt.Sprintf(`{"seq":1,"batch":%d}`, events))
	limited(t, s, whyUnread)
	bustest.Until(t, "the connection is still there", func() bool { return len(s.guard.readers(s.current())) == 0 })
	reader, err := subscribe(t, s)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the user has the API again", func() bool { return asks(reader) == nil })
	s.guard.set(func() { s.guard.maxUnread = 1 << 30 }) // on a slow machine this reader is behind, too
	js, err := jetstream.New(reader)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(bustest.Dump(t, js, bustest.Names.Events())); n != events {
		t.Errorf("%d events are read, want %d", n, events)
	}
}

// A follower that connected before a limit continues; one that connects during it fails
// with an error that names the limit.
func TestFollowerOutlivesALimit(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	bustest.Fill(t, b, 1)
	core, logged := observer.New(zap.WarnLevel)
	r, err := s.Connect(bustest.Patient(t), SubscriberUser, bustest.Names, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	denied := func() bool {
		return logged.Filter(func(e observer.LoggedEntry) bool {
			return strings.Contains(fmt.Sprint(e.ContextMap()["error"]), "$JS.API.STREAM.INFO."+bustest.Names.Events())
		}).Len() > 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	got, ended := make(chan struct{}, 2), make(chan error, 1)
	go func() {
		n := 0
		ended <- r.Read(ctx, runs.Selection{Follow: true}, func(bus.Stored) error {
			got <- struct{}{}
			if n++; n == 2 {
				return enough
			}
			return nil
		})
	}()
	<-got

	s.guard.limit(s.current(), time.Now(), whyUnread, s.guard.readers(s.current()))
	bustest.Until(t, "the limit has no effect", denied)
	late := bustest.Connect(t, s, SubscriberUser)
	if err := late.Read(
		ctx,
		runs.Selection{Follow: true},
		func(bus.Stored) error { return nil },
	); !errors.Is(err, bus.ErrDenied) ||
		!strings.Contains(err.Error(), "linesman doctor") {
		t.Errorf("a reader that connects during the limit ends with %v", err)
	}
	if _, err := b.PublicJetStream().PublishMsg(t.Context(), bustest.NewEvent(b, "x", 2, []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	s.guard.set(func() { s.guard.until = time.Now() })
	if err := <-ended; !errors.Is(err, enough) {
		t.Errorf("the follower ends with %v", err)
	}
}
