package reader_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A stream that answers, and takes no consumer, as in a cluster without a leader, is not read.
func TestAWatchWithoutAConsumerIsLoggedOnce(t *testing.T) {
	t.Parallel()
	js, _ := hundred(t)
	s, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "ONE", Subjects: []string{"one.>"}, MaxConsumers: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Name: "other"})
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.DebugLevel)
	w := &reader.Watch{JS: js, Stream: "ONE", Subject: "one.>", Log: zap.New(core)}
	begun := make(chan struct{}, 100)
	bustest.Background(t, func(ctx context.Context) error {
		return w.Run(ctx, func(jetstream.Msg, *jetstream.MsgMetadata) {}, func(bool, bool) { begun <- struct{}{} })
	})
	for range 4 { // the third has failed
		<-begun
	}
	count := func(message string) int { return logs.FilterMessage(message).Len() }
	began, ended := count("reading again from the beginning"), count("the stream is read again")
	if began != 1 || ended != 0 {
		t.Errorf("%d times it is read again from the beginning, %d times it is read again; want 1 and 0", began, ended)
	}
	if err := s.DeleteConsumer(t.Context(), other.CachedInfo().Name); err != nil {
		t.Fatal(err)
	}
	bustest.Until(t, "the stream is not read again", func() bool { return count("the stream is read again") == 1 })
}
