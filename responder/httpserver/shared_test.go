package httpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// values is a store in memory, with the revisions and the expiry of a bucket.
type values struct {
	mu    sync.Mutex
	all   map[string]value
	last  uint64
	reads int
	away  bool
	lost  string // a key that cannot be read
}

type value struct {
	text     []byte
	revision uint64
	until    time.Time
}

func (v *values) Get(_ context.Context, key string) ([]byte, uint64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.reads++
	if v.away || v.lost == key {
		return nil, 0, errors.New("away")
	}
	one := v.present(key)
	return one.text, one.revision, nil
}

func (v *values) Put(_ context.Context, key string, text []byte, ttl time.Duration, revision uint64) (uint64, bool,
	error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.away {
		return 0, false, errors.New("away")
	}
	if v.present(key).revision != revision {
		return 0, false, nil
	}
	v.last++
	one := value{text: text, revision: v.last}
	if ttl > 0 {
		one.until = time.Now().Add(ttl)
	}
	if v.all == nil {
		v.all = map[string]value{}
	}
	v.all[key] = one
	return v.last, true, nil
}

func (v *values) present(key string) value {
	one := v.all[key]
	if !one.until.IsZero() && !time.Now().Before(one.until) {
		return value{}
	}
	return one
}

func (v *values) set(away bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.away = away
}

func (v *values) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.reads
}

// sharing are two servers with the same store, and with tokens and ports of their own.
func sharing(t *testing.T, store shared) (a, b *Server) {
	t.Helper()
	a, b = api(t, Config{Listen: "127.0.0.1:8422"}), api(t, Config{Listen: "127.0.0.1:8423", Token: "fedcba9876543210"})
	for _, s := range []*Server{a, b} {
		s.Share(t.Context(), store)
	}
	return a, b
}

func shareToken(t *testing.T, store shared, name string, scopes Scopes) string {
	t.Helper()
	token, err := CreateSharedToken(t.Context(), store, name, scopes, made)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// What one server accepts the other accepts, and a removed token is refused by both within a second.
func TestServersShareTokensLinksAndSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &values{}
		a, b := sharing(t, store)
		token := shareToken(t, store, "ci", Read)
		bearer := []string{"Authorization", "Bearer " + token}
		c := cookie(call(a, "POST", "/session", `{"token": "`+token+`"}`, "Content-Type", "application/json"))
		if c == nil {
			t.Fatal("no session")
		}
		var made struct{ Code string }
		w := call(a, "POST", "/signin", "", bearer...)
		if err := json.Unmarshal(w.Body.Bytes(), &made); w.Code != http.StatusCreated || err != nil {
			t.Fatalf("%d %s %v", w.Code, w.Body, err)
		}
		linked := cookie(call(b, "GET", SignInPath(made.Code), ""))
		if linked == nil || linked.Name != c.Name {
			t.Fatalf("a link at the other server: %v", linked)
		}
		if w := call(a, "GET", SignInPath(made.Code), ""); w.Code != http.StatusForbidden {
			t.Errorf("the link again: %d", w.Code)
		}
		each := func(want int) {
			t.Helper()
			for i, s := range []*Server{a, b} {
				for _, how := range [][]string{bearer, {"Cookie", c.String()}, {"Cookie", linked.String()}} {
					if w := call(s, "GET", "/v1/read", "", how...); w.Code != want {
						t.Errorf("server %d, %s: %d, want %d", i, how[0], w.Code, want)
					}
				}
			}
		}
		each(http.StatusOK)
		wantError(t, call(b, "GET", "/v1/raw", "", "Cookie", c.String()), http.StatusForbidden, "FORBIDDEN")

		// A link of the operator has all scopes, and counts once at any server.
		path, err := SharedSignInPath(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		owner := cookie(call(b, "GET", path, ""))
		if w := call(a, "GET", "/v1/raw", "", "Cookie", owner.String()); w.Code != http.StatusOK {
			t.Errorf("a session of the operator: %d %s", w.Code, w.Body)
		}

		if err := RemoveSharedToken(t.Context(), store, "ci"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(sharedTime)
		each(http.StatusUnauthorized)
		restarted, _ := sharing(t, store)
		wantError(t, call(restarted, "GET", "/v1/read", "", bearer...), http.StatusUnauthorized, "UNAUTHORIZED")
		if w := call(restarted, "GET", "/v1/raw", "", "Cookie", owner.String()); w.Code != http.StatusOK {
			t.Errorf("a session after a restart: %d %s", w.Code, w.Body)
		}
	})
}

