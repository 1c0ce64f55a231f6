package worker

import (
	"errors"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A process that does not end on SIGKILL delays the shim for a bounded time,
// and the log says that it may be left. Here it is stopped by a debugger.
func TestSweepThatReachesItsBoundIsLogged(t *testing.T) {
	l := newFixture(t)
	spec := shell("r", "setsid sh -c 'echo $$ > held; exec sleep 60' </dev/null >/dev/null 2>&1 & "+
		"while ! [ -s held ]; do sleep 0.01; done; echo ready; exec sleep 60")
	spec.Dir, spec.Limits.Grace = t.TempDir(), 100*time.Millisecond
	r, done := l.begun(spec, "ready")
	pid := readPID(t, filepath.Join(spec.Dir, "held"))
	runtime.LockOSThread() // ends with the test; ptrace is bound to this thread
	err := unix.PtraceSeize(pid)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		_ = unix.Kill(pid, unix.SIGKILL)
		t.Skip("ptrace is not permitted here:", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = unix.Wait4(pid, nil, unix.WALL, nil) }()
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.err != nil {
		t.Error(res.err)
	}
	waitFor(t, "the shim", func() bool { l.w.reap(); return len(l.w.exitingShims) == 0 })
	if !l.has("processes of the run may be left") {
		t.Error("the log does not say that processes may be left")
	}
}
