package bus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bustest"
)

// Consumers that readers created with an older linesman are limited by the next one:
// unused ones above the limit are deleted, and the others expire.
func TestConsumersOfOlderReadersAreBounded(t *testing.T) {
	t.Parallel()
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{}))
	limits := bus.DefaultLimits()
	limits.RawBytes, limits.EventsBytes, limits.RunsBytes = 1<<28, 1<<28, 1<<26
	if _, err := b.Ensure(t.Context(), limits); err != nil {
		t.Fatal(err)
	}
	stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
	if err != nil {
		t.Fatal(err)
	}
	old := stream.CachedInfo().Config
	old.ConsumerLimits = jetstream.StreamConsumerLimits{}
	if _, err := b.PublicJetStream().UpdateStream(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	bustest.Fill(t, b, 1)
	add := func(name string, age time.Duration) jetstream.Consumer {
		t.Helper()
		c, err := stream.CreateConsumer(
			t.Context(),
			jetstream.ConsumerConfig{Durable: name, InactiveThreshold: age, MemoryStorage: true},
		)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if m, err := add("brought", 0).Next(); err != nil || m.Ack() != nil {
		t.Fatal(err)
	}
	consuming, err := add("waiting", 90*24*time.Hour).Consume(func(jetstream.Msg) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(consuming.Stop)
	for i := range bus.MaxReaders + 3 {
		add(fmt.Sprintf("left-%d", i), 0)
	}
	add("short", time.Hour)
	bustest.Until(t, "no request waits", func() bool {
		c, err := stream.Consumer(t.Context(), "waiting")
		return err == nil && c.CachedInfo().NumWaiting > 0
	})

	changed, err := b.Ensure(t.Context(), limits)
	if err != nil || len(changed) != 2 {
		t.Errorf("changed %q, %v", changed, err)
	}
	ages := map[string]time.Duration{}
	consumers := stream.ListConsumers(t.Context())
	for c := range consumers.Info() {
		ages[c.Name] = c.Config.InactiveThreshold
	}
	if err := consumers.Err(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{
		"brought": bus.ReaderAge, "waiting": bus.ReaderAge, "short": time.Hour,
		fmt.Sprintf("left-%d", bus.MaxReaders+2): bus.ReaderAge, "left-0": 0,
	} {
		if ages[name] != want {
			t.Errorf("%s lasts %v, want %v", name, ages[name], want)
		}
	}
	if len(ages) != bus.MaxReaders {
		t.Errorf("%d consumers are left, want %d", len(ages), bus.MaxReaders)
	}
	if have, most, err := b.Readers(t.Context()); err != nil || have != bus.MaxReaders || most != bus.MaxReaders {
		t.Errorf("the doctor hears of %d consumers of %d, %v", have, most, err)
	}
	if changed, err := b.Ensure(t.Context(), limits); err != nil || len(changed) != 0 {
		t.Errorf("again: changed %q, %v", changed, err)
	}
}
