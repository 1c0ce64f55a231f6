package reader_test

import (
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A reader that is slow has few messages that it did not take yet, so the client drops none.
func TestASlowReaderIsNotSentMoreThanItTakes(t *testing.T) {
	t.Parallel()
	const messages, batch = 1500, 64
	_, b := bustest.Serve(t, embedded.StartServer)
	js := b.JetStream()
	config := jetstream.StreamConfig{Name: faultStream, Subjects: []string{"faults.*"}}
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	for range messages {
		if _, err := js.PublishAsync(faultSubject, nil); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	conn := js.Conn()
	var dropped atomic.Int64
	conn.SetErrorHandler(func(*nats.Conn, *nats.Subscription, error) { dropped.Add(1) })
	before, got, most := conn.Stats().InMsgs, 0, 0
	if err := toEnd(t.Context(), reader.NewConsumer(js, faultStream, faultSubject, batch, 1), func(uint64) {
		if err := conn.FlushTimeout(fixture.Patience); err != nil {
			t.Error(err)
		}
		most = max(most, int(conn.Stats().InMsgs-before)-got)
		got++
	}); err != nil || got != messages || most > 3*batch || dropped.Load() > 0 {
		t.Errorf("%d messages, at most %d were waiting, %d were dropped, %v", got, most, dropped.Load(), err)
	}
}
