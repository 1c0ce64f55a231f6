package reader_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A server that loses its power comes back with a stream that lost its end, and the stream
// may be longer than before when the watch has a connection again. The watch delivers what
// is stored where the lost messages were, and says first that the stream was replaced.
func TestAWatchReadsAgainAStreamThatLostItsEndAndGrewAgain(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	start := func(address string) *embedded.Server {
		s, err := embedded.StartServer(store, address, bustest.Names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		return s
	}
	publish := func(b *bus.Bus, key string) {
		t.Helper()
		if _, err := b.JetStream().Publish(t.Context(), "faults."+key, nil); err != nil {
			t.Fatal(err)
		}
	}
	s := start(fixture.FreeAddresses(t, 1)[0]) // it starts there again
	b := bustest.Connect(t, s, embedded.OperatorUser)
	config := jetstream.StreamConfig{Name: faultStream, Subjects: []string{"faults.*"}, MaxMsgsPerSubject: 1}
	if _, err := b.JetStream().CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	publish(b, "kept")
	s.Stop()
	synced := filepath.Join(t.TempDir(), "synced")
	if err := os.CopyFS(synced, os.DirFS(filepath.Join(store, "jetstream"))); err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(s.URL(), "nats://")
	bustest.Until(t, "the loss of the connection is not seen", func() bool { return !b.Connected() })
	s = start(address)
	bustest.Until(t, "no connection", b.Connected)
	for i := range 5 {
		publish(b, fmt.Sprint("lost-", i))
	}

	var mu sync.Mutex
	have, replaced := map[string]uint64{}, 0
	w := &reader.Watch{JS: b.JetStream(), Stream: faultStream, Subject: "faults.*", Log: zap.NewNop()}
	bustest.Background(t, func(ctx context.Context) error {
		return w.Run(ctx, func(m jetstream.Msg, meta *jetstream.MsgMetadata) {
			mu.Lock()
			defer mu.Unlock()
			have[m.Subject()] = meta.Sequence.Stream
		}, func(again, _ bool) {
			mu.Lock()
			defer mu.Unlock()
			if again {
				replaced++
				clear(have)
			}
		})
	})
	has := func(subjects ...string) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			for _, subject := range subjects {
				if have["faults."+subject] == 0 {
					return false
				}
			}
			return len(have) == len(subjects)
		}
	}
	bustest.Until(t, "the stream is not read", has("kept", "lost-0", "lost-1", "lost-2", "lost-3", "lost-4"))

	s.Stop()
	if err := os.RemoveAll(filepath.Join(store, "jetstream")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(store, "jetstream"), os.DirFS(synced)); err != nil {
		t.Fatal(err)
	}
	s = start("127.0.0.1:0") // where the watch does not look
	other := bustest.Connect(t, s, embedded.OperatorUser)
	var want []string
	for i := range 8 {
		want = append(want, fmt.Sprint("new-", i))
		publish(other, want[i])
	}
	other.Close()
	s.Stop()
	start(address)
	bustest.Until(t, "the watch does not have what the stream has", has(append(want, "kept")...))
	mu.Lock()
	defer mu.Unlock()
	if replaced != 1 {
		t.Errorf("replaced %d times, want once", replaced)
	}
}
