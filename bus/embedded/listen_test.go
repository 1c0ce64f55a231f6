package embedded

import (
	"context"
	"os/exec"
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
