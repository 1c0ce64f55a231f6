package httpserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// call makes a request as a browser does, without a network.
func call(s *Server, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8422"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Add(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

// cookie is the cookie that a response sets, nil if none.
func cookie(w *httptest.ResponseRecorder) *http.Cookie {
	for _, c := range w.Result().Cookies() {
		return c
	}
	return nil
}

// signIn follows a new link.
func signIn(t *testing.T, s *Server, header ...string) *http.Cookie {
	t.Helper()
	w := call(s, "GET", s.SignInPath(), "", header...)
	c := cookie(w)
	if w.Code != http.StatusSeeOther || c == nil {
		t.Fatalf("signin: %d %v", w.Code, w.Header())
	}
	return c
}

// api is a server with a path for each scope.
func api(t *testing.T, c Config) *Server {
	t.Helper()
	s := server(t, c)
	name := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "by %q", Caller(r.Context())) })
	for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
		s.HandleFor(Read, method+" /v1/read", name)
		s.HandleFor(Submit, method+" /v1/submit", name)
		s.HandleFor(raw, method+" /v1/raw", name)
	}
	s.Handle("/mcp", name)
	s.HandleFor(Read, "/a2a", name)
	return s
}

func TestLinkSignsInOnce(t *testing.T) {
	s := api(t, Config{Version: "v9"})
	link := s.SignInPath()
	w := call(s, "GET", link+"&next=/runs/T-local-1", "")
	c := cookie(w)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/runs/T-local-1" || c == nil {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if c.Name != "linesman_0" || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Secure ||
		c.Domain != "" || c.MaxAge != 30*24*60*60 {
		t.Errorf("cookie %+v", c)
	}
	use := []string{"Cookie", c.Name + "=" + c.Value}
	for _, path := range []string{"/v1/read", "/v1/submit", "/v1/raw"} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			if w := call(s, method, path, "", use...); w.Code != http.StatusOK || w.Body.String() != `by ""` {
				t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
			}
		}
	}
	w = call(s, "GET", "/session", "", use...)
	if want := `{"scopes":["read","submit","raw","answer"],"name":"","version":"v9"}` + "\n"; w.Code != 200 ||
		w.Body.String() != want {
		t.Errorf("session: %d %s", w.Code, w.Body)
	}
	// The same link again: nothing for others, and a redirect for the browser that is signed in.
	if w := call(s, "GET", link, ""); w.Code != http.StatusForbidden || cookie(w) != nil ||
		!strings.Contains(w.Body.String(), "linesman page") {
		t.Errorf("replayed: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := call(s, "GET", link, "", use...); w.Code != http.StatusSeeOther || cookie(w) != nil {
		t.Errorf("replayed by its owner: %d %v", w.Code, w.Header())
	}
}

