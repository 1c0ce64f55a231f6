package bus_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// Readers leave no consumers behind: they would last for a while, and a busy server
// would have thousands.
func TestReadersLeaveNoConsumers(t *testing.T) {
	s, b := serve(t)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "shell-ok", 700)}, "a")
	normalize(t, b)
	subscriber := bustest.Connect(t, s, embedded.SubscriberUser)
	responder := bustest.Connect(t, s, embedded.ResponderUser)
	for range 3 {
		events := 0
		if err := subscriber.Read(
			t.Context(),
			runs.Selection{Run: "a"},
			func(bus.Stored) error { events++; return nil },
		); err != nil ||
			events == 0 {
			t.Fatalf("%d events, %v", events, err)
		}
		if _, _, err := responder.Output(t.Context(), "codex", "a", 100, true); err != nil {
			t.Fatal(err)
		}
		if got := lastEvents(t, responder, "a", 2); len(got) != 2 {
			t.Fatalf("%d events", len(got))
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := subscriber.Read(
			ctx,
			runs.Selection{Run: "a", Follow: true},
			func(bus.Stored) error { cancel(); return nil },
		); err != nil {
			t.Fatal(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		if err := responder.WatchRuns(ctx, func(runs.Change) { cancel() }); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	for _, at := range []struct {
		js     jetstream.JetStream
		stream string
	}{{b.JetStream(), b.Raw()}, {b.JetStream(), bucket.Stream(b.Runs())}, {b.PublicJetStream(), b.Names.Events()}} {
		bustest.Until(t, at.stream+" keeps consumers", func() bool {
			stream, err := at.js.Stream(t.Context(), at.stream)
			return err == nil && stream.CachedInfo().State.Consumers == 0
		})
	}
}
