package httpserver

import (
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"
)

// Public handlers answer everyone except foreign pages; handlers can read the
// scopes of a token.
func TestPublicNeedsNoTokenAndHandlersKnowScopes(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	reader, err := CreateToken(tokens, "reader", Read, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	s := server(t, Config{Tokens: tokens})
	s.HandlePublic("GET /card", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if Allows(r.Context(), Read) {
			t.Error("nobody may read")
		}
		_, _ = io.WriteString(w, "card")
	}))
	s.HandleFor(Read, "/door", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for scope, word := range map[Scopes]string{Read: "read ", Submit: "submit ", raw: "raw "} {
			if Allows(r.Context(), scope) {
				w.Header().Add("May", word)
			}
		}
	}))
	addr, _ := start(t, s)
	for _, c := range []struct {
		method, path, bearer, host string
		code, may                  int
	}{
		{"GET", "/card", "", "", 200, 0},
		{"GET", "/card", "wrong", "", 200, 0},
		{"GET", "/card", "", "evil.example", 403, 0},
		{"POST", "/card", "", "", 401, 0},
		{"GET", "/card/x", "", "", 401, 0},
		{"GET", "/door", "", "", 401, 0},
		{"GET", "/door", reader, "", 200, 1},
		{"GET", "/door", token, "", 200, 3},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, "http://"+addr+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Close = true
		if c.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+c.bearer)
		}
		if c.host != "" {
			r.Host = c.host
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if may := len(answer.Header.Values("May")); answer.StatusCode != c.code || may != c.may {
			t.Errorf("%s %s: %d with %d scopes, want %d with %d", c.method, c.path, answer.StatusCode, may, c.code, c.may)
		}
	}
}