func TestSessionOfATokenHasItsScopesAndEndsWithIt(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	s := api(t, Config{Tokens: tokens})
	reader := create(t, tokens, "dashboard", Read)
	body := `{"token": "` + reader + `"}`
	w := call(s, "POST", "/session", body, "Content-Type", "application/json")
	c := cookie(w)
	if want := `{"scopes":["read"],"name":"dashboard","version":"dev"}` + "\n"; w.Code != 200 || c == nil ||
		w.Body.String() != want {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	use := []string{"Cookie", c.Name + "=" + c.Value}
	if w := call(s, "GET", "/v1/read", "", use...); w.Code != 200 || w.Body.String() != `by "dashboard"` {
		t.Errorf("read: %d %s", w.Code, w.Body)
	}
	wantError(t, call(s, "POST", "/v1/submit", "", use...), http.StatusForbidden, "FORBIDDEN")
	wantError(t, call(s, "GET", "/v1/raw", "", use...), http.StatusForbidden, "FORBIDDEN")

	// A link that the token asks for has no more than the token.
	w = call(s, "POST", "/signin", "", "Authorization", "Bearer "+reader)
	var made struct {
		Code      string
		ExpiresAt time.Time
	}
	if err := json.Unmarshal(w.Body.Bytes(), &made); w.Code != http.StatusCreated || err != nil {
		t.Fatalf("%d %s %v", w.Code, w.Body, err)
	}
	linked := cookie(call(s, "GET", SignInPath(made.Code), ""))
	wantError(t, call(s, "GET", "/v1/raw", "", "Cookie", linked.String()), http.StatusForbidden, "FORBIDDEN")
	unused := call(s, "POST", "/signin", "", "Authorization", "Bearer "+reader)
	if err := json.Unmarshal(unused.Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}

	if err := RemoveToken(tokens, "dashboard"); err != nil {
		t.Fatal(err)
	}
	wantError(t, call(s, "GET", "/v1/read", "", use...), http.StatusUnauthorized, "UNAUTHORIZED")
	if w := call(s, "GET", SignInPath(made.Code), ""); w.Code != http.StatusForbidden || cookie(w) != nil {
		t.Errorf("a link of a removed token: %d %v", w.Code, w.Header())
	}
	create(t, tokens, "dashboard", allScopes) // another token of the same name
	wantError(t, call(s, "GET", "/v1/read", "", use...), http.StatusUnauthorized, "UNAUTHORIZED")
}

// Each request has a valid cookie unless it says otherwise, and none is carried out.
func TestAttacksOnSessions(t *testing.T) {
	const ours, json, form = "http://127.0.0.1:8422", "application/json", "application/x-www-form-urlencoded"
	s := api(t, Config{})
	elsewhere, err := New(Config{Listen: "127.0.0.1:0", Token: "fedcba9876543210"})
	if err != nil {
		t.Fatal(err)
	}
	port := api(t, Config{Listen: "127.0.0.1:8423"})
	valid := signIn(t, s).Value
	altered := func(at int) string {
		b, err := base64.RawURLEncoding.DecodeString(valid)
		if err != nil {
			t.Fatal(err)
		}
		b[at] ^= 1
		return base64.RawURLEncoding.EncodeToString(b)
	}
	token := `{"token": "` + token + `"}`
	for _, c := range []struct {
		name, method, path, body, cookie string
		header                           []string
		code                             int
	}{
		{"cross-site form", "POST", "/v1/submit", "a=b", valid,
			[]string{"Origin", "http://evil.example", "Content-Type", form}, 403},
		{"cross-site GET", "GET", "/v1/read", "", valid, []string{"Sec-Fetch-Site", "cross-site"}, 401},
		{"cross-site POST", "POST", "/v1/submit", "", valid, []string{"Sec-Fetch-Site", "cross-site"}, 401},
		{"cross-site PUT", "PUT", "/v1/read", "", valid, []string{"Sec-Fetch-Site", "cross-site"}, 401},
		{"cross-site DELETE", "DELETE", "/v1/read", "", valid, []string{"Sec-Fetch-Site", "cross-site"}, 401},
		{"cross-site sign-out", "DELETE", "/session", "", valid, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{"cross-site sign-in", "POST", "/session", token, "",
			[]string{"Sec-Fetch-Site", "cross-site", "Content-Type", json}, 403},
		{"sign-in by a form", "POST", "/session", token, "", []string{"Content-Type", "text/plain"}, 415},
		{"page on another port, GET", "GET", "/v1/read", "", valid, []string{"Sec-Fetch-Site", "same-site"}, 401},
		{"page on another port, POST", "POST", "/v1/submit", "", valid, []string{"Sec-Fetch-Site", "same-site"}, 401},
		{"page on another port, no Sec-Fetch-Site", "POST", "/v1/submit", "", valid,
			[]string{"Origin", "http://127.0.0.1:3000"}, 401},
		{"page on another name, no Sec-Fetch-Site", "POST", "/v1/submit", "", valid,
			[]string{"Origin", "http://localhost:8422"}, 401},
		{"page on another port reads, no Sec-Fetch-Site", "GET", "/v1/read", "", valid,
			[]string{"Origin", "http://127.0.0.1:3000"}, 401},
		{"page on another name reads, no Sec-Fetch-Site", "HEAD", "/v1/read", "", valid,
			[]string{"Origin", "http://localhost:8422"}, 401},
		{"page on another port reads the session", "GET", "/session", "", valid,
			[]string{"Origin", "http://127.0.0.1:3000"}, 401},
		{"two origins", "GET", "/v1/read", "", valid, []string{"Origin", ours, "Origin", "http://127.0.0.1:3000"}, 401},
		{"sign-out from another port", "DELETE", "/session", "", valid, []string{"Origin", "http://127.0.0.1:3000"}, 403},
		{"opaque origin", "POST", "/v1/submit", "", valid, []string{"Origin", "null"}, 403},
		{"foreign host", "GET", "/v1/read", "", valid, []string{"Host", "evil.example"}, 403},
		{"foreign host signs in", "GET", s.SignInPath(), "", "", []string{"Host", "evil.example"}, 403},
		{"unknown method", "PROPFIND", "/session", "", valid, nil, 405},
		{"code in a HEAD", "HEAD", s.SignInPath(), "", "", nil, 405},
		{"guessed code", "GET", "/signin?code=AAAAAAAAAAAAAAAAAAAAAAAAAA", "", "", nil, 403},
		{"empty code", "GET", "/signin?code=", "", "", nil, 403},
		{"no code", "GET", "/signin", "", "", nil, 403},
		{"code by cookie", "POST", "/signin", "", valid, nil, 401},
		{"code by a wrong token", "POST", "/signin", "", "", []string{"Authorization", "Bearer wrong"}, 401},
		{"wrong token", "POST", "/session", `{"token": "0123456789abcdee"}`, "", []string{"Content-Type", json}, 401},
		{"empty token", "POST", "/session", `{"token": ""}`, "", []string{"Content-Type", json}, 401},
		{"no JSON", "POST", "/session", `token`, "", []string{"Content-Type", json}, 400},
		{"huge sign-in", "POST", "/session", `{"token": "` + strings.Repeat("x", maxSignIn) + `"}`, "",
			[]string{"Content-Type", json}, 400},
		{"forged: empty", "GET", "/v1/read", "", "", nil, 401},
		{"forged: zeros", "GET", "/v1/read", "", strings.Repeat("A", len(valid)), nil, 401},
		{"forged: the token itself", "GET", "/v1/read", "", "0123456789abcdef", nil, 401},
		{"altered: later end", "GET", "/v1/read", "", altered(3), nil, 401},
		{"altered: another identity", "GET", "/v1/read", "", altered(20), nil, 401},
		{"altered: MAC", "GET", "/v1/read", "", altered(sealed - 1), nil, 401},
		{"cut", "GET", "/v1/read", "", valid[:len(valid)-4], nil, 401},
		{"longer", "GET", "/v1/read", "", valid + "AAAA", nil, 401},
		{"of another data directory", "GET", "/v1/read", "", elsewhere.ownSealer().seal(identity{}, time.Now().Add(time.Hour)), nil, 401},
		{"of another port", "GET", "/v1/read", "", port.ownSealer().seal(identity{}, time.Now().Add(time.Hour)), nil, 401},
		{"of no token", "GET", "/v1/read", "", s.ownSealer().seal(identity{1}, time.Now().Add(time.Hour)), nil, 401},
		{"of the hash of the token", "GET", "/v1/read", "", s.ownSealer().seal(s.token, time.Now().Add(time.Hour)), nil, 401},
		{"expired", "GET", "/v1/read", "", s.ownSealer().seal(identity{}, time.Now()), nil, 401},
		{"MCP", "POST", "/mcp", "", valid, nil, 401},
		{"A2A", "POST", "/a2a", "", valid, nil, 401},
		{"beside a wrong token", "GET", "/v1/read", "", valid, []string{"Authorization", "Bearer wrong"}, 401},
	} {
		header := c.header
		if c.cookie != "" {
			header = append(header, "Cookie", "linesman_0="+c.cookie)
		}
		w := call(s, c.method, c.path, c.body, header...)
		if w.Code != c.code || strings.HasPrefix(w.Body.String(), "by ") || cookie(w) != nil {
			t.Errorf("%s: %d %s %v, want %d and no cookie", c.name, w.Code, w.Body, cookie(w), c.code)
		}
	}
	// Under its own name the cookie of the other port is that of another server.
	w := call(s, "GET", "/v1/read", "", "Cookie", "linesman_8423="+valid)
	wantError(t, w, http.StatusUnauthorized, "UNAUTHORIZED")
	// The page itself may do all of it.
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "same-origin", "Origin", ours}, {"Origin", ours}, {"Sec-Fetch-Site", "none"},
	} {
		w := call(s, "POST", "/v1/submit", "", append(header, "Cookie", "linesman_0="+valid)...)
		if w.Code != http.StatusOK {
			t.Errorf("%v: %d %s", header, w.Code, w.Body)
		}
	}
}

