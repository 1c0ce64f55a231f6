package httpserver

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
)

// The scope metrics is for /metrics alone, and nothing else is for it.
func TestMetricsHaveAScopeOfTheirOwn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	s := server(t, Config{Tokens: path, Metrics: ok})
	s.HandleFor(Read, "GET /read", ok)
	s.Handle("POST /all", ok)
	scraper, reader := create(t, path, "scraper", metrics), create(t, path, "reader", allScopes)
	for _, held := range []bool{false, true} { // while NATS is away, too
		if s.Release(); held {
			s.Hold()
		}
		for bearer, want := range map[string]int{
			"": http.StatusUnauthorized, "wrong": http.StatusUnauthorized, scraper: http.StatusOK, token: http.StatusOK,
			reader: http.StatusForbidden,
		} {
			if w := ask(s, "GET", "/metrics", "Authorization", "Bearer "+bearer); w.Code != want {
				t.Errorf("/metrics with %.4q, held %v: %d, want %d", bearer, held, w.Code, want)
			}
		}
	}
	s.Release()
	for _, c := range [][2]string{{"GET", "/read"}, {"POST", "/all"}, {"POST", "/signin"}} {
		wantError(t, ask(s, c[0], c[1], "Authorization", "Bearer "+scraper), http.StatusForbidden, "FORBIDDEN")
	}
	wantError(t, call(s, "POST", "/session", `{"token":"`+scraper+`"}`, "Content-Type", "application/json"),
		http.StatusForbidden, "FORBIDDEN")
	wantError(t, ask(s, "POST", "/metrics", "Authorization", "Bearer "+scraper), http.StatusMethodNotAllowed,
		"METHOD_NOT_ALLOWED")
	wantError(t, ask(s, "GET", "/metrics", "Host", "evil.example"), http.StatusForbidden, "FORBIDDEN")
	wantError(t, ask(server(t, Config{}), "GET", "/metrics"), http.StatusNotFound, "NOT_FOUND")
	for list, want := range map[string]bool{
		"metrics": true, "read,metrics": true, "read,submit,raw,metrics": true, "submit,metrics": false, "raw,metrics": false,
	} {
		if scopes, err := ParseScopes(list); (err == nil) != want || want && scopes.String() != list {
			t.Errorf("%q: %v, %v", list, scopes, err)
		}
	}
}

// A monitor serves what a probe and a scraper need, without a token, and nothing else.
func TestMonitorHasHealthAndMetricsOnly(t *testing.T) {
	missing := errors.New("the queue is away")
	s, err := New(Config{
		Listen: "127.0.0.1:0", Monitor: true, Metrics: ok,
		Ready: func(context.Context) error { return missing },
		Role:  func() string { return "standby" },
	})
	if err != nil {
		t.Fatal(err)
	}
	get := func(method, path, host string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		return w
	}
	const here = "127.0.0.1:8423"
	for path, want := range map[string]int{
		"/healthz": 200, "/readyz": 503, "/metrics": 200, "/": 404, "/v1/runs": 404, "/mcp": 404, "/metrics/x": 404,
	} {
		if w := get("GET", path, here); w.Code != want {
			t.Errorf("%s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
	if got := get("GET", "/readyz", here).Body.String(); got != "the queue is away\n" {
		t.Errorf("the reason is %q", got)
	}
	missing = nil
	if w := get("GET", "/readyz", here); w.Code != http.StatusOK || w.Body.String() != "standby\n" {
		t.Errorf("/readyz: %d %q", w.Code, w.Body)
	}
	if w := get("GET", "/metrics", "evil.example"); w.Code != http.StatusForbidden {
		t.Errorf("a foreign host: %d", w.Code)
	}
	if w := get("POST", "/metrics", here); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST /metrics: %d", w.Code)
	}
}
