package bus

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/runs"
)

// A consumer may stand still, and its server say all the while that it lives:
// whoever reads with it must notice, and read on with another one.
func TestConsumersThatStandStillAreReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds until a consumer is given up")
	}
	t.Parallel()
	b, err := Connect(t.Context(), Login{URL: plain(t, 1<<20)}, Login{}, testNames, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	limits := DefaultLimits()
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
		read <- b.Read(ctx, Filter{Follow: true, Tokens: []string{"completion"}}, func(Stored) error {
			if completions++; completions == 2 {
				return enough
			}
			return nil
		})
	}()
	interleave(t, b, map[string][]runs.Entry{"a": corpusLog(t, "hello", 700)}, "a")
	final := func(run string) func() bool {
		return func() bool {
			r, ok, err := b.Record(t.Context(), run)
			return err == nil && ok && r.State.Final()
		}
	}
	until(t, "the first run is not recorded", final("a"))
	until(t, "the row of the first run does not come", func() bool { return rows.Load() > 0 })

	paused := 0
	for _, at := range []struct {
		js     jetstream.JetStream
		stream string
	}{{b.js, b.Raw()}, {b.js, bucketStream(b.Runs())}, {b.jsPub, b.Names.Events()}} {
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
	interleave(t, b, map[string][]runs.Entry{"b": corpusLog(t, "hello", 700)}, "b")
	select {
	case err := <-read:
		if !errors.Is(err, enough) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the reader, or what it reads from, stands still")
	}
	until(t, "the normalizer stands still", final("b"))
	until(t, "the table stands still", func() bool { return rows.Load() > before })
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Who has read leaves no consumer behind: it would last for a while, and a
// server that is asked often would hold thousands.
func TestReadersLeaveNoConsumers(t *testing.T) {
	s, b := serve(t)
	interleave(t, b, map[string][]runs.Entry{"a": corpusLog(t, "shell-ok", 700)}, "a")
	normalize(t, b)
	subscriber := connect(t, s, SubscriberUser)
	responder := connect(t, s, ResponderUser)
	for range 3 {
		if events, err := subscriber.collect(t.Context(), "a"); err != nil || len(events) == 0 {
			t.Fatalf("%d events, %v", len(events), err)
		}
		if _, _, err := responder.Output(t.Context(), "codex", "a", 100, true); err != nil {
			t.Fatal(err)
		}
		if _, err := responder.LastEvents(t.Context(), "codex", "a", 2); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if err := subscriber.Read(ctx, Filter{Run: "a", Follow: true}, func(Stored) error { cancel(); return nil }); err != nil {
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
	}{{b.js, b.Raw()}, {b.js, bucketStream(b.Runs())}, {b.jsPub, b.Names.Events()}} {
		until(t, at.stream+" keeps consumers", func() bool {
			stream, err := at.js.Stream(t.Context(), at.stream)
			return err == nil && stream.CachedInfo().State.Consumers == 0
		})
	}
}