func TestNextStaysHere(t *testing.T) {
	s := api(t, Config{})
	for next, want := range map[string]string{
		"":                              "/",
		"/":                             "/",
		"/runs/T-local-1":               "/runs/T-local-1",
		"/runs/a/with/b?x=1&y=%20":      "/runs/a/with/b?x=1&y=%20",
		"//evil.example":                "/",
		"///evil.example":               "/",
		`/\evil.example`:                "/",
		`\\evil.example`:                "/",
		"https://evil.example":          "/",
		"http:evil.example":             "/",
		"javascript:alert(1)":           "/",
		"runs/1":                        "/",
		"/\t/evil.example":              "/",
		"/\n/evil.example":              "/",
		"/runs/1\r\nSet-Cookie: a=b":    "/",
		"/ /evil.example":               "/",
		"/@evil.example":                "/",
		"/.evil":                        "/",
		"/%2f/evil.example":             "/",
		"/runs/1#//evil.example":        "/",
		"/é":                            "/",
		"/" + strings.Repeat("x", 2000): "/",
	} {
		r := httptest.NewRequest("GET", s.SignInPath(), nil)
		q := r.URL.Query()
		q.Set("next", next)
		w := call(s, "GET", "/signin?"+q.Encode(), "")
		if got := w.Header()["Location"]; w.Code != http.StatusSeeOther || len(got) != 1 || got[0] != want ||
			cookie(w) == nil {
			t.Errorf("%q: %d %q, want %q", next, w.Code, got, want)
		}
	}
}

