package bus_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// What the loss of a lease interrupts fails because its context has ended, which is no reason.
func TestALostLeaseIsTheReasonOfWhatItInterrupts(t *testing.T) {
	_, b := serve(t)
	err := b.Lead(bustest.Patient(t), bus.NormalizerLease, nil, func(ctx context.Context) error {
		if _, err := bucket.New(b.JetStream(), b.State()).Put(ctx, bus.NormalizerLease, []byte("another"), nil); err != nil {
			return err
		}
		<-ctx.Done()
		return fmt.Errorf("stream RAW: %w", ctx.Err())
	})
	if err == nil || !strings.HasPrefix(err.Error(), "the lease was lost: ") || !bucket.Moved(err) {
		t.Errorf("it ends with %v; want that the lease was lost to another holder", err)
	}
}

// If the server refuses to store a lease that is free, Lead returns the reason, and does not wait for a holder.
func TestALeaseThatIsNotStoredIsAnError(t *testing.T) {
	_, b := serve(t)
	stream, err := b.JetStream().Stream(t.Context(), bucket.Stream(b.State()))
	if err != nil {
		t.Fatal(err)
	}
	full := stream.CachedInfo().Config
	full.MaxBytes, full.Discard = 1, jetstream.DiscardNew
	if _, err := b.JetStream().UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	err = b.Lead(bustest.Patient(t), bus.NormalizerLease, nil, func(context.Context) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "maximum bytes exceeded") {
		t.Errorf("it ends with %v; want the reason of the server", err)
	}
}

// A stream without quorum takes writes and sends no acknowledgements: they do not hold the places of later ones.
func TestWritesWithoutAnswersAreForgotten(t *testing.T) {
	fixture.Long(t, "waits for 20 s")
	t.Parallel()
	_, b := serve(t)
	js := b.JetStream()
	if _, err := js.Conn().SubscribeSync("linesman.silent"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: "linesman.silent"}); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Until(t, "the end of all writes", func() bool { return js.PublishAsyncPending() == 0 })
}