// The token file is of one server: its sessions and links count there alone, and end with its token.
func TestSessionOfATokenFileIsOfItsServer(t *testing.T) {
	store := &values{}
	a, b := sharing(t, store)
	var made struct{ Code string }
	link := call(a, "POST", "/signin", "", "Authorization", "Bearer 0123456789abcdef")
	if err := json.Unmarshal(link.Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	if w := call(b, "GET", SignInPath(made.Code), ""); w.Code != http.StatusForbidden {
		t.Errorf("its link at the other: %d", w.Code)
	}
	for _, c := range []*http.Cookie{signIn(t, a), cookie(call(a, "GET", SignInPath(made.Code), ""))} {
		if w := call(a, "GET", "/v1/raw", "", "Cookie", c.String()); w.Code != http.StatusOK {
			t.Errorf("at its server: %d", w.Code)
		}
		if w := call(b, "GET", "/v1/read", "", "Cookie", c.String()); w.Code != http.StatusUnauthorized {
			t.Errorf("at the other: %d", w.Code)
		}
		again := api(t, Config{Listen: "127.0.0.1:8422", Token: "another-token-0123"})
		again.Share(t.Context(), store)
		if w := call(again, "GET", "/v1/read", "", "Cookie", c.String()); w.Code != http.StatusUnauthorized {
			t.Errorf("after its token was replaced: %d", w.Code)
		}
	}
}

// The token itself is stored nowhere, neither is a code.
func TestStoreHoldsNoTokens(t *testing.T) {
	store := &values{}
	token := shareToken(t, store, "ci", Read)
	a, _ := sharing(t, store)
	path, err := SharedSignInPath(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	call(a, "GET", "/v1/read", "", "Authorization", "Bearer "+token)
	for key, one := range store.all {
		if text := string(one.text); strings.Contains(text, token) || strings.Contains(text, path[len(SignInPath("")):]) {
			t.Errorf("%s: %s", key, text)
		}
	}
	if len(store.all) != 3 {
		t.Errorf("%d values", len(store.all))
	}
}

// A server asks the store when it is asked itself, not more than once a second for what it knows, and
// ten times for tokens that it does not know.
func TestStoreIsReadOnRequestAndSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &values{}
		s := api(t, Config{})
		s.Share(t.Context(), store)
		token, perRead := shareToken(t, store, "ci", Read), 2
		before := store.count()
		time.Sleep(time.Hour)
		if n := store.count() - before; n != 0 {
			t.Errorf("%d reads in an idle hour", n)
		}
		for range 1000 {
			call(s, "GET", "/v1/read", "", "Authorization", "Bearer "+token)
			time.Sleep(time.Millisecond)
		}
		if n := store.count() - before; n > 2*perRead {
			t.Errorf("%d reads for 1000 requests in a second", n)
		}
		before = store.count()
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() { call(s, "GET", "/v1/read", "", "Authorization", "Bearer wrong") })
			time.Sleep(time.Millisecond)
		}
		all.Wait()
		if n := store.count() - before; n > 13*perRead {
			t.Errorf("%d reads for 1000 wrong tokens in a second", n)
		}
		before = store.count()
		call(s, "GET", "/signin?code=guessed", "")
		if n := store.count() - before; n > perRead {
			t.Errorf("%d reads for what cannot be a code", n)
		}
	})
}

// While the store cannot be read, what was valid counts for 15 seconds. Then the answer is 503, not
// 401, which would make a page ask for a token. The token of the token file counts throughout.
func TestStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &values{}
		a, _ := sharing(t, store)
		token := shareToken(t, store, "ci", Read)
		session := cookie(call(a, "POST", "/session", `{"token": "`+token+`"}`, "Content-Type", "application/json"))
		ways := [][]string{{"Authorization", "Bearer " + token}, {"Cookie", session.String()}}
		all := func(want int) {
			t.Helper()
			for _, how := range ways {
				if w := call(a, "GET", "/v1/read", "", how...); w.Code != want {
					t.Errorf("%s: %d %s, want %d", how[0], w.Code, w.Body, want)
				}
			}
			if w := call(a, "GET", "/v1/read", "", "Authorization", "Bearer 0123456789abcdef"); w.Code != http.StatusOK {
				t.Errorf("the token of the file: %d", w.Code)
			}
		}
		all(http.StatusOK)
		store.set(true)
		time.Sleep(staleTime - time.Second)
		all(http.StatusOK)
		time.Sleep(2 * time.Second)
		all(http.StatusServiceUnavailable)
		wantError(t, call(a, "POST", "/signin", "", "Authorization", "Bearer "+token),
			http.StatusServiceUnavailable, "UNAVAILABLE")
		wantError(t, call(a, "GET", SignInPath(strings.Repeat("A", codeLength)), ""), http.StatusServiceUnavailable,
			"UNAVAILABLE")
		store.set(false)
		time.Sleep(retryTime)
		all(http.StatusOK)
	})
}

