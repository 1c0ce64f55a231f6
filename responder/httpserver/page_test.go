package httpserver

import (
	"net/http"
	"strings"
	"testing"
)

// A browser that opens the printed address gets an explanation. The page is for
// "/" without a token only, and the same for everyone.
func TestBrowserFindsAPageThatSaysWhereToGoOn(t *testing.T) {
	s := server(t, Config{Tokens: "/some/where/tokens.json"})
	s.Handle("GET /v1/runs/{run}", ok)
	s.Handle("POST /v1/runs/{run}", ok)
	s.Handle("POST /a2a", ok)
	s.Handle("POST /a2a/{$}", ok)
	s.Handle("/a2a/v1/", ok)
	s.Handle("GET /files/{path...}", ok)
	s.HandlePublic("GET /card", ok)
	w := ask(s, "GET", "/?next=<script>", "Authorization", "")
	body := w.Body.String()
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp,
		defaultHeaders["Content-Security-Policy"]) || !strings.Contains(csp, "form-action 'none'") {
		t.Errorf("Content-Security-Policy %q", csp)
	}
	for _, want := range []string{"<code>/healthz</code>", "<code>/readyz</code>", "<code>/card</code>",
		"<code>/v1/runs/{run}</code>", "<code>/a2a</code>",
		"<code>/a2a/v1/</code>", "<code>/files/{path}</code>", "the file <code>token</code>"} {
		if strings.Count(body, want) != 1 {
			t.Errorf("%q is not there once in\n%s", want, body)
		}
	}
	for _, never := range []string{"<script", "style", "href", "src", "http:", "some/where", token, "v0.", "{$}",
		"/a2a/<"} {
		if strings.Contains(body, never) {
			t.Errorf("%q is in\n%s", never, body)
		}
	}
	if w := ask(s, "HEAD", "/", "Authorization", ""); w.Code != http.StatusOK ||
		w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("HEAD: %d %v", w.Code, w.Header())
	}
	wantError(t, ask(s, "HEAD", "/", "Authorization", "Bearer wrong"), http.StatusUnauthorized, "UNAUTHORIZED")
	wantError(t, ask(s, "GET", "/", "Authorization", "Bearer wrong"), http.StatusUnauthorized, "UNAUTHORIZED")
	wantError(t, ask(s, "POST", "/", "Authorization", ""), http.StatusUnauthorized, "UNAUTHORIZED")
	wantError(t, ask(s, "GET", "/index.html", "Authorization", ""), http.StatusUnauthorized, "UNAUTHORIZED")
	wantError(t, ask(s, "GET", "/"), http.StatusNotFound, "NOT_FOUND")
	wantError(t, ask(s, "GET", "/", "Authorization", "", "Host", "evil.example"), http.StatusForbidden, "FORBIDDEN")
}
