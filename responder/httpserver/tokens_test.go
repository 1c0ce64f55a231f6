package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

var made = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func create(t *testing.T, path, name string, scopes Scopes) string {
	t.Helper()
	token, err := CreateToken(path, name, scopes, made)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestTokenReachesWhatItsScopesCover(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	s := server(t, Config{Tokens: path})
	s.Handle("POST /all", ok)
	handlers := map[string]Scopes{
		"/read": Read, "/submit": Submit, "/raw": raw, "/both": Read | raw, "/all": Read | Submit | raw,
	}
	for name, needed := range handlers {
		if name != "/all" {
			s.HandleFor(needed, "POST "+name, ok)
		}
	}
	for there := Read; there <= allScopes; there++ {
		if there&Read == 0 {
			continue
		}
		token := create(t, path, fmt.Sprintf("t%d", there), there)
		for name, needed := range handlers {
			w := ask(s, "POST", name, "Authorization", "Bearer "+token)
			if needed&^there == 0 {
				if w.Code != http.StatusOK {
					t.Errorf("%s with %v: %d %s", name, there, w.Code, w.Body)
				}
				continue
			}
			wantError(t, w, http.StatusForbidden, "FORBIDDEN")
			for _, missing := range (needed &^ there).Names() {
				if !strings.Contains(w.Body.String(), missing) {
					t.Errorf("%s with %v: %s is not named: %s", name, there, missing, w.Body)
				}
			}
			if got := w.Header().Get("WWW-Authenticate"); !strings.Contains(got, `scope="`+strings.Join(needed.Names(), " ")+
				`"`) {
				t.Errorf("%s with %v: WWW-Authenticate is %q", name, there, got)
			}
		}
	}
	if w := ask(s, "POST", "/all"); w.Code != http.StatusOK {
		t.Errorf("the token of the token file: %d", w.Code)
	}
}

func TestCallerIsTheNameOfTheToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	s := server(t, Config{Tokens: path})
	s.HandleFor(Read, "GET /x", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "by %q", Caller(r.Context()))
	}))
	token := create(t, path, "ci", Read)
	for _, c := range []struct{ token, want string }{{token, `by "ci"`}, {"0123456789abcdef", `by ""`}} {
		if w := ask(s, "GET", "/x", "Authorization", "Bearer "+c.token); w.Body.String() != c.want {
			t.Errorf("%s, want %s", w.Body, c.want)
		}
	}
}

func TestTokenCountsFromItsCreationToItsRemoval(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	s := server(t, Config{Tokens: path})
	s.HandleFor(Read, "GET /x", ok)
	status := func(token string) int { return ask(s, "GET", "/x", "Authorization", "Bearer "+token).Code }
	if got := status(strings.Repeat("0", 64)); got != http.StatusUnauthorized {
		t.Fatalf("without a file: %d", got)
	}
	for range 20 { // removed and created again: the file changes, its size does not
		token := create(t, path, "ci", Read)
		if got := status(token); got != http.StatusOK {
			t.Fatalf("a new token: %d", got)
		}
		if err := RemoveToken(path, "ci"); err != nil {
			t.Fatal(err)
		}
		if got := status(token); got != http.StatusUnauthorized {
			t.Fatalf("a removed token: %d", got)
		}
	}
	token := create(t, path, "ci", Read)
	if status(token) != http.StatusOK {
		t.Fatal("a new token does not count")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if got := status(token); got != http.StatusUnauthorized {
		t.Errorf("the file is gone: %d", got)
	}
}

// A file that cannot be read is logged once, and once more if it could be read in between.
func TestUnreadableTokensAreToldOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	core, seen := observer.New(zap.WarnLevel)
	s := server(t, Config{Tokens: path, Log: zap.New(core)})
	s.HandleFor(Read, "GET /x", ok)
	for i, unreadable := range []func() error{
		func() error { return os.Symlink(path, path) }, // of itself: opening it fails
		func() error { return os.Mkdir(path, 0o700) },
		func() error { return os.Mkdir(path, 0o700) },
		func() error { return os.WriteFile(path, []byte("{"), 0o600) },
	} {
		if err := unreadable(); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if w := ask(s, "GET", "/x", "Authorization", "Bearer wrong"); w.Code != http.StatusUnauthorized {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		if n := seen.Len(); n != i+1 {
			t.Errorf("%d lines, want %d", n, i+1)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		token := create(t, path, "ci", Read)
		if w := ask(s, "GET", "/x", "Authorization", "Bearer "+token); w.Code != http.StatusOK {
			t.Errorf("once it can be read: %d", w.Code)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
}

// Streams of a token end when it is removed, those of a session of it too, and no others.
func TestRemovedTokenEndsItsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "tokens.json")
		s := server(t, Config{Tokens: path})
		ended := make(chan string, 3)
		s.HandleFor(Read, "GET /v1/stream", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
			ended <- Caller(r.Context())
		}))
		ci, other := create(t, path, "ci", Read), create(t, path, "other", Read)
		session := cookie(call(s, "POST", "/session", `{"token":"`+ci+`"}`, "Content-Type", "application/json"))
		ctx, leave := context.WithCancel(t.Context())
		for _, header := range [][2]string{
			{"Authorization", "Bearer " + ci}, {"Cookie", session.String()}, {"Authorization", "Bearer " + other},
		} {
			r := httptest.NewRequestWithContext(ctx, "GET", "http://localhost/v1/stream", nil)
			r.Header.Set(header[0], header[1])
			go s.handler().ServeHTTP(httptest.NewRecorder(), r)
		}
		time.Sleep(time.Minute)
		if len(ended) != 0 {
			t.Fatalf("a stream of %q ended", <-ended)
		}
		if err := RemoveToken(path, "ci"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * patient.token)
		if len(ended) != 2 || <-ended != "ci" || <-ended != "ci" {
			t.Errorf("%d streams of the removed token did not end, or others did", 2-len(ended))
		}
		leave()
		if got := <-ended; got != "other" {
			t.Errorf("the last one to end is of %q", got)
		}
	})
}

