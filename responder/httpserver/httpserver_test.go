package httpserver

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/linesman/linesman/test/fixture"
)

func TestMain(m *testing.M) { fixture.VerifyGoroutines(m) }

const token = "0123456789abcdef"

func server(t *testing.T, c Config) *Server {
	t.Helper()
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	c.Token = cmp.Or(c.Token, token)
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// start serves until the test ends, and returns the address. stop ends it
// earlier, and returns when Serve has returned.
func start(t *testing.T, s *Server) (addr string, stop func()) {
	t.Helper()
	a, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	var stopped atomic.Bool
	stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	}
	t.Cleanup(stop)
	return a.String(), stop
}

// ask makes a request with the token, without a network.
func ask(s *Server, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:8422"
	r.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i < len(header); i += 2 {
		switch {
		case header[i] == "Host":
			r.Host = header[i+1]
		case header[i+1] == "":
			r.Header.Del(header[i])
		default:
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	return w
}

// wantError checks that an error is one of ours.
func wantError(t *testing.T, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	var body struct {
		Type, Title, Detail, Code string
		Status                    int
	}
	err := json.Unmarshal(w.Body.Bytes(), &body)
	if err != nil || w.Code != status || body.Status != status || body.Code != code || body.Detail == "" ||
		body.Title != http.StatusText(status) ||
		body.Type != "about:blank" || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("got %d %s, want %d and the problem %s", w.Code, w.Body, status, code)
	}
}

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "fine") })

func TestNothingIsAnsweredWithoutTheToken(t *testing.T) {
	s := server(t, Config{})
	s.Handle("GET /x", ok)
	for header, valid := range map[string]bool{
		"Bearer " + token:       true,
		"bearer " + token:       true,
		"Bearer  " + token:      true,
		"":                      false,
		"Bearer ":               false,
		"Bearer":                false,
		token:                   false,
		"Basic " + token:        false,
		"Bearer " + token + "0": false,
		"Bearer " + token[1:]:   false,
	} {
		w := ask(s, "GET", "/x", "Authorization", header)
		if valid && w.Code != http.StatusOK {
			t.Errorf("%q: status %d, want 200", header, w.Code)
		}
		if !valid {
			wantError(t, w, http.StatusUnauthorized, "UNAUTHORIZED")
			if got := w.Header().Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer ") {
				t.Errorf("%q: WWW-Authenticate is %q", header, got)
			}
		}
	}
	s.HandlePublic("GET /.well-known/jwks.json", ok) // with a webhook key
	for path, open := range map[string]bool{
		"/": true, "/healthz": true, "/readyz": true, "/.well-known/jwks.json": true, // the first lists the paths
		"/.well-known/jwks.json/x": false, "/.well-known/": false, "/metrics": false, "/v1": false, "/absent": false,
	} {
		w := ask(s, "GET", path, "Authorization", "")
		if open && (w.Code == http.StatusUnauthorized || path == "/" && !strings.Contains(w.Body.String(), "/healthz")) {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
		} else if !open {
			wantError(t, w, http.StatusUnauthorized, "UNAUTHORIZED")
		}
	}
}

