package worker

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a directory has that cannot be read is not followed, and a warning says so once. All else
// is followed.
func TestUnreadableDirectoryOfSessionsIsReported(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	write(t, filepath.Join(dir, "s.jsonl"), "shown\n")
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range unix.PathMax/200 + 1 { // not even root can read a path that is too long
		name := strings.Repeat("x", 200)
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		below, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err := errors.Join(err, unix.Close(at)); err != nil {
			t.Fatal(err)
		}
		at = below
	}
	if err := unix.Close(at); err != nil {
		t.Fatal(err)
	}
	spec := sessionsSpec(dir)
	spec.Since, spec.Idle = time.Hour, 300*time.Millisecond
	spec.Places[0].Logs.Files = append(spec.Places[0].Logs.Files, strings.Repeat("*/", unix.PathMax)+"*.jsonl")
	begun, stop := l.sessions(spec)
	waitFor(t, "the run", func() bool { return l.text(begun(filepath.Join(dir, "s.jsonl"))) == "shown\n" && l.empty() })
	stop()
	if n := l.lines.FilterMessage("read the logs of sessions").Len(); n != 1 {
		t.Errorf("%d warnings, want one", n)
	}
}