// A link is not used up by a server that could not seal a session of it.
func TestLinkOutlivesAServerThatKnowsNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &values{}
		a, _ := sharing(t, store)
		token := shareToken(t, store, "ci", Read)
		session := cookie(call(a, "POST", "/session", `{"token": "`+token+`"}`, "Content-Type", "application/json"))
		w := call(a, "POST", "/signin", "", "Authorization", "Bearer "+token)
		var made struct{ Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body, err)
		}
		store.lost = sharedKey
		late := api(t, Config{Listen: "127.0.0.1:8424", Token: "aaaaaaaaaaaaaaaa"})
		late.Share(t.Context(), store)
		wantError(t, call(late, "GET", SignInPath(made.Code), ""), http.StatusServiceUnavailable, "UNAVAILABLE")
		expired := sealer{}.seal(identity{1}, time.Now().Add(-time.Second))
		own, sealed := signIn(t, late), session.Name+"="+session.Value
		for cookies, want := range map[string]int{
			sealed: http.StatusServiceUnavailable, session.Name + "=x; " + sealed: http.StatusServiceUnavailable,
			sealed + "; " + own.String(): http.StatusOK,
			// These can be no sessions of the key.
			"other=1": http.StatusUnauthorized, session.Name + "=x": http.StatusUnauthorized,
			own.Name + "=" + session.Value: http.StatusUnauthorized, "linesman_z=" + session.Value: http.StatusUnauthorized,
			session.Name + "=" + expired: http.StatusUnauthorized,
		} {
			if w := call(late, "GET", "/v1/read", "", "Cookie", cookies); w.Code != want {
				t.Errorf("with %q: %d, want %d", cookies, w.Code, want)
			}
		}
		out := call(late, "DELETE", "/session", "", "Cookie", "other=1; "+sealed+"; "+own.String())
		if names := strings.Join(out.Header().Values("Set-Cookie"), "\n"); strings.Contains(names, "other=") ||
			!strings.Contains(names, session.Name+"=;") || !strings.Contains(names, own.Name+"=;") {
			t.Errorf("signing out leaves a session: %s", names)
		}
		store.lost = ""
		time.Sleep(retryTime)
		if w := call(late, "GET", "/v1/read", "", "Cookie", sealed); w.Code != http.StatusOK {
			t.Errorf("a session once the key is known: %d %s", w.Code, w.Body)
		}
		signed := call(late, "GET", SignInPath(made.Code), "")
		if signed.Code != http.StatusSeeOther {
			t.Fatalf("%d %s", signed.Code, signed.Body)
		}
		if w := call(a, "GET", "/v1/read", "", "Cookie", cookie(signed).String()); w.Code != http.StatusOK {
			t.Errorf("its session elsewhere: %d %s", w.Code, w.Body)
		}
	})
}

// A token that a server does not know may be new while the store cannot be read, so the answer is 503.
func TestUnknownTokenWhileTheStoreIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &values{}
		a, _ := sharing(t, store)
		token := shareToken(t, store, "ci", Read)
		store.set(true)
		time.Sleep(sharedTime)
		wantError(t, call(a, "GET", "/v1/read", "", "Authorization", "Bearer "+token), http.StatusServiceUnavailable,
			"UNAVAILABLE")
		wantError(t, call(a, "GET", "/v1/read", ""), http.StatusUnauthorized, "UNAUTHORIZED")
		wantError(t, call(a, "GET", "/v1/read", "", "Authorization", "Basic x"), http.StatusUnauthorized, "UNAUTHORIZED")
		store.set(false)
		time.Sleep(retryTime)
		if w := call(a, "GET", "/v1/read", "", "Authorization", "Bearer "+token); w.Code != http.StatusOK {
			t.Errorf("once it is there: %d %s", w.Code, w.Body)
		}
		wantError(t, call(a, "GET", "/v1/read", "", "Authorization", "Bearer wrong"), http.StatusUnauthorized, "UNAUTHORIZED")
	})
}