func TestForeignHostsAndOriginsAreRefused(t *testing.T) {
	for _, c := range []struct {
		listen, host, origin string
		refused              bool
	}{
		{"127.0.0.1:0", "127.0.0.1:8422", "", false},
		{"127.0.0.1:0", "127.0.0.1", "", false},
		{"127.0.0.1:0", "127.9.9.9:1", "", false},
		{"127.0.0.1:0", "LocalHost:99", "", false},
		{"127.0.0.1:0", "[::1]:8422", "", false},
		{"127.0.0.1:0", "[::1]", "", false},
		{"localhost:0", "localhost.", "", false},
		{"[::1]:0", "127.0.0.1", "", false},
		{"127.0.0.1:0", "evil.example", "", true},
		{"127.0.0.1:0", "evil.example:8422", "", true},
		{"127.0.0.1:0", "localhost.evil.example", "", true},
		{"127.0.0.1:0", "127.0.0.1.evil.example", "", true},
		{"127.0.0.1:0", "192.168.1.7:8422", "", true},
		{"127.0.0.1:0", "", "", true},
		{"127.0.0.1:0", "127.0.0.1:8422", "http://localhost:3000", false},
		{"127.0.0.1:0", "127.0.0.1:8422", "https://[::1]", false},
		{"127.0.0.1:0", "127.0.0.1:8422", "http://evil.example", true},
		{"127.0.0.1:0", "127.0.0.1:8422", "http://localhost@evil.example", true},
		{"127.0.0.1:0", "127.0.0.1:8422", "null", true},
		{"127.0.0.1:0", "127.0.0.1:8422", "://", true},
		{"0.0.0.0:0", "linesman.example:8422", "", false},
		{":0", "linesman.example:8422", "", false},
		{"0.0.0.0:0", "linesman.example:8422", "https://Linesman.example:8422", false},
		{"0.0.0.0:0", "linesman.example:8422", "https://linesman.example", true},
		{"0.0.0.0:0", "linesman.example:8422", "https://evil.example", true},
		{"0.0.0.0:0", "linesman.example:8422", "null", true},
	} {
		s := server(t, Config{Listen: c.listen})
		s.Handle("/x", ok)
		for _, path := range []string{"/x", "/healthz", "/readyz"} {
			w := ask(s, "GET", path, "Host", c.host, "Origin", c.origin)
			if c.refused {
				wantError(t, w, http.StatusForbidden, "FORBIDDEN")
			} else if w.Code != http.StatusOK {
				t.Errorf("%+v: status %d, want 200", c, w.Code)
			}
		}
	}
	s := server(t, Config{})
	r := httptest.NewRequest("GET", "/healthz", nil)
	r.Host, r.Header["Origin"] = "localhost", []string{"http://localhost", "http://evil.example"}
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, r)
	wantError(t, w, http.StatusForbidden, "FORBIDDEN")
}

func TestHealthNeedsNoTokenAndReadinessHasAReason(t *testing.T) {
	var missing error
	s := server(t, Config{Ready: func(context.Context) error { return missing }})
	for _, c := range []struct {
		missing error
		path    string
		status  int
		body    string
	}{
		{nil, "/healthz", 200, "ok\n"},
		{nil, "/readyz", 200, "ok\n"},
		{errors.New("NATS is\nout of reach"), "/healthz", 200, "ok\n"},
		{errors.New("NATS is\nout of reach"), "/readyz", 503, "NATS is out of reach\n"},
		{errors.New(strings.Repeat("é", maxReason)), "/readyz", 503, strings.Repeat("é", maxReason/2) + "\n"},
		{errors.New("x" + strings.Repeat("é", maxReason)), "/readyz", 503, "x" + strings.Repeat("é", maxReason/2-1) + "\n"},
	} {
		missing = c.missing
		w := ask(s, "GET", c.path, "Authorization", "")
		if w.Code != c.status || w.Body.String() != c.body {
			t.Errorf("%s with %.20v: got %d %q, want %d %q", c.path, c.missing, w.Code, w.Body, c.status, c.body)
		}
	}
}

func TestReadinessTimesOutAfterTwoSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := server(t, Config{Ready: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}})
		begin := time.Now()
		w := ask(s, "GET", "/readyz")
		if took := time.Since(begin); took != readyTime || w.Code != http.StatusServiceUnavailable {
			t.Errorf("status %d after %v, want 503 after %v", w.Code, took, readyTime)
		}
	})
}

func TestUnknownPathsAndMethodsAreJSONErrors(t *testing.T) {
	s := server(t, Config{})
	s.Handle("GET /x", ok)
	wantError(t, ask(s, "GET", "/absent"), http.StatusNotFound, "NOT_FOUND")
	w := ask(s, "POST", "/x")
	wantError(t, w, http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	if got := w.Header().Get("Allow"); got != "GET, HEAD" {
		t.Errorf("Allow is %q, want GET, HEAD", got)
	}
}

func TestPanicIsAnErrorAndItsValueIsNotLogged(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	s := server(t, Config{Log: zap.New(core)})
	const secret = "sentinel-4711"
	s.Handle("/x", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		panic("cannot take " + r.URL.RawQuery)
	}))
	wantError(t, ask(s, "GET", "/x?"+secret), http.StatusInternalServerError, "INTERNAL")
	if logs.FilterMessage("panic").Len() != 1 {
		t.Fatal("the panic is not in the log")
	}
	if got := fmt.Sprint(logs.All()[0].ContextMap()); strings.Contains(got, secret) {
		t.Errorf("the log holds what was asked: %s", got)
	}
}

