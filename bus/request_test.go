package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestAskEndsWithTheConnectionItsAnswerWasToComeOn(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	server, err := embedded.StartServer(t.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	b, err := server.Connect(bustest.Patient(t), embedded.OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	if _, err := b.Ask(ctx, "status", []byte("{}")); !errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("nobody there: got %v, want ErrNoResponder", err)
	}

	asked := make(chan struct{}, 1)
	bustest.Subscribe(t, b.Inside(), names.API()+".*", func(*nats.Msg) { asked <- struct{}{} })
	done := make(chan error, 1)
	go func() {
		_, err := b.Ask(ctx, "wait", []byte("{}"))
		done <- err
	}()
	<-asked
	server.Stop()
	if err := <-done; !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("the server went away: got %v, want ErrUnreachable", err)
	}
	if _, err := b.Ask(ctx, "status", []byte("{}")); !errors.Is(err, bus.ErrUnreachable) {
		t.Errorf("the server is away: got %v, want ErrUnreachable", err)
	}
}

// The server reports that it refused a request, but not as its answer.
func TestAskThatIsNotPermittedEndsAtOnce(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	server, err := embedded.StartServer(t.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	canary, longest := fixture.StartCanary(t), time.Duration(0)
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	for name, login := range map[string]bus.Login{
		"may not publish": {URL: server.URL(), User: embedded.SubscriberUser,
			Password: server.Credentials[embedded.SubscriberUser]},
		"may not listen for the answer": {URL: server.URL(), Options: []nats.Option{
			nats.UserInfo(embedded.OperatorUser, server.Credentials[embedded.OperatorUser]),
		}},
	} {
		b, err := bus.Connect(bus.WithPatience(ctx, fixture.Patience/2), login, bus.Login{}, names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := b.Ask(ctx, "status", []byte("{}")); !errors.Is(err, bus.ErrDenied) {
			t.Errorf("%s: got %v, want ErrDenied", name, err)
		}
		longest = max(longest, time.Since(began))
		b.Close()
	}
	canary.Within("a request that is denied was answered", longest, 10*time.Second)
}

// strict starts a server whose user may not send cancel, and may not subscribe to some
// of its inboxes, or, if deaf, to any.
func strict(t *testing.T, names bus.Names) string {
	t.Helper()
	some := &server.SubjectPermission{Deny: []string{"_INBOX.closed.>"}}
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, Users: []*server.User{
		{Username: "all", Password: "x"},
		{
			Username: "some",
			Password: "x",
			Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Deny: []string{names.API() + ".cancel"}},
				Subscribe: some,
			},
		},
		{
			Username:    "deaf",
			Password:    "x",
			Permissions: &server.Permissions{Subscribe: &server.SubjectPermission{Deny: []string{"_INBOX.>"}}},
		},
	}}
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(30 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s.ClientURL()
}

// A violation ends only the request that caused it, and later ones that cause it; also
// if the user may not subscribe.
func TestADeniedRequestEndsNoOther(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	url, canary := strict(t, names), fixture.StartCanary(t)
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	as := func(user string) *bus.Bus {
		b, err := bus.Connect(
			bus.WithPatience(ctx, fixture.Patience/2),
			bus.Login{URL: url, Options: []nats.Option{nats.UserInfo(user, "x")}},
			bus.Login{},
			names,
			zap.NewNop(),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	asked, answer := make(chan *nats.Msg, 4), []byte(`{"status":"ok"}`)
	responder := as("all").Inside()
	if _, err := responder.ChanSubscribe(names.API()+".*", asked); err != nil {
		t.Fatal(err)
	}
	if err := responder.FlushTimeout(fixture.Patience); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		body []byte
		err  error
	}
	done := make(chan outcome, 1)
	b := as("some")
	go func() {
		body, err := b.Ask(ctx, "wait", []byte("{}"))
		done <- outcome{body, err}
	}()
	m := <-asked
	if _, err := b.Inside().SubscribeSync("_INBOX.closed.x"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 2 {
		if _, err := b.Ask(ctx, "cancel", []byte("{}")); !errors.Is(err, bus.ErrDenied) {
			t.Errorf("got %v, want ErrDenied", err)
		}
	}
	if err := m.Respond(answer); err != nil {
		t.Fatal(err)
	}
	if o := <-done; o.err != nil || string(o.body) != string(answer) {
		t.Errorf("the other request: got %s, %v", o.body, o.err)
	}
	deaf := as("deaf")
	for range 3 {
		if _, err := deaf.Ask(ctx, "submit", []byte("{}")); !errors.Is(err, bus.ErrDenied) {
			t.Errorf("may not listen: got %v, want ErrDenied", err)
		}
	}
	took := time.Since(began)
	if len(asked) > 0 {
		t.Error("a request whose answer cannot be heard was sent")
	}
	canary.Within("all were answered", took, 10*time.Second)
}
