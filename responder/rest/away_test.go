package rest_test

import (
	"net/http"
	"testing"
	"time"
)

// A task that cannot be taken now is refused at once, not after some seconds,
// whether it has a key or not.
func TestATaskIsRefusedAtOnceWhileNATSIsAway(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Server.Stop()
	end := time.After(time.Minute)
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
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it takes %v to say that NATS is away", took)
	}
}
