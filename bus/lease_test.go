package bus_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
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