func TestDamagedTokensLetNobodyInAndAreKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	s := server(t, Config{Tokens: path})
	s.HandleFor(Read, "GET /x", ok)
	token := create(t, path, "ci", Read)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, bad := range map[string]string{
		"torn":     string(good[:len(good)/2]),
		"scope":    strings.Replace(string(good), `"read"`, `"rule"`, 1),
		"no scope": strings.Replace(string(good), `"read"`, "", 1),
		"hash":     strings.Replace(string(good), `"sha256": "`, `"sha256": "00`, 1),
		"large":    string(good) + strings.Repeat(" ", maxTokensFile),
	} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if w := ask(s, "GET", "/x", "Authorization", "Bearer "+token); w.Code != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, w.Code)
		}
		if w := ask(s, "GET", "/x"); w.Code != http.StatusOK {
			t.Errorf("%s: the token of the token file: %d", name, w.Code)
		}
		if _, err := CreateToken(path, "more", Read, made); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want an error with the path", name, err)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != bad {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestTokensAreStoredAsHashesAndPrivate(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens.json")
	const makers = 16
	all := make([]string, makers)
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			var err error
			if all[i], err = CreateToken(path, fmt.Sprintf("t%d", i), allScopes, made); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, err := ListTokens(path)
	if err != nil || len(list) != makers {
		t.Fatalf("%d tokens, %v; want %d", len(list), err, makers)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range all {
		if len(token) != 64 || strings.Contains(string(content), token) {
			t.Errorf("a token of %d characters, or it is in the file", len(token))
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, %v; want 0600", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".tokens-*")); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestTokensAreLimitedAndHaveNames(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	if list, err := ListTokens(path); err != nil || len(list) != 0 {
		t.Errorf("no file: %v, %v", list, err)
	}
	if err := RemoveToken(path, "secret-token"); !errors.Is(err, errNoToken) || strings.Contains(err.Error(), "secret") {
		t.Errorf("remove what is not there: %v", err)
	}
	create(t, path, "ci", Read)
	if _, err := CreateToken(path, "ci", Read, made); !errors.Is(err, errKnownToken) {
		t.Errorf("a name that is taken: %v", err)
	}
	for _, name := range []string{"", "a b", "é", strings.Repeat("x", 65)} {
		if _, err := CreateToken(path, name, Read, made); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
	err := changeTokens(path, func(f *tokensFile) error {
		for len(f.Tokens) < maxTokens {
			f.Tokens = append(f.Tokens, f.Tokens[0])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CreateToken(path, "more", Read, made); err == nil || !strings.Contains(err.Error(), "at most 1000") {
		t.Errorf("over the bound: %v", err)
	}
}

func TestScopesRoundTrip(t *testing.T) {
	for list, want := range map[string]Scopes{
		"read": Read, "read,submit": Read | Submit, "raw, read": Read | raw,
		"read,submit,raw": Read | Submit | raw, "read,submit,raw,answer": allScopes, "read,read": Read,
		"": 0, "submit": 0, "read,": 0, "READ": 0, "read;submit": 0, "all": 0,
	} {
		got, err := ParseScopes(list)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %v, %v; want %v", list, got, err, want)
		}
		if again, err := ParseScopes(got.String()); want != 0 && (err != nil || again != got) {
			t.Errorf("%q: %q is read as %v, %v", list, got.String(), again, err)
		}
	}
}
