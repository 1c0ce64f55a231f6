package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/test/fixture"
)

// Two servers on the same streams damage them. The lock file is in reach of whoever tidies up.
func TestUpWhoseLockFileIsRemovedStaysTheOnlyOne(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up(t, data)
	lock := filepath.Join(data, "lock")
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	second := begin(t, nil, append([]string{"up", "--data-dir", data}, fixture.Loopback()...)...)
	const taken = "another linesman works on this data directory"
	if code := second.Code(); code == 0 || !strings.Contains(second.Stderr.String(), taken) {
		t.Errorf("the second one ended with %d: %s", code, second.Stderr)
	}
	stdout, code := execute(t, "status", "--data-dir", data)
	if code != 0 {
		t.Errorf("status: %d, %s", code, stdout)
	}
	fixture.Eventually(t, fixture.Patience, "the lock file is there again, and locked", func() bool {
		f, err := os.Open(lock)
		if err != nil {
			return false
		}
		defer f.Close()
		return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == unix.EWOULDBLOCK
	})
}

// A FIFO among the files of the server blocks it for ever, as damage may do.
func TestStartThatHangsIsSaidAndEndsWhenAsked(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	up(t, data).Stop()
	meta, err := filepath.Glob(filepath.Join(data, "jetstream", "jetstream", "*", "streams", "*", "meta.sum"))
	if err != nil || len(meta) == 0 {
		t.Fatalf("%v, %v", meta, err)
	}
	if err := os.Remove(meta[0]); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(meta[0], 0o600); err != nil {
		t.Fatal(err)
	}
	hangs := begin(t, nil, append([]string{"up", "--data-dir", data}, fixture.Loopback()...)...)
	hangs.Await(hangs.Stderr, "the start of the NATS server, which reads its streams")
	began := time.Now()
	hangs.Signal(syscall.SIGTERM)
	if code := hangs.Code(); code != 1 || !strings.Contains(hangs.Stderr.String(), "it does not end: after 5s") {
		t.Errorf("exit status %d, %s", code, hangs.Stderr)
	}
	if took := time.Since(began); took > fixture.Patience {
		t.Errorf("it took %v", took)
	}
}
