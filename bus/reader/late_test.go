package reader_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/bus/reader"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// late calls after before it returns the information about a stream.
type late struct {
	jetstream.JetStream
	after func()
}

func (l late) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := l.JetStream.Stream(ctx, name)
	l.after()
	return s, err
}

// The answer of a busy server may be older than messages that arrived while it was in
// transit. The stream has not lost its end.
func TestAnAnswerThatComesLateIsNoOtherStream(t *testing.T) {
	t.Parallel()
	_, b := bustest.Serve(t, embedded.StartServer)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	came := make(chan uint64, 1)
	var asked, begun atomic.Int32
	js := late{b.JetStream(), func() {
		switch asked.Add(1) {
		case 2: // the first check of a stream that is being followed
			if _, err := b.JetStream().Publish(ctx, bucket.Subject(b.Runs(), "one"), []byte("{}")); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-came:
			case <-ctx.Done():
			}
		case 4: // a restart requests it once, and then checks
			cancel()
		}
	}}
	w := reader.Watch{
		JS:      js,
		Stream:  bucket.Stream(b.Runs()),
		Subject: bucket.Subject(b.Runs(), ">"),
		Log:     zap.NewNop(),
	}
	err := w.Run(ctx,
		func(_ jetstream.Msg, meta *jetstream.MsgMetadata) {
			select {
			case came <- meta.Sequence.Stream:
			default:
			}
		}, func(bool, bool) { begun.Add(1) })
	if err != nil || begun.Load() != 1 {
		t.Errorf("begun %d times, want once; %v", begun.Load(), err)
	}
}