// A link is not used up by a server that cannot know its token, because the last read of the tokens failed.
func TestLinkOutlivesAServerThatDoesNotKnowItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &values{}
		a, b := sharing(t, store)
		operator, err := SharedSignInPath(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		token := shareToken(t, store, "ci", Read)
		w := call(a, "POST", "/signin", "", "Authorization", "Bearer "+token)
		var made struct{ Code string }
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body, err)
		}
		session := cookie(call(a, "POST", "/session", `{"token": "`+token+`"}`, "Content-Type", "application/json"))
		store.set(true)
		time.Sleep(sharedTime)
		wantError(t, call(b, "GET", "/v1/read", "", "Authorization", "Bearer "+token), http.StatusServiceUnavailable,
			"UNAVAILABLE")
		store.set(false)
		wantError(t, call(b, "GET", SignInPath(made.Code), ""), http.StatusServiceUnavailable, "UNAVAILABLE")
		wantError(t, call(b, "GET", "/signin?code=used", "", "Cookie", session.String()), http.StatusServiceUnavailable,
			"UNAVAILABLE")
		if w := call(b, "GET", operator, ""); w.Code != http.StatusSeeOther {
			t.Errorf("a link of the operator: %d %s", w.Code, w.Body)
		}
		time.Sleep(retryTime)
		if w := call(b, "GET", SignInPath(made.Code), ""); w.Code != http.StatusSeeOther {
			t.Errorf("once its token is known: %d %s", w.Code, w.Body)
		}
	})
}

func TestSharedTokensAndCodesAreBounded(t *testing.T) {
	store := &values{}
	token := shareToken(t, store, "ci", Read)
	a, _ := sharing(t, store)
	for range 2 * maxCodes {
		if _, err := SharedSignInPath(t.Context(), store); err != nil {
			t.Fatal(err)
		}
	}
	list, _, err := readShared[codeList](t.Context(), store, sharedCodes)
	if err != nil || len(list.Codes) != maxCodes {
		t.Errorf("%d codes, %v; want %d", len(list.Codes), err, maxCodes)
	}
	list = codeList{}
	for i := range maxAllCodes {
		list.Codes = append(list.Codes, signInCode{identity{1, byte(i), byte(i >> 8)}, identity{2, byte(i), byte(i >> 8)},
			time.Now().Add(codeTime)})
	}
	fill := func(l *codeList) error { *l = list; return nil }
	if err := changeShared(t.Context(), store, sharedCodes, 0, fill); err != nil {
		t.Fatal(err)
	}
	wantError(t, call(a, "POST", "/signin", "", "Authorization", "Bearer "+token), http.StatusTooManyRequests,
		"TOO_MANY_REQUESTS")

	var full tokensFile
	for i := range maxTokens {
		full.Tokens = append(full.Tokens, Named{Name: fmt.Sprintf("%060d", i), SHA256: strings.Repeat("0", 64),
			Scopes: allScopes.Names(), Created: made})
	}
	fillTokens := func(f *tokensFile) error { *f = full; return nil }
	if err := changeShared(t.Context(), store, sharedTokens, 0, fillTokens); err != nil {
		t.Fatal(err)
	}
	if _, err := CreateSharedToken(t.Context(), store, "more", Read, made); err == nil || !strings.Contains(err.Error(),
		"at most 1000 tokens") {
		t.Errorf("one more: %v", err)
	}
}

// Of concurrent changes none is lost, and a link counts once at all servers together.
func TestConcurrentChangesOfTheStore(t *testing.T) {
	store := &values{}
	a, b := sharing(t, store)
	path := a.SignInPath()
	var all sync.WaitGroup
	var signedIn sync.Map
	for i := range 8 {
		all.Go(func() {
			shareToken(t, store, fmt.Sprintf("t%d", i), Read)
			if c := cookie(call([]*Server{a, b}[i%2], "GET", path, "")); c != nil {
				signedIn.Store(i, c)
			}
		})
	}
	all.Wait()
	if list, err := ListSharedTokens(t.Context(), store); err != nil || len(list) != 8 {
		t.Errorf("%d tokens, %v", len(list), err)
	}
	n := 0
	signedIn.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("a link signed in %d times", n)
	}
}

func TestDamagedSharedTokensLetNobodyIn(t *testing.T) {
	store := &values{}
	a, _ := sharing(t, store)
	token := shareToken(t, store, "ci", Read)
	for _, text := range []string{"{", `{"tokens":[{"name":"ci","sha256":"00","scopes":["read"]}]}`} {
		store.all[sharedTokens] = value{text: []byte(text), revision: 99}
		a.access.tried, a.access.read = time.Time{}, time.Time{}
		if w := call(a, "GET", "/v1/read", "", "Authorization", "Bearer "+token); w.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: %d", text, w.Code)
		}
	}
	store.all[sharedTokens] = value{text: []byte("{"), revision: 99}
	if _, err := CreateSharedToken(t.Context(), store, "more", Read, made); err == nil {
		t.Error("damaged tokens were overwritten")
	}
}
