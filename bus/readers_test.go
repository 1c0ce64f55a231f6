package bus_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// Consumers expire even if their creator does not limit them, and are counted.
func TestConsumersExpireAndAreCounted(t *testing.T) {
	t.Parallel()
	b := bustest.ConnectPlain(t, bustest.ServePlain(t, server.Options{}))
	bustest.EnsureSmall(t, b)
	stream, err := b.PublicJetStream().Stream(t.Context(), b.Names.Events())
	if err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"unlimited": 0, "short": time.Hour} {
		c, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: name, InactiveThreshold: age})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.CachedInfo().Config.InactiveThreshold; got != cmp.Or(age, bus.ReaderAge) {
			t.Errorf("%s lasts %v", name, got)
		}
	}
	if have, limit, err := b.Readers(t.Context()); err != nil || have != 2 || limit != bus.MaxReaders {
		t.Errorf("%d consumers of %d, %v", have, limit, err)
	}
	if changed, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil || len(changed) != 0 {
		t.Errorf("changed %q, %v", changed, err)
	}
}
