package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
)

func TestAskEndsWithTheConnectionItsAnswerWasToComeOn(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	server, err := bus.StartServer(t.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	b, err := server.Connect(t.Context(), bus.OperatorUser, names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := b.Ask(ctx, "status", []byte("{}")); !errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("nobody there: got %v, want ErrNoResponder", err)
	}

	asked := make(chan struct{}, 1)
	if _, err := b.Inside().Subscribe(names.API()+".*", func(*nats.Msg) { asked <- struct{}{} }); err != nil {
		t.Fatal(err)
	}
	if err := b.Inside().Flush(); err != nil {
		t.Fatal(err)
	}
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

// The server says that it refused a request, but not in an answer.
func TestAskThatIsNotPermittedEndsAtOnce(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	server, err := bus.StartServer(t.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for name, login := range map[string]bus.Login{
		"may not publish": {URL: server.URL(), User: bus.SubscriberUser, Password: server.Credentials[bus.SubscriberUser]},
		"may not listen for the answer": {URL: server.URL(), Options: []nats.Option{
			nats.UserInfo(bus.OperatorUser, server.Credentials[bus.OperatorUser]),
		}},
	} {
		b, err := bus.Connect(ctx, login, bus.Login{}, names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := b.Ask(ctx, "status", []byte("{}")); !errors.Is(err, bus.ErrDenied) || time.Since(began) > 10*time.Second {
			t.Errorf("%s: got %v after %v, want ErrDenied at once", name, err, time.Since(began))
		}
		b.Close()
	}
}
