package a2a_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/responder/httpserver"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// Two callers open as many streams as both surfaces allow: the server still has
// connections for other requests.
func TestStreamsOfAllSurfacesLeaveConnectionsForOthers(t *testing.T) {
	fixture.Descriptors(t, 4096)
	t.Parallel()
	d := newLab(t).endpoint(nil)
	d.work("working").out(begins, turns, says)
	d.await("working", func(v runs.Header) bool { return v.State == runs.StateWorking })
	readers := map[string]int{} // by token: how many quarters of the streams it opens
	for name, quarters := range map[string]int{"first": 3, "second": 1} {
		reader, err := httpserver.CreateToken(d.tokens(), name, httpserver.Read, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		readers[reader] = quarters
	}
	server, err := httpserver.New(httpserver.Config{Listen: "127.0.0.1:0", Token: token, Tokens: d.tokens()})
	if err != nil {
		t.Fatal(err)
	}
	named := func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			h.ServeHTTP(w, q.WithContext(responder.WithCaller(q.Context(), httpserver.Caller(q.Context()))))
		})
	}
	for _, r := range rest.New(rest.Config{Service: d.service}).Routes() {
		server.HandleFor(httpserver.Read, r.Pattern, named(r.Handler))
	}
	for _, r := range a2a.New(a2a.Config{Service: d.service, Tools: tools.New(d.service)}).Routes() {
		if r.Scope != "" {
			server.HandleFor(httpserver.Read, r.Pattern, named(r.Handler))
		}
	}
	addr, err := server.Listen()
	if err != nil {
		t.Fatal(err)
	}
	servicetest.During(t, "web", server.Serve)

	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	open := func(ctx context.Context, reader, method, path, body string, header ...string) *http.Response {
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
	begins := func(answer *http.Response) bool {
		first, err := bufio.NewReader(answer.Body).ReadString('\n')
		return err == nil && answer.StatusCode == http.StatusOK && first != ""
	}
	for reader, quarters := range readers {
		for range rest.MaxHeld / 4 * quarters {
			if answer := open(long, reader, "GET", "/v1/runs/working/events", "", "Accept",
				"text/event-stream"); !begins(answer) {
				t.Fatalf("a stream of REST: %s", answer.Status)
			}
		}
		for range a2a.MaxHeld / 4 * quarters {
			answer := open(long, reader, "POST", "/a2a",
				`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"working"}}`, "A2A-Version", "1.0")
			if !begins(answer) {
				t.Fatalf("a stream of A2A: %s", answer.Status)
			}
		}
	}
	soon, stop := context.WithTimeout(t.Context(), fixture.Patience)
	defer stop()
	if answer := open(soon, token, "GET", "/v1/runs/working", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("another request: %s", answer.Status)
	}
	for reader := range readers { // that they did hold them all
		if answer := open(soon, reader, "GET", "/v1/runs/working/wait?timeout=10",
			""); answer.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("one more: %s", answer.Status)
		}
	}
}
