package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/bus/bucket"
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

// A start that ends before the streams are configured leaves one without settings. The next one writes them.
func TestStreamWithoutSettingsStopsNoStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, stream string
		damage       func(dir string) error
		held         bool
	}{
		{"settings that were set aside", bustest.Names.Raw(), func(dir string) error {
			return os.WriteFile(filepath.Join(dir, metaSum), []byte("damaged"), 0o600)
		}, true},
		{"an empty directory", bustest.Names.Raw(), func(dir string) error {
			return errors.Join(os.RemoveAll(dir), os.MkdirAll(filepath.Join(dir, "msgs"), 0o700))
		}, true},
		{"records with damage", bucket.Stream(bustest.Names.Runs()), func(dir string) error {
			block := filepath.Join(dir, "msgs", "1.blk")
			b, err := os.ReadFile(block)
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 1
			return errors.Join(os.WriteFile(block, b, 0o600), os.Remove(filepath.Join(dir, metaFile)),
				os.Remove(filepath.Join(dir, metaSum)))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			start := func() *Server {
				t.Helper()
				s, err := StartServer(dir, "127.0.0.1:0", bustest.Names, zap.NewNop())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(s.Stop)
				return s
			}
			ensure := func(s *Server) *bus.Bus {
				t.Helper()
				b, err := s.Connect(bustest.Patient(t), OperatorUser, bustest.Names, zap.NewNop())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(b.Close)
				if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
					t.Fatal(err)
				}
				return b
			}
			s := start()
			b := ensure(s)
			subject := bucket.Subject(bustest.Names.Runs(), "a")
			if _, err := b.JetStream().Publish(t.Context(), subject, make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
			s.Stop()
			if err := c.damage(s.verifier().dir(InsideAccount, c.stream)); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if s = start(); s.RawHeld() != c.held {
					t.Errorf("RAW is held: %v, want %v", s.RawHeld(), c.held)
				}
				s.Stop()
			}
			s = start()
			ensure(s)
			s.Stop()
			if s = start(); s.RawHeld() {
				t.Error("RAW is held after its settings were written")
			}
		})
	}
}
