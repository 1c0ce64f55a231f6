package bus_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// 1. A responder watches the heartbeats of a worker, up to sequence N of the stream. 2.
// The bucket is deleted and recreated at once, as by a restore. The client library
// recreates the ordered consumer beyond the new stream's end: it delivers nothing,
// without an error.
//
// If the watch did not detect this, no heartbeat would arrive until the new stream
// passes N, which may take days; all workers would be considered lost, and their silent
// runs would be ended after stuck_after. The same applies to WatchRuns.
func TestAWatchDetectsARecreatedStream(t *testing.T) {
	t.Parallel()
	s, b := serve(t)
	r, w := bustest.Connect(t, s, embedded.ResponderUser), bustest.Connect(t, s, embedded.WorkerUser)
	say := func(slots int) error {
		return w.HeartbeatOnce(t.Context(), runs.Heartbeat{ID: "here", Name: "here", Slots: slots}, time.Minute)
	}
	for range 50 {
		if err := say(1); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel()
	var mu sync.Mutex
	slots := 0
	heard := func(want int) func() bool {
		return func() bool { mu.Lock(); defer mu.Unlock(); return slots == want }
	}
	watch.Go(func() {
		err := r.WatchHeartbeats(ctx, func(v runs.Heartbeat, _ time.Time) { mu.Lock(); defer mu.Unlock(); slots = v.Slots })
		if err != nil {
			t.Error(err)
		}
	})
	bustest.Until(t, "no heartbeat is received", heard(1))
	bustest.Remake(t, b, b.JetStream(), bucket.Stream(b.State()))
	bustest.Until(t, "what is said after the bucket was recreated is not received", func() bool {
		if bustest.LastSeq(t, b.JetStream(), bucket.Stream(b.State())) < 40 {
			if err := say(2); err != nil {
				t.Logf("beat: %v", err)
			}
		}
		return heard(2)()
	})
}
