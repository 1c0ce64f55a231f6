package worker

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// A worker was killed right after it started a shim, and the next worker has
// started another one: that one has nothing to do, and leaves no process.
func TestShimThatIsNotNeededIsNoFailure(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "echo one; while ! [ -e go ]; do sleep 0.01; done")
	spec.Dir = dir
	d := l.create(spec)
	before, next := l.w.Run(d).source.(*spawned), l.w.Run(d)
	t.Cleanup(before.closeExitPipe)
	if err := before.launch(false); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the agent", func() bool { return contents(t, d.file(outFile)) == "one\n" })
	late := next.source.(*spawned)
	if err := late.launch(false); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the shim that is late", func() bool { return !late.running() })
	done := make(chan error, 1)
	go func() { _, err := next.Drive(t.Context()); done <- err }()
	l.await("r", "one")
	write(t, filepath.Join(dir, "go"), "")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if l.has("processes of the run may be left") {
		t.Error("the log says that processes may be left")
	}
	waitFor(t, "the shim", func() bool { return !before.running() })
}
