package bus_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/bustest"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
)

// A consumer may stall while its server sends heartbeats: its readers must detect that,
// and continue with another one.
func TestStalledConsumersAreReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds until a consumer is given up")
	}
	t.Parallel()
	b, err := bus.Connect(t.Context(), bus.Login{URL: plain(t, 1<<20)}, bus.Login{}, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	var rows atomic.Int32
	enough := errors.New("enough")
	go func() { ended <- newNormalizer(b).Run(ctx) }()
	go func() { ended <- b.WatchRuns(ctx, func(c runs.Change) { rows.Add(1) }) }()
	read := make(chan error, 1)
	completions := 0
	go func() {
		read <- b.Read(ctx, bus.Filter{Follow: true, Tokens: []string{"completion"}}, func(bus.Stored) error {
			if completions++; completions == 2 {
				return enough
			}
			return nil
		})
	}()
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": bustest.CorpusLog(t, "hello", 700)}, "a")
	final := func(run string) func() bool {
		return func() bool {
			r, ok, err := b.Record(t.Context(), run)
			return err == nil && ok && r.State.Final()
		}
	}
	bustest.Until(t, "the first run is not recorded", final("a"))
	bustest.Until(t, "the row of the first run does not come", func() bool { return rows.Load() > 0 })

	paused := 0
	for _, at := range []struct {
		js     jetstream.JetStream
		stream string
	}{{b.JetStream(), b.Raw()}, {b.JetStream(), bucket.Stream(b.Runs())}, {b.PublicJetStream(), b.Names.Events()}} {
		stream, err := at.js.Stream(t.Context(), at.stream)
		if err != nil {
			t.Fatal(err)
		}
		for c := range stream.ListConsumers(t.Context()).Info() {
			if _, err := stream.PauseConsumer(t.Context(), c.Name, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			paused++
		}
	}
	if paused < 2 {
		t.Fatalf("only %d consumers were paused", paused)
	}
	before := rows.Load()
	bustest.Interleave(t, b, map[string][]runs.Entry{"b": bustest.CorpusLog(t, "hello", 700)}, "b")
	select {
	case err := <-read:
		if !errors.Is(err, enough) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the reader, or what it reads from, is stalled")
	}
	bustest.Until(t, "the normalizer is stalled", final("b"))
	bustest.Until(t, "the table is stalled", func() bool { return rows.Load() > before })
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

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
			bus.Filter{Run: "a"},
			func(bus.Stored) error { events++; return nil },
		); err != nil ||
			events == 0 {
			t.Fatalf("%d events, %v", events, err)
		}
		if _, _, err := responder.Output(t.Context(), "codex", "a", 100, true); err != nil {
			t.Fatal(err)
		}
		if _, err := responder.LastEvents(t.Context(), "codex", "a", 2); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := subscriber.Read(
			ctx,
			bus.Filter{Run: "a", Follow: true},
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
