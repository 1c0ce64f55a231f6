package bus_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A request that is held has an answer for as long as its responder says so, and none once it is silent.
func TestHeldRequestEndsWithItsResponder(t *testing.T) {
	t.Parallel()
	names := bus.Names{Prefix: bus.DefaultPrefix}
	server, err := embedded.StartServer(t.TempDir(), "127.0.0.1:0", names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	connect := func(user string) *bus.Bus {
		b, err := server.Connect(bustest.Patient(t), user, names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		return b
	}
	responder, b := connect(embedded.ResponderUser).Inside(), connect(embedded.OperatorUser)
	renew := make(chan time.Time) // a call takes it
	ctx, cancel := context.WithTimeout(t.Context(), fixture.Patience)
	defer cancel()
	asked := make(chan *nats.Msg, 8)
	bustest.Subscribe(t, responder, names.API()+".tool", func(m *nats.Msg) { asked <- m })
	type outcome struct {
		bus.Answer
		error
	}
	hold := func(ctx context.Context, progress func([]byte)) chan outcome {
		done := make(chan outcome, 1)
		go func() {
			a, err := b.HoldBy(ctx, "tool", progress, renew)
			done <- outcome{a, err}
		}()
		return done
	}

	drop := func([]byte) {}
	done := hold(ctx, drop)
	<-asked
	renew <- time.Time{}
	if got := <-done; got.error == nil || errors.Is(got.error, bus.ErrNoResponder) ||
		errors.Is(got.error, bus.ErrNotSent) {
		t.Errorf("nobody hears that it is renewed: %+v", got)
	}

	renewals, stopped := make(chan string, 8), make(chan string, 8)
	bustest.Subscribe(t, responder, names.API()+"."+bus.StopVerb, func(m *nats.Msg) { stopped <- string(m.Data) })
	bustest.Subscribe(t, responder, names.API()+"."+bus.RenewVerb, func(m *nats.Msg) { renewals <- m.Reply })
	part := func(to, kind, body string) {
		m := nats.NewMsg(to)
		m.Data = []byte(body)
		if kind != "" {
			m.Header.Set(bus.PartHeader, kind)
		}
		if err := responder.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	done = hold(ctx, drop)
	reply := (<-asked).Reply
	renew <- time.Time{}
	if got := <-renewals; got != reply {
		t.Errorf("%s was renewed, want %s", got, reply)
	}
	renew <- time.Time{}
	if got := <-done; got.error == nil || errors.Is(got.error, bus.ErrNoResponder) {
		t.Errorf("nobody holds it: %+v", got)
	}

	told := make(chan string, 8)
	done = hold(ctx, func(p []byte) { told <- string(p) })
	reply = (<-asked).Reply
	for range 3 {
		renew <- time.Time{}
		part(<-renewals, bus.HeldPart, "")
		part(reply, bus.ProgressPart, "1")
		<-told // so it has heard the one before, too
	}
	part(reply, bus.BodyPart, "a")
	part(reply, bus.ProgressPart, "2")
	part(reply, bus.BodyPart, "b")
	part(reply, "", "c")
	if got := <-done; got.error != nil || string(got.Body) != "abc" || <-told != "2" {
		t.Errorf("in parts: %s %v", got.Body, got.error)
	}

	ending, end := context.WithCancel(ctx)
	done = hold(ending, drop)
	reply = (<-asked).Reply
	end()
	if got := <-done; !errors.Is(got.error, context.Canceled) {
		t.Errorf("the end of its context: %+v", got)
	}
	if got := <-stopped; got != reply {
		t.Errorf("%s was stopped, want %s", got, reply)
	}
}