// A panic behind the first bytes of an answer closes its connection: the client sees that the answer is not complete.
func TestPanicCutsOffAnAnswerThatHasBegun(t *testing.T) {
	core, logs := observer.New(zapcore.DebugLevel)
	s := server(t, Config{Log: zap.New(core)})
	for path, begin := range map[string]func(http.ResponseWriter) error{
		"/chunks": func(w http.ResponseWriter) error {
			_, err := io.WriteString(w, `{"runs":[`)
			return errors.Join(err, http.NewResponseController(w).Flush())
		},
		"/buffered": func(w http.ResponseWriter) error { _, err := io.WriteString(w, "half"); return err },
		"/flushed":  func(w http.ResponseWriter) error { w.(http.Flusher).Flush(); return nil },
		"/status":   func(w http.ResponseWriter) error { w.WriteHeader(http.StatusAccepted); return nil },
		"/hint":     func(w http.ResponseWriter) error { w.WriteHeader(http.StatusEarlyHints); return nil },
	} {
		s.Handle("GET "+path, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if err := errors.Join(begin(w), http.NewResponseController(w).SetWriteDeadline(time.Time{})); err != nil {
				t.Error(err)
			}
			panic("x")
		}))
	}
	addr, _ := start(t, s)
	get := func(path string) (code int, body []byte, err error) {
		r, err := http.NewRequest("GET", "http://"+addr+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Close = true // else the client may try again
		w, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, nil, err
		}
		defer w.Body.Close()
		body, err = io.ReadAll(w.Body)
		return w.StatusCode, body, err
	}
	for _, path := range []string{"/chunks", "/buffered", "/flushed", "/status"} {
		if code, body, err := get(path); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			t.Errorf("%s: %d %q, %v", path, code, body, err)
		}
	}
	if code, body, err := get("/hint"); err != nil || code != http.StatusInternalServerError {
		t.Errorf("/hint: %d %q, %v", code, body, err)
	}
	if n := logs.FilterMessage("panic").Len(); n != 5 {
		t.Errorf("%d panics are in the log", n)
	}
}

func TestAllInvalidSettingsAreReported(t *testing.T) {
	_, err := New(Config{Listen: "nowhere", Token: "short"})
	if err == nil || !strings.Contains(err.Error(), `listen: must be host:port, got "nowhere"`) ||
		!strings.Contains(err.Error(), "token: ") {
		t.Errorf("got %v", err)
	}
	if err != nil && strings.Contains(err.Error(), "short") {
		t.Errorf("the error holds the token: %v", err)
	}
}

func TestTooLargeHeadersAreRefused(t *testing.T) {
	addr, _ := start(t, server(t, Config{}))
	for size, want := range map[int]int{maxHeader / 2: http.StatusOK,
		2 * maxHeader: http.StatusRequestHeaderFieldsTooLarge} {
		req, err := http.NewRequest("GET", "http://"+addr+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Pad", strings.Repeat("x", size))
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("%d bytes: status %d, want %d", size, res.StatusCode, want)
		}
	}
}

// dial sends the header of a request over its own connection.
func dial(t *testing.T, addr, head string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, strings.ReplaceAll(head, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestHeadersTimeOut(t *testing.T) {
	s := server(t, Config{})
	s.wait.header = 20 * time.Millisecond
	addr, _ := start(t, s)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: loc") // it may be late
	b, err := io.ReadAll(c)
	if err != nil && !errors.Is(err, syscall.ECONNRESET) || strings.Contains(string(b), "200") {
		t.Errorf("got %q, %v; want the end of the connection", b, err)
	}
}

func TestRequestTimesOut(t *testing.T) {
	s := server(t, Config{})
	s.wait.request = 20 * time.Millisecond
	read := make(chan error, 1)
	s.Handle("/read", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		read <- err
	}))
	addr, _ := start(t, s)
	dial(t, addr, "POST /read HTTP/1.1\nHost: localhost\nAuthorization: Bearer "+token+"\nContent-Length: 10\n\n12345")
	var timeout net.Error
	if err := <-read; !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v, want a timeout", err)
	}
}

