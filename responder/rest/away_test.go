package rest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

// A task that cannot be taken now is refused at once, not after some seconds,
// whether it has a key or not.
func TestATaskIsRefusedAtOnceWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	s, canary := newStage(t, nil), fixture.StartCanary(t)
	s.Server.Stop()
	end := time.After(fixture.Patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for s.Bus.Connected() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("the connection lives on")
		}
	}
	begin := time.Now()
	s.want(http.StatusServiceUnavailable, "POST", "/v1/runs", `{"task":"go"}`)
	s.want(http.StatusServiceUnavailable, "POST", "/v1/runs", `{"task":"go","idempotencyKey":"0123456789abcdef"}`)
	s.adcp(http.StatusServiceUnavailable, "failed", "POST", "/v1/runs",
		`{"task":"go","idempotency_key":"0123456789abcdef"}`)
	canary.Within("all requests were told that NATS is away", time.Since(begin), 3*time.Second)
}