func TestCookieIsSecureBehindTLS(t *testing.T) {
	s := api(t, Config{Listen: "0.0.0.0:8422"})
	for proto, secure := range map[string]bool{"": false, "http": false, "https": true, "HTTPS": true, "https, http": true,
		"http, https": false} {
		if c := signIn(t, s, "Host", "linesman.example", "X-Forwarded-Proto", proto); c.Secure != secure {
			t.Errorf("%q: Secure is %v", proto, c.Secure)
		}
	}
}

func TestSignOutEndsTheSessionOfTheBrowser(t *testing.T) {
	s := api(t, Config{})
	c := signIn(t, s)
	w := call(s, "DELETE", "/session", "", "Cookie", c.String(), "Sec-Fetch-Site", "same-origin")
	gone := cookie(w)
	if w.Code != http.StatusNoContent || gone == nil || gone.Name != c.Name || gone.MaxAge >= 0 || gone.Path != "/" {
		t.Errorf("%d %+v", w.Code, gone)
	}
	wantError(t, call(s, "GET", "/session", ""), http.StatusUnauthorized, "UNAUTHORIZED")
}

func TestCodesAndSessionsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := api(t, Config{})
		late, last := s.SignInPath(), ""
		time.Sleep(codeTime)
		if w := call(s, "GET", late, ""); w.Code != http.StatusForbidden || cookie(w) != nil {
			t.Errorf("after ten minutes: %d", w.Code)
		}
		last = s.SignInPath()
		time.Sleep(codeTime - time.Second)
		c := cookie(call(s, "GET", last, ""))
		if c == nil {
			t.Fatal("a second before: no cookie")
		}
		time.Sleep(sessionTime - time.Second)
		if w := call(s, "GET", "/v1/read", "", "Cookie", c.String()); w.Code != http.StatusOK {
			t.Errorf("a second before its end: %d", w.Code)
		}
		time.Sleep(time.Second)
		wantError(t, call(s, "GET", "/v1/read", "", "Cookie", c.String()), http.StatusUnauthorized, "UNAUTHORIZED")
	})
}

// A session survives a restart on the same port; codes do not.
func TestSessionSurvivesARestart(t *testing.T) {
	s := api(t, Config{})
	c, link := signIn(t, s), s.SignInPath()
	s = api(t, Config{})
	if w := call(s, "GET", "/v1/read", "", "Cookie", c.String()); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w := call(s, "GET", link, ""); w.Code != http.StatusForbidden {
		t.Errorf("a link of the former process: %d", w.Code)
	}
}

func TestCodesAreBoundedAndRandom(t *testing.T) {
	s := api(t, Config{})
	seen := map[string]bool{}
	var all []string
	for range maxCodes + 4 {
		path := s.SignInPath()
		if seen[path] || len(path) < len(SignInPath(""))+26 {
			t.Fatalf("%s", path)
		}
		seen[path], all = true, append(all, path)
	}
	if n := len(s.codes.all.Codes); n != maxCodes {
		t.Errorf("%d codes, want %d", n, maxCodes)
	}
	for i, path := range all {
		if w := call(s, "GET", path, ""); (w.Code == http.StatusSeeOther) != (i >= 4) {
			t.Errorf("code %d: %d", i, w.Code)
		}
	}
}

