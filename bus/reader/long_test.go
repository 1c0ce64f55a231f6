package reader_test

import (
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/reader"
)

// A long read continues with direct gets if its consumer stalls, is deleted, or cannot be created.
func TestALongReadNeedsNoConsumer(t *testing.T) {
	t.Parallel()
	none := func(*testing.T, jetstream.JetStream, jetstream.Stream) {}
	names := func(t *testing.T, s jetstream.Stream) (all []string) {
		t.Helper()
		list := s.ConsumerNames(t.Context())
		for name := range list.Name() {
			all = append(all, name)
		}
		if list.Err() != nil {
			t.Error(list.Err())
		}
		return all
	}
	for name, c := range map[string]struct {
		before, during func(*testing.T, jetstream.JetStream, jetstream.Stream)
		consumers      int // that the read has when it is in the middle
	}{
		"it has one": {none, none, 1},
		"it is removed": {none, func(t *testing.T, _ jetstream.JetStream, s jetstream.Stream) {
			t.Helper()
			for _, one := range names(t, s) {
				if err := s.DeleteConsumer(t.Context(), one); err != nil {
					t.Error(err)
				}
			}
		}, 1},
		"it is paused": {none, func(t *testing.T, _ jetstream.JetStream, s jetstream.Stream) {
			t.Helper()
			for _, one := range names(t, s) {
				if _, err := s.PauseConsumer(t.Context(), one, time.Now().Add(time.Hour)); err != nil {
					t.Error(err)
				}
			}
		}, 1},
		"there are as many as there may be": {func(t *testing.T, js jetstream.JetStream, s jetstream.Stream) {
			t.Helper()
			config := s.CachedInfo().Config
			config.MaxConsumers = 1
			_, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "other"})
			if err == nil {
				_, err = js.UpdateStream(t.Context(), config)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, none, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			js, s := hundred(t)
			c.before(t, js, s)
			var got, want []uint64
			for seq := range uint64(100) {
				want = append(want, seq+1)
			}
			err := reader.NewLong(js, faultStream, "faults.*").ToEnd(t.Context(), func(m *jetstream.RawStreamMsg) error {
				if got = append(got, m.Sequence); len(got) == 10 {
					if have := len(names(t, s)); have != c.consumers {
						t.Errorf("%d consumers, want %d", have, c.consumers)
					}
					c.during(t, js, s)
				}
				return nil
			})
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}
