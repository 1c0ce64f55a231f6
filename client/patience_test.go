package client

import (
	"testing"
	"time"

	"github.com/linesman/linesman/api"
)

// A wait outlives a responder that ends, which refuses requests until its connection is
// closed, and one that is busy, for at most maxResponderOutage.
func TestWaitIsRetriedWhileRequestsAreRefused(t *testing.T) {
	refused := &api.Error{Code: api.TooMany, Message: "this responder ends: ask again", Retryable: true}
	p := patience{met: true}
	if err := p.wait(t.Context(), refused); err != nil {
		t.Errorf("refused once: %v", err)
	}
	p.lost = time.Now().Add(-maxResponderOutage - time.Second)
	if err := p.wait(t.Context(), refused); err == nil {
		t.Error("refused for longer than an outage may last, and asked again")
	}
	if err := p.wait(t.Context(), &api.Error{Code: api.QueueFull, Retryable: true}); err == nil {
		t.Error("another error, and asked again")
	}
}