// A token that asks for many codes revokes its own ones only.
func TestCodesOfATokenRevokeNoOthers(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	s := api(t, Config{Tokens: tokens})
	link, reader := s.SignInPath(), create(t, tokens, "reader", Read)
	for range 2 * maxCodes {
		if w := call(s, "POST", "/signin", "", "Authorization", "Bearer "+reader); w.Code != http.StatusCreated {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if n := len(s.codes.all.Codes); n != maxCodes+1 {
		t.Errorf("%d codes, want %d", n, maxCodes+1)
	}
	if w := call(s, "GET", link, ""); w.Code != http.StatusSeeOther {
		t.Errorf("the link of another token: %d", w.Code)
	}
}

func TestSigningInIsNotLogged(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	s := api(t, Config{Log: zap.New(core)})
	addr, stop := start(t, s)
	path := s.SignInPath()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	for range 2 {
		res, err := client.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if port := addr[strings.LastIndex(addr, ":")+1:]; res.StatusCode == http.StatusSeeOther &&
			!strings.HasPrefix(res.Header.Get("Set-Cookie"), "linesman_"+port+"=") {
			t.Errorf("cookie %s at %s", res.Header.Get("Set-Cookie"), addr)
		}
	}
	stop()
	for _, one := range logs.All() {
		if said := fmt.Sprint(one.Message, one.ContextMap()); strings.Contains(said, "signin") ||
			strings.Contains(said, path[len("/signin?code="):]) {
			t.Errorf("logged: %s", said)
		}
	}
}

// A browser gets the page also while the server is not ready; programs get what they got.
func TestPageIsForBrowsers(t *testing.T) {
	const html = "text/html,application/xhtml+xml"
	pages := http.NewServeMux()
	for _, pattern := range []string{"GET /{$}", "GET /runs/{run}", "GET /assets/app.js"} {
		pages.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") }))
	}
	s := server(t, Config{Page: pages})
	s.HandlePublic("GET /card", ok)
	for _, held := range []bool{true, false} {
		if s.Release(); held {
			s.Hold()
		}
		for _, path := range []string{"/", "/?x=1", "/runs/T-local-1", "/assets/app.js"} {
			for _, method := range []string{"GET", "HEAD"} {
				if w := call(s, method, path, "", "Accept", html); w.Code != http.StatusOK || w.Body.String() != "page" {
					t.Errorf("held %v: %s %s: %d %s", held, method, path, w.Code, w.Body)
				}
			}
		}
		wantError(t, call(s, "GET", "/", "", "Accept", html, "Host", "evil.example"), http.StatusForbidden, "FORBIDDEN")
	}
	if w := call(s, "GET", "/", ""); !strings.Contains(w.Body.String(), "<code>/card</code>") {
		t.Errorf("for programs: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/runs", "/assets/absent.js", "/x/../runs/T-local-1"} {
		wantError(t, call(s, "GET", path, "", "Accept", html), http.StatusUnauthorized, "UNAUTHORIZED")
	}
	wantError(t, call(s, "POST", "/", "", "Accept", html), http.StatusUnauthorized, "UNAUTHORIZED")
}

// A person who opens a wrong address gets the page, which says so; what exists is refused as before.
func TestBrowserAtAnUnknownPathGetsThePage(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "page") })
	s := server(t, Config{Page: pages})
	s.Handle("GET /v1/runs", ok)
	for _, path := range []string{"/nothing/here", "/runs", "/v1", "/a%2Fb?x=1"} {
		if w := call(s, "GET", path, "", "Sec-Fetch-Mode", "navigate"); w.Code != 200 || w.Body.String() != "page" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		wantError(t, call(s, "GET", path, "", "Sec-Fetch-Mode", "cors"), http.StatusUnauthorized, "UNAUTHORIZED")
		wantError(t, call(s, "POST", path, "", "Sec-Fetch-Mode", "navigate"), http.StatusUnauthorized, "UNAUTHORIZED")
	}
	for _, path := range []string{"/v1/runs", "/x/../v1/runs"} {
		wantError(t, call(s, "GET", path, "", "Sec-Fetch-Mode", "navigate"), http.StatusUnauthorized, "UNAUTHORIZED")
	}
}
