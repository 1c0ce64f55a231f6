package e2e

import (
	"io"
	"net/http"
	"testing"
)

// Health is for all; what tells or does anything is for who shows the token,
// and for nobody who comes by another name.
func TestUpServesHTTP(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	at := up(t, data)
	bearer, base := "Bearer "+at.Token, at.HTTP
	for _, c := range []struct {
		method, path  string
		header        map[string]string
		host          string
		code          int
		body, because string
	}{
		{method: "GET", path: "/healthz", code: 200, body: "ok\n", because: "it serves"},
		{method: "GET", path: "/readyz", code: 200, because: "it is ready"},
		{method: "POST", path: "/mcp", code: 401, because: "there is no token"},
		{method: "POST", path: "/mcp", header: map[string]string{"Authorization": "Bearer wrong"}, code: 401,
			because: "the token is another"},
		{method: "GET", path: "/nothing", code: 401, because: "without a token nobody learns what there is"},
		{method: "GET", path: "/nothing", header: map[string]string{"Authorization": bearer}, code: 404,
			because: "there is no such page"},
		{method: "POST", path: "/mcp", header: map[string]string{"Authorization": bearer}, host: "evil.example", code: 403,
			because: "the name is foreign"},
		{method: "POST", path: "/mcp", header: map[string]string{"Authorization": bearer, "Origin": "https://evil.example"},
			code: 403, because: "the page is foreign"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, base+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range c.header {
			r.Header.Set(k, v)
		}
		if c.host != "" {
			r.Host = c.host
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if answer.StatusCode != c.code || c.body != "" && string(body) != c.body {
			t.Errorf("%s %s: %d %.200q, want %d because %s", c.method, c.path, answer.StatusCode, body, c.code, c.because)
		}
	}
}
