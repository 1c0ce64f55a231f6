package bridge

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/client"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/natsapi"
	testfixture "github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// A responder that is starting lacks some operations for a moment. One of an older version lacks them for good, which
// the error says.
func TestBridgeTellsAnOlderResponderFromOneThatStarts(t *testing.T) {
	t.Parallel()
	for _, starts := range []bool{false, true} {
		s := servicetest.New(t)
		service := responder.New(responder.Config{Streams: s.Operator, Agents: known.All(), Queue: bus.DefaultQueue,
			LostAfter: time.Minute, Patience: testfixture.Patience})
		servicetest.During(t, "responder", service.Run)
		if err := service.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		serve := func(is func(name string) bool) {
			listening := make(chan struct{})
			servicetest.During(t, "requests", func(ctx context.Context) error {
				return natsapi.Serve(ctx, natsapi.Config{
					Conn: s.Operator.Inside(), Root: s.Operator.API(), Version: "1.0.0", Log: zap.NewNop(),
					Endpoints: slices.DeleteFunc(natsapi.VerbEndpoints(service), func(e natsapi.Endpoint) bool {
						return !is(e.Name)
					}),
					Listening: func() { close(listening) },
				})
			})
			<-listening
		}
		serve(func(name string) bool { return name != api.OpReply.Name })
		said, logs := observer.New(zap.WarnLevel)
		done := make(chan error, 1)
		go func() { done <- await(t.Context(), client.New(s.Operator), zap.New(said)) }()
		if starts {
			testfixture.Eventually(t, testfixture.Patience, "it waits", func() bool { return logs.Len() > 0 })
			serve(func(name string) bool { return name == api.OpReply.Name })
		}
		err := <-done
		if older := err != nil && strings.Contains(err.Error(), "older version"); older == starts || starts && err != nil {
			t.Errorf("it starts: %t; got %v", starts, err)
		}
	}
}
