package doctor

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// Whether a worker is at work is judged by the server's clock, which wrote the times of its heartbeats.
func TestWorkersAreAtWorkWhateverTheClockHere(t *testing.T) {
	t.Parallel()
	_, b := bustest.Serve(t, embedded.StartServer)
	ctx, stop := context.WithCancel(t.Context())
	stored := make(chan struct{})
	go func() {
		defer close(stored)
		b.SendHeartbeats(ctx, time.Hour, func() runs.Heartbeat {
			return runs.Heartbeat{ID: "w", Name: "w", Queue: config.Default().Work.Queue, Slots: 2}
		})
	}()
	defer func() { stop(); <-stored }()
	fixture.Eventually(t, fixture.Patience, "a heartbeat", func() bool {
		found := false
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_ = b.WatchHeartbeats(ctx, func(runs.Heartbeat, time.Time) { found = true })
		return found
	})
	for _, skew := range []time.Duration{0, time.Hour, -time.Hour} {
		x := &examination{Settings: config.Default(), bus: b, now: func() time.Time { return time.Now().Add(skew) }}
		if level, text, _ := x.worker(t.Context()); level != fine || !strings.Contains(text, "0 of 2 slots are taken") {
			t.Errorf("the clock differs by %v: %s %s", skew, level, text)
		}
	}
	stop() // and a worker that has been silent for longer is not
	<-stored
	x := &examination{Settings: config.Default(), bus: b, now: time.Now}
	x.Settings.LostAfter = time.Nanosecond
	if level, text, _ := x.worker(t.Context()); level != Fail {
		t.Errorf("a silent one: %s %s", level, text)
	}
}
