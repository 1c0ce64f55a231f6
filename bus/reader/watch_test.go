package reader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A consumer may stall while its server sends heartbeats: a watch replaces it.
func TestAWatchReplacesAStalledConsumer(t *testing.T) {
	t.Parallel()
	js, s := hundred(t)
	w := &reader.Watch{JS: js, Stream: faultStream, Subject: faultSubject, Log: zap.NewNop()}
	w.StallAfter(time.Second)
	var newest atomic.Uint64
	bustest.Background(t, func(ctx context.Context) error {
		return w.Run(ctx, func(_ jetstream.Msg, meta *jetstream.MsgMetadata) { newest.Store(meta.Sequence.Stream) },
			func(bool, bool) {})
	})
	bustest.Until(t, "the newest message does not come", func() bool { return newest.Load() == 99 })
	if err := faults["the consumer stalls"].during(t.Context(), js, s); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), faultSubject, nil); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the watch is stalled", func() bool { return newest.Load() == 101 })
}
