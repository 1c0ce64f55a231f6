package embedded

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A smaller age of RAW that is configured while no server runs removes nothing that was not read.
func TestRetentionIsHeldWhereASmallerOneIsConfigured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := func() *Server {
		s, err := StartServer(dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		return s
	}
	s := start()
	b, err := s.Connect(bustest.Patient(t), OperatorUser, bustest.Names, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	if s.HoldRaw(time.Millisecond); s.RawHeld() {
		t.Error("RAW is held where there was none")
	}
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err == nil {
		err = l.Append(t.Context(), runs.Entry{Kind: runs.Out, Body: []byte("x")})
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s = start()
	for _, c := range []struct {
		age  time.Duration
		want bool
	}{{0, false}, {time.Hour, false}, {time.Millisecond, true}} {
		if s.HoldRaw(c.age); s.RawHeld() != c.want {
			t.Errorf("with an age of %v: held %v, want %v", c.age, !c.want, c.want)
		}
	}
}