func TestResponseMayOutlastTheRequestTimeout(t *testing.T) {
	s := server(t, Config{})
	s.wait.request = 20 * time.Millisecond
	s.Handle("/slow", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		select { // the duration is under test
		case <-r.Context().Done():
			fmt.Fprint(w, "cut")
		case <-time.After(5 * s.wait.request):
			fmt.Fprint(w, "whole")
		}
	}))
	addr, _ := start(t, s)
	for request, body := range map[string]string{"GET": "", "POST": "12345"} {
		c := dial(t, addr, fmt.Sprintf("%s /slow HTTP/1.1\nHost: localhost\nAuthorization: Bearer "+
			"%s\nContent-Length: %d\n\n%s", request, token, len(body), body))
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(b) != "whole" {
			t.Errorf("%s: got %q, %v; want whole", request, b, err)
		}
	}
}

func TestShutdownCompletesRequestsAndEndsStreams(t *testing.T) {
	s := server(t, Config{})
	s.wait.polite = 50 * time.Millisecond
	begun, leave := make(chan struct{}), make(chan struct{})
	s.Handle("/short", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-leave
		fmt.Fprint(w, "finished")
	}))
	s.Handle("/stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun <- struct{}{}
		<-r.Context().Done()
		close(leave) // the short request ends after the streams have ended
		fmt.Fprint(w, "cut")
	}))
	addr, stop := start(t, s)
	answers := make(chan string, 2)
	for _, path := range []string{"/short", "/stream"} {
		c := dial(t, addr, "GET "+path+" HTTP/1.1\nHost: localhost\nAuthorization: Bearer "+token+"\n\n")
		go func() {
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				answers <- err.Error()
				return
			}
			defer res.Body.Close()
			b, _ := io.ReadAll(res.Body)
			answers <- string(b)
		}()
		<-begun
	}
	canary, begin := fixture.StartCanary(t), time.Now()
	stop()
	took := time.Since(begin)
	got := map[string]bool{<-answers: true, <-answers: true}
	if !got["finished"] || !got["cut"] {
		t.Errorf("got %v, want both answered", got)
	}
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
	canary.Within("Serve ended", took, patient.stop)
}

func TestShutdownIsBounded(t *testing.T) {
	s := server(t, Config{})
	s.wait.polite, s.wait.stop = 10*time.Millisecond, 30*time.Millisecond
	begun, leave, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s.Handle("/deaf", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		defer close(gone)
		close(begun)
		<-leave
	}))
	addr, stop := start(t, s)
	dial(t, addr, "GET /deaf HTTP/1.1\nHost: localhost\nAuthorization: Bearer "+token+"\n\n")
	<-begun
	stop() // returns although the handler does not
	close(leave)
	<-gone
}

func TestAddressInUseIsReported(t *testing.T) {
	addr, _ := start(t, server(t, Config{}))
	if err := server(t, Config{Listen: addr}).Serve(t.Context()); err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("got %v, want an error with %s", err, addr)
	}
}

// Handlers are registered while it serves.
func TestHeldServerAnswersOnlyHealthChecks(t *testing.T) {
	s := server(t, Config{})
	s.Hold()
	hung := make(chan struct{})
	go func() {
		defer close(hung)
		for i := range 100 {
			s.HandleFor(allScopes, fmt.Sprintf("GET /x/%d", i), ok)
			s.HandlePublic(fmt.Sprintf("GET /public/%d", i), ok)
		}
	}()
	for range 20 {
		for _, path := range []string{"/", "/x/1", "/public/1", "/absent"} {
			wantError(t, ask(s, "GET", path), http.StatusServiceUnavailable, "UNAVAILABLE")
		}
		wantError(t, ask(s, "GET", "/", "Authorization", ""), http.StatusServiceUnavailable, "UNAVAILABLE")
		for _, path := range []string{"/healthz", "/readyz"} {
			if w := ask(s, "GET", path); w.Code != http.StatusOK {
				t.Errorf("%s: %d", path, w.Code)
			}
		}
	}
	<-hung
	s.Release()
	for path, token := range map[string]bool{"/x/1": true, "/public/1": false} {
		header := []string{"Authorization", ""}
		if token {
			header = nil
		}
		if w := ask(s, "GET", path, header...); w.Code != http.StatusOK {
			t.Errorf("%s after Release: %d", path, w.Code)
		}
	}
}
