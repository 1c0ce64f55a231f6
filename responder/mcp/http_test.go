package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/test/fixture"
)

func TestBodyOverTheBoundIsRefused(t *testing.T) {
	url := serve(t, Handler(NewServer(config(nil))))
	body := func(size int) string {
		const begin, end = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"`, `","version":"0"}}}`
		return begin + strings.Repeat("x", size-len(begin)-len(end)) + end
	}
	for size, want := range map[int]int{maxMessage: http.StatusOK, maxMessage + 1: http.StatusRequestEntityTooLarge} {
		for _, header := range [][]string{nil, {versionHeader, legacy}} {
			res := post(t.Context(), t, url, body(size), header...)
			b, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != want {
				t.Errorf("%d bytes: status %d, %v; want %d", size, res.StatusCode, err, want)
			}
			if want != http.StatusOK && (!json.Valid(b) || strings.Contains(string(b), `"id"`)) {
				t.Errorf("the refusal is not JSON, or has an id: %s", b)
			}
		}
	}
	res := post(t.Context(), t, url, body(maxMessage+1), versionHeader, stateless)
	res.Body.Close()
	if res.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("%s: status %d, want 413", stateless, res.StatusCode)
	}
}

// A client that names 2026-07-28 only in the body must learn that its header is
// missing, not that the revision is unknown.
func TestRevisionIsFoundInHeaderAndBody(t *testing.T) {
	url := serve(t, Handler(NewServer(config(nil))))
	for name, c := range map[string]struct {
		header []string
		status int
		want   string
	}{
		"both":       {[]string{versionHeader, stateless, "Mcp-Method", "tools/list"}, http.StatusOK, `"tools":[]`},
		"body alone": {nil, http.StatusBadRequest, "-32020"},
		"old header": {[]string{versionHeader, legacy}, http.StatusBadRequest, "-32020"},
	} {
		res := post(t.Context(), t, url, modernList, c.header...)
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || res.StatusCode != c.status || !strings.Contains(string(b), c.want) {
			t.Errorf("%s: got %d %s %v; want %d and %s", name, res.StatusCode, b, err, c.status, c.want)
		}
	}
}

func TestAtTheBoundTheLongestIdleSessionIsClosed(t *testing.T) {
	c, begun, ended := waiting()
	url := serve(t, newEndpoint(NewServer(c), 2, time.Hour))
	ping := func(session string) int {
		res := post(t.Context(), t, url, `{"jsonrpc":"2.0","id":9,"method":"ping"}`, sessionHeader, session, versionHeader,
			legacy)
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		return res.StatusCode
	}
	first, second := open(t, url), open(t, url)
	if got := ping(first); got != http.StatusOK { // now second is idle for longer
		t.Fatalf("status %d", got)
	}
	third := open(t, url)
	for session, want := range map[string]int{first: http.StatusOK, second: http.StatusNotFound, third: http.StatusOK} {
		if got := ping(session); got != want {
			t.Errorf("session %s: status %d, want %d", session, got, want)
		}
	}

	// If both are busy no session can be closed.
	done := make(chan struct{}, 2)
	for _, session := range []string{first, third} {
		go func() {
			if res, err := try(t.Context(), url, callWait, sessionHeader, session, versionHeader, legacy); err == nil {
				_, _ = io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			done <- struct{}{}
		}()
		<-begun
	}
	res := post(t.Context(), t, url, initialize)
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, Retry-After %q; want 503 and a time", res.StatusCode, res.Header.Get("Retry-After"))
	}
	for _, session := range []string{first, third} {
		res := post(t.Context(), t, url, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`,
			sessionHeader, session, versionHeader, legacy)
		res.Body.Close()
		<-ended
		<-done
	}
	open(t, url)
}

// One caller has at most three quarters of the sessions: also if it keeps a stream open in each, others get one.
func TestOneCallerDoesNotTakeAllSessions(t *testing.T) {
	e := newEndpoint(NewServer(config(nil)), 4, time.Hour)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.ServeHTTP(w, r.WithContext(responder.WithCaller(r.Context(), r.Header.Get("Authorization"))))
	}))
	defer server.Close()
	defer e.Close()
	ask := func(method, caller, session, body string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Authorization": {caller}, "Content-Type": {"application/json"},
			"Accept": {"application/json, text/event-stream"}, versionHeader: {legacy}}
		if session != "" {
			r.Header.Set(sessionHeader, session)
		}
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		if method == http.MethodPost {
			_, _ = io.Copy(io.Discard, res.Body)
		}
		return res.StatusCode, res.Header.Get(sessionHeader)
	}
	is := func(what string, got, want int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: status %d, want %d", what, got, want)
		}
	}
	const ping = `{"jsonrpc":"2.0","id":9,"method":"ping"}`
	_, quiet := ask(http.MethodPost, "other", "", initialize)
	var greedy []string
	for range 4 { // the fourth is there in place of the first
		_, id := ask(http.MethodPost, "greedy", "", initialize)
		greedy = append(greedy, id)
	}
	status, _ := ask(http.MethodPost, "greedy", greedy[0], ping)
	is("its oldest", status, http.StatusNotFound)
	for _, id := range greedy[1:] {
		status, _ := ask(http.MethodGet, "greedy", id, "")
		is("a stream", status, http.StatusOK)
	}
	status, _ = ask(http.MethodPost, "greedy", "", initialize)
	is("one more", status, http.StatusServiceUnavailable)
	status, _ = ask(http.MethodPost, "other", quiet, ping)
	is("that of another caller", status, http.StatusOK)
	status, _ = ask(http.MethodPost, "third", "", initialize)
	is("a new one of another", status, http.StatusOK)
}

