package httpserver

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/test/fixture"
)

func TestConnectionsAreBoundedAndIdleOnesAreClosed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	bound := limit(l, 1)
	next := func() (client net.Conn, server *counted) {
		t.Helper()
		client = dial(t, l.Addr().String(), "x")
		c, err := bound.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return client, c.(*counted)
	}
	first, _ := next()
	_, second := next()
	if _, err := first.Read(make([]byte, 1)); err == nil {
		t.Error("the first one is open still, though it has asked nothing and there is no room")
	}
	if n := len(bound.open); n != 1 {
		t.Errorf("%d connections counted, want 1", n)
	}
	idle := func() (n int) {
		for _, since := range bound.open {
			if since != 0 {
				n++
			}
		}
		return n
	}

	done := second.busy() // now no connection can be closed
	dial(t, l.Addr().String(), "x")
	third := make(chan net.Conn, 1)
	go func() {
		c, err := bound.Accept()
		if err != nil {
			t.Error(err)
		}
		third <- c
	}()
	select {
	case <-third:
		t.Fatal("accepted while the only place was of one that is being answered")
	case <-time.After(50 * time.Millisecond): // there is no event to wait for
	}
	done()
	last := <-third
	second.busy()() // it is no longer counted, and stays so
	_ = second.Close()
	if len(bound.open) != 1 || idle() != 1 {
		t.Errorf("%d connections counted, %d idle; want 1 and 1", len(bound.open), idle())
	}
	_ = last.Close()
	_ = last.Close() // is subtracted only once
	if len(bound.open) != 0 {
		t.Errorf("%d connections counted, with none open", len(bound.open))
	}

	_, fourth := next() // at the bound Close still ends Accept
	fourth.busy()
	dial(t, l.Addr().String(), "x")
	ended := make(chan error, 1)
	go func() {
		_, err := bound.Accept()
		ended <- err
	}()
	_ = bound.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want closed", err)
	}
	_ = fourth.Close()
}

// A client that opens connections and sends slowly locks nobody out.
func TestDrippersKeepNobodyOutAndCutNobodyOff(t *testing.T) {
	for name, head := range map[string]string{
		"nothing":                "",
		"half a head":            "GET /long HTTP/1.1\nHost: loc",
		"a body without a token": "POST /long HTTP/1.1\nHost: localhost\nContent-Length: 1000\n\n12345",
		"a body with a wrong token": "POST /long HTTP/1.1\nHost: localhost\nAuthorization: Bearer " +
			"nonsense\nTransfer-Encoding: chunked\n\n5\n12345",
		"a health check's body": "POST /healthz HTTP/1.1\nHost: localhost\nContent-Length: 1000\n\n12345",
	} {
		t.Run(name, func(t *testing.T) {
			s := server(t, Config{})
			s.maxOpen = 8
			inside, out := make(chan struct{}), make(chan struct{})
			s.Handle("/long", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				close(inside)
				<-out
				fmt.Fprint(w, "whole")
			}))
			s.Handle("/short", ok)
			addr, _ := start(t, s)
			request := func(path string) net.Conn {
				return dial(t, addr, "GET "+path+" HTTP/1.1\nHost: localhost\nAuthorization: Bearer "+token+
					"\nConnection: close\n\n")
			}
			long := request("/long")
			<-inside
			for range 5 * s.maxOpen {
				dial(t, addr, head)
			}
			if got := answer(t, request("/short")); got != "fine" {
				t.Errorf("meanwhile: %q", got)
			}
			bound := s.listener.(*limited)
			bound.mu.Lock()
			open := len(bound.open)
			bound.mu.Unlock()
			if open > s.maxOpen {
				t.Errorf("%d connections open, want at most %d", open, s.maxOpen)
			}
			close(out)
			if got := answer(t, long); got != "whole" {
				t.Errorf("the request that was being answered got %q", got)
			}
		})
	}
}

func answer(t *testing.T, c net.Conn) string {
	t.Helper()
	if err := c.SetDeadline(time.Now().Add(fixture.Patience)); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The body of a refused request is not waited for, however slowly it arrives.
func TestAStrangersBodyIsNotReadForTheAnswer(t *testing.T) {
	addr, _ := start(t, server(t, Config{}))
	c := dial(t, addr, "POST /x HTTP/1.1\nHost: localhost\nContent-Length: 200000\n\n12345")
	if got := answer(t, c); !strings.Contains(got, "UNAUTHORIZED") {
		t.Errorf("got %q", got)
	}
}

func TestEveryAnswerHasTheStandingHeaders(t *testing.T) {
	s := server(t, Config{})
	s.Handle("GET /x", ok)
	s.HandlePublic("GET /card", ok)
	s.Handle("GET /panic", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("x") }))
	for path, header := range map[string][]string{
		"/x": {}, "/card": {}, "/healthz": {}, "/readyz": {}, "/nothing": {}, "/panic": {},
		"/x?a": {"Authorization", ""}, "/x?b": {"Host", "evil.example"}, "/x?c": {"Origin", "https://evil.example"},
	} {
		w := ask(s, "GET", path, header...)
		for name, value := range defaultHeaders {
			if got := w.Header().Get(name); got != value {
				t.Errorf("%s: %d with %s %q, want %q", path, w.Code, name, got, value)
			}
		}
	}
}

func TestNothingIsListed(t *testing.T) {
	s := server(t, Config{})
	s.Handle("GET /v1/runs", ok)
	for _, path := range []string{"/", "/v1", "/v1/", "/v1/runs/", "/token", "/.git/config", "/%2e%2e/%2e%2e/etc/passwd",
		"/v1/..%2f..%2ftoken", "//", "/v1/runs/../../token"} {
		w := ask(s, "GET", path)
		body := w.Body.String()
		if w.Code < 300 || strings.Contains(body, "<") && w.Code >= 400 || strings.Contains(body, "root:") {
			t.Errorf("%s: %d %q", path, w.Code, body)
		}
		if w := ask(s, "GET", path, "Authorization", ""); w.Code != http.StatusUnauthorized && path != "/" {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
}
