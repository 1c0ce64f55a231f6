package a2a_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/delegator"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/responder/web"
	"github.com/linesman/linesman/runs"
)

// Who may read opens all the streams that there may be on both surfaces: the
// server has connections left for the others.
func TestStreamsOfAllSurfacesLeaveConnectionsForOthers(t *testing.T) {
	d := newLab(t).desk(nil)
	d.work("working").out(begins, turns, says)
	d.await("working", func(v responder.View) bool { return v.State == runs.StateWorking })
	reader, err := web.CreateToken(d.tokens(), "reader", web.Read, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	tools := delegator.New(delegator.Config{Responder: d.responder})
	server, err := web.New(web.Config{Listen: "127.0.0.1:0", Token: token, Tokens: d.tokens()})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rest.New(rest.Config{Responder: d.responder, Streams: d.bus, Tools: tools}).Routes() {
		server.HandleFor(web.Read, r.Pattern, r.Handler)
	}
	for _, r := range a2a.New(a2a.Config{Responder: d.responder, Streams: d.bus, Tools: tools}).Routes() {
		if r.Scope != "" {
			server.HandleFor(web.Read, r.Pattern, r.Handler)
		}
	}
	addr, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	during(t, "web", server.Serve)

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	open := func(ctx context.Context, method, path, body string, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, method, "http://"+addr.String()+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+reader)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		answer, err := (&http.Client{Transport: transport}).Do(r)
		if err != nil {
			t.Fatalf("%s %s: %v", method, path, err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	long, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range rest.MaxHeld {
		if answer := open(long, "GET", "/v1/runs/working/events", "", "Accept", "text/event-stream"); answer.StatusCode != http.StatusOK {
			t.Fatalf("a stream of REST: %s", answer.Status)
		}
	}
	for range a2a.MaxHeld {
		answer := open(long, "POST", "/a2a", `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"working"}}`, "A2A-Version", "1.0")
		if answer.StatusCode != http.StatusOK {
			t.Fatalf("a stream of A2A: %s", answer.Status)
		}
	}
	soon, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if answer := open(soon, "GET", "/v1/runs/working", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("another request: %s", answer.Status)
	}
}
