package rest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// A caller that opens as many streams as it can leaves some for the others.
func TestOneCallerLeavesStreamsForOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *config) { c.rest.Held = 4 })
	s.Begin("codex", "long", runs.Start{Source: "run"})
	s.Await("long", func(v runs.Header) bool { return true })
	mux := http.NewServeMux()
	for _, r := range s.api.Routes() {
		mux.HandleFunc(r.Pattern, func(w http.ResponseWriter, q *http.Request) {
			r.Handler.ServeHTTP(w, q.WithContext(responder.WithCaller(q.Context(), q.Header.Get("Test-Caller"))))
		})
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	s.url = server.URL
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	stream := func(caller string) int {
		answer := s.open(ctx, "GET", "/v1/runs/long/events", "", "Accept", "text/event-stream", "Test-Caller", caller)
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer.StatusCode
	}
	for n, want := range []int{200, 200, 200, 503} {
		if got := stream("greedy"); got != want {
			t.Errorf("stream %d: %d, want %d", n, got, want)
		}
	}
	if got := stream("modest"); got != http.StatusOK {
		t.Errorf("another caller gets %d", got)
	}
	leave() // before the server waits for its requests
}
