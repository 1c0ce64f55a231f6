package daemon_test

import (
	"errors"
	"net"
	"testing"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/config"
	"github.com/linesman/linesman/daemon"
)

// An address in use is an error that says which one, and leaves nothing running.
func TestAddressInUseIsNamed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s := config.Default()
	s.DataDir, s.NATSListen, s.HTTP = t.TempDir(), "127.0.0.1:0", l.Addr().String()
	var listen *daemon.ListenError
	if _, err := daemon.New(t.Context(), daemon.Config{Settings: s}); !errors.As(err, &listen) {
		t.Errorf("HTTP: got %v", err)
	}
	s.NATSListen, s.HTTP = s.HTTP, ""
	if _, err := daemon.New(t.Context(), daemon.Config{Settings: s}); !errors.Is(err, embedded.ErrListen) {
		t.Errorf("NATS: got %v", err)
	}
	s.NATSListen = "127.0.0.1:0"
	d, err := daemon.New(t.Context(), daemon.Config{Settings: s})
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
}
