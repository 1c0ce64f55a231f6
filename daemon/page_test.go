package daemon_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
	"github.com/linesman/linesman/daemon/datadir"
	"github.com/linesman/linesman/responder/httpserver"
)

// TestTheTokenIsSentToItsOwnResponderAlone has another user answer at the address of a responder: before there was one,
// after it was killed, and at another address of its port.
func TestTheTokenIsSentToItsOwnResponderAlone(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got strings.Builder
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		b, _ := httputil.DumpRequest(r, true)
		got.Write(b)
		_, _ = io.WriteString(w, "ok\n")
	}))
	defer stranger.Close()
	heard := func(when string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if !strings.Contains(got.String(), "/healthz") || strings.Contains(got.String(), "Authorization") ||
			strings.Contains(got.String(), "the-token-of-a-responder") {
			t.Errorf("%s the stranger got\n%s", when, &got)
		}
		got.Reset()
	}
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "token"), []byte("the-token-of-a-responder"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(address string) (string, error) {
		c := daemon.Config{Settings: config.Default(), Log: zap.NewNop()}
		c.Settings.DataDir, c.Settings.NATS, c.Settings.HTTP = data, "nats://127.0.0.1:1", address
		c.Dialer = &datadir.Dialer{Config: c.Settings, Stderr: io.Discard, Log: c.Log}
		return daemon.SignInLink(t.Context(), c)
	}
	refused := func(when string) {
		t.Helper()
		_, err := link(stranger.Listener.Addr().String())
		if err == nil || !strings.Contains(err.Error(), "no responder of this version has the data directory "+data) {
			t.Errorf("%s: %v", when, err)
		}
		heard(when)
	}
	refused("before there was one")
	address := stranger.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	if err := os.WriteFile(filepath.Join(data, "http-"+port), []byte(address), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("after it was killed")

	s, err := httpserver.New(httpserver.Config{Listen: "127.0.0.1:0", Token: "the-token-of-a-responder", Served: data})
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.Listen()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	if got, err := link(at.String()); err != nil || !strings.HasPrefix(got, "http://"+at.String()+"/signin?code=") {
		t.Errorf("of its responder: %q, %v", got, err)
	}
	_, port, _ = net.SplitHostPort(at.String())
	if other, err := net.Listen("tcp", "127.0.0.2:"+port); err == nil { // such as ::1, where localhost may lead
		second := &http.Server{Handler: stranger.Config.Handler}
		go func() { _ = second.Serve(other) }()
		defer second.Close()
		if got, err := link(other.Addr().String()); err != nil || !strings.HasPrefix(got, "http://"+at.String()+"/") {
			t.Errorf("at another address of its port: %q, %v", got, err)
		}
		heard("at another address of its port")
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(data, "http-"+port)); !os.IsNotExist(err) {
		t.Errorf("after its end: %v", err)
	}

	c := daemon.Config{Settings: config.Default(), Log: zap.NewNop()}
	c.Settings.DataDir = data
	if _, err := c.AskedLink(t.Context(), stranger.URL, func() bool { return false }); err == nil {
		t.Error("a stranger that got the port before the connection was made was asked")
	}
	mu.Lock()
	defer mu.Unlock()
	if got.Len() > 0 {
		t.Errorf("it got\n%s", &got)
	}
}
