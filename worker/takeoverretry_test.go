package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// A shim that cannot start, while a process holds the output, is retried with
// bounded cost.
func TestFailedTakeoversAreRetriedWithBackoff(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.create(shell("r", "true"))
	t.Cleanup(func() { _ = d.Close() })
	l.w.cfg.Shim = []string{filepath.Join(t.TempDir(), "none")}
	s := l.w.Run(d).source.(*spawned)
	now := time.Now()
	hour := func() int {
		before := s.takeovers
		for range 3600 {
			now = now.Add(time.Second)
			s.takeOver(now)
		}
		return s.takeovers - before
	}
	if n := hour(); n < 30 || n > 180 { // about one per minute
		t.Errorf("%d shims in an hour", n)
	}
	before := s.takeovers
	s.stop()
	if s.takeOver(now); s.takeovers != before+1 {
		t.Error("a cancelled run waits for the next retry")
	}
	hour()
	before, now = s.takeovers, now.Add(time.Hour) // as if the last shim had worked
	for range 5 {
		now = now.Add(2 * time.Second)
		s.takeOver(now)
	}
	if s.takeovers < before+3 {
		t.Errorf("%d shims in 10 s after an hour without", s.takeovers-before)
	}
}

func TestLogOfTheShimsIsBounded(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.create(shell("r", "true"))
	t.Cleanup(func() { _ = d.Close() })
	l.w.cfg.Shim = []string{"/bin/sh", "-c", "echo failed >&2; exit 1"}
	s := l.w.Run(d).source.(*spawned)
	t.Cleanup(s.closeExitPipe)
	for _, size := range []int{100, maxShimLog + 1} {
		write(t, d.file(shimLogFile), strings.Repeat("x", size))
		if err := s.launch(true); err != nil {
			t.Fatal(err)
		}
		waitFor(t, "the shim's end", func() bool { return !s.running() })
		want := strings.Repeat("x", size) + "failed\n"
		if size > maxShimLog {
			want = "failed\n"
		}
		if got := contents(t, d.file(shimLogFile)); got != want {
			t.Errorf("%d bytes before: %d bytes after, want %d", size, len(got), len(want))
		}
	}
}

// Workers are killed right after one has started a shim, which takes its time: the next ones see it, and start none
// beside it, whose key would not be known to the last one.
func TestShimThatStartsIsSeen(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	gate := filepath.Join(t.TempDir(), "gate")
	l.w.cfg.Shim = []string{"/bin/sh", "-c", "while ! [ -e " + gate + ` ]; do sleep 0.01; done; exec "$0" "$@"`, os.Args[0], "shim"}
	d := l.create(shell("r", "exit 3"))
	before := l.w.Run(d).source.(*spawned)
	t.Cleanup(before.closeExitPipe)
	if _, err := before.start(); err != nil || before.child == 0 {
		t.Fatalf("no shim: %v", err)
	}
	var next *Run
	for range maxKeys {
		next = l.w.Run(d)
		late := next.source.(*spawned)
		if started, err := late.start(); started || err != nil || late.child != 0 {
			t.Errorf("started %v, shim %d: %v", started, late.child, err)
		}
	}
	write(t, gate, "")
	want := runs.Exit{Reason: runs.ReasonExited, Code: code(3)}
	if ex, err := next.Drive(t.Context()); err != nil || !sameExit(ex, want) {
		t.Errorf("exit %s: %v", runs.Encode(ex), err)
	}
	if l.has("processes of the run may be left") {
		t.Error("the log says that processes may be left")
	}
	waitFor(t, "the shim", func() bool { return !before.running() })
}
