package embedded

import (
	"context"
	"net/netip"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"

	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A program that starts has, for a moment, a copy of each open socket: also of one at which a server listened that has
// just stopped.
func TestServerListensAgainWhileProgramsStart(t *testing.T) {
	t.Parallel()
	dir, at := t.TempDir(), fixture.FreeAddresses(t, 1)[0]
	s, err := StartServer(dir, at, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var starting sync.WaitGroup
	defer starting.Wait()
	defer stop()
	for range 8 {
		starting.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, "true").Run()
			}
		})
	}
	for range 20 {
		if err := s.Restart(nil); err != nil {
			t.Fatal(err)
		}
		s.Stop()
		if s, err = StartServer(dir, at, bustest.Names, zap.NewNop()); err != nil {
			t.Fatal(err)
		}
	}
	s.Stop()
}

// A name may have several addresses, at one of which the server listens: at the others anybody can.
func TestAddressForClientsIsTheOneThatIsListenedAt(t *testing.T) {
	t.Parallel()
	s, err := StartServer(t.TempDir(), "localhost:0", bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	at := strings.TrimPrefix(s.URL(), "nats://")
	if got, err := netip.ParseAddrPort(at); err != nil || got.Port() == 0 || at != s.socket.Addr().String() {
		t.Errorf("clients connect to %s, the server listens at %s", at, s.socket.Addr())
	}
	bustest.Connect(t, s, OperatorUser)
}