func TestSessionEndsAfterItsIdleTimeout(t *testing.T) {
	server := NewServer(config(nil))
	url := serve(t, newEndpoint(server, 2, 500*time.Millisecond))
	open(t, url)
	deadline, tick := time.After(fixture.Patience), time.NewTicker(5*time.Millisecond)
	defer tick.Stop()
	for {
		left := 0
		for range server.Sessions() {
			left++
		}
		if left == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the session is still there")
		}
	}
}

func TestSessionsThatNeverBeganTakeNoRoom(t *testing.T) {
	url := serve(t, newEndpoint(NewServer(config(nil)), 1, time.Hour))
	for range 3 {
		res := post(t.Context(), t, url, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		_, _ = io.Copy(io.Discard, res.Body) // its end comes once it is served
		res.Body.Close()
	}
	open(t, url)
}

// Idempotency keys are per caller, so a call must know the sender of its
// request, not the creator of the session.
func TestCallKnowsWhoMadeItsRequest(t *testing.T) {
	said := make(chan string, 1)
	c := config(tools{"echo": func(ctx context.Context, _ json.RawMessage, _ func(v36.Progress)) (v36.Answer, error) {
		said <- responder.Caller(ctx)
		return v36.Answer{Envelope: []byte(`{}`), Markdown: "done"}, nil
	}})
	endpoint := Handler(NewServer(c))
	var name atomic.Value
	name.Store("first")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		endpoint.ServeHTTP(w, r.WithContext(responder.WithCaller(r.Context(), name.Load().(string))))
	}))
	defer server.Close()
	defer endpoint.Close()
	for _, revision := range []string{legacy, stateless} {
		client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, nil).Connect(t.Context(),
			&sdk.StreamableClientTransport{Endpoint: server.URL, MaxRetries: -1, HTTPClient: server.Client()},
			&sdk.ClientSessionOptions{ProtocolVersion: revision})
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"first", "second"} {
			name.Store(who)
			call(t, client, "echo", nil)
			if got := <-said; got != who {
				t.Errorf("%s: the caller is %q, want %q", revision, got, who)
			}
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A client that does not read its answer gives its connection back, in either revision.
func TestClientThatDoesNotReadIsCutOff(t *testing.T) {
	c := config(tools{"big": func(context.Context, json.RawMessage, func(v36.Progress)) (v36.Answer, error) {
		return v36.Answer{Markdown: strings.Repeat("x", 32<<20)}, nil
	}})
	e := Handler(NewServer(c))
	e.patience = 100 * time.Millisecond
	ended := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { ended <- struct{}{} }()
		e.ServeHTTP(w, r)
	}))
	defer server.Close()
	defer e.Close()
	session := open(t, server.URL)
	<-ended
	for len(ended) > 0 {
		<-ended
	}
	for name, request := range map[string]string{
		"a session": sessionHeader + ": " + session + "\r\n" + versionHeader + ": " + legacy + "\r\n@" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"big","arguments":{}}}`,
		"no session": versionHeader + ": " + stateless + "\r\nMcp-Method: tools/call\r\nMcp-Name: big\r\n@" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"big","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":` +
			`"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
	} {
		headers, body, _ := strings.Cut(request, "@")
		conn, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.(*net.TCPConn).SetReadBuffer(4096)
		fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAccept: application/json, "+
			"text/event-stream\r\nContent-Length: %d\r\n%s\r\n%s", len(body), headers, body)
		select {
		case <-ended:
		case <-time.After(fixture.Patience):
			t.Fatalf("%s: the request does not end", name)
		}
		conn.Close()
	}
}

// Servers of different tools share the bounds of sessions and calls.
func TestEndpointsShareTheirBounds(t *testing.T) {
	c, begun, ended := waiting()
	c.Calls = responder.NewSlots(1)
	one := newEndpoint(NewServer(c), 1, time.Hour)
	other := one.Beside(NewServer(c))
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	urls := []string{serve(t, one), serve(t, other)}
	old := open(t, urls[0])
	session := open(t, urls[1])
	if res := post(t.Context(), t, urls[0], `{"jsonrpc":"2.0","id":9,"method":"ping"}`, sessionHeader, old, versionHeader,
		legacy); res.StatusCode != http.StatusNotFound {
		t.Errorf("status %d of a session over the bound", res.StatusCode)
	}
	if one.Sessions() != 1 || other.Sessions() != 1 {
		t.Errorf("%d and %d sessions", one.Sessions(), other.Sessions())
	}
	go func() {
		if res, err := try(ctx, urls[1], callWait, sessionHeader, session, versionHeader, legacy); err == nil {
			res.Body.Close()
		}
	}()
	<-begun
	res := post(t.Context(), t, urls[0], modernWait, versionHeader, stateless, "Mcp-Method", "tools/call",
		"Mcp-Name", "wait")
	if b, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(b), "too many calls") {
		t.Errorf("a call over the bound: %d %s, %v", res.StatusCode, b, err)
	}
	leave()
	<-ended
}
