package natsapi_test

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/natsapi"
)

// One connection that waits for as many answers as it can leaves calls for others.
func TestOneConnectionLeavesCallsForOthers(t *testing.T) {
	const all, share = 4096, 3072
	l := newLab(t)
	b := l.bus(embedded.ResponderUser)
	wait := natsapi.Endpoint{Name: "wait", Do: func(ctx context.Context, _ []byte) natsapi.Answer {
		<-ctx.Done()
		return natsapi.Answer{}
	}}
	now := natsapi.Endpoint{Name: "now", Do: func(context.Context, []byte) natsapi.Answer {
		return natsapi.Answer{Body: []byte("{}")}
	}}
	listening := make(chan struct{})
	l.start(func(ctx context.Context) error {
		return natsapi.Serve(ctx, natsapi.Config{Conn: b.Inside(), Root: "linesman.api", Log: zap.NewNop(),
			Endpoints: []natsapi.Endpoint{wait, now}, Listening: func() { close(listening) }})
	})
	<-listening
	// An inbox for all requests of the connection, as that of a client that waits often.
	inbox := l.asker.NewRespInbox()
	refused, err := l.asker.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	for range all {
		if err := l.asker.PublishRequest("linesman.api.wait", inbox, nil); err != nil {
			t.Fatal(err)
		}
	}
	for range all - share {
		m, err := refused.NextMsg(30 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Get(micro.ErrorCodeHeader); got != "503" {
			t.Fatalf("code %q", got)
		}
	}
	answer := func(conn *nats.Conn) string {
		m, err := conn.Request("linesman.api.now", nil, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		return m.Header.Get(micro.ErrorCodeHeader)
	}
	if got := answer(l.bus(embedded.OperatorUser).Inside()); got != "" {
		t.Errorf("another connection gets code %s", got)
	}
}
