package worker

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// unprivileged runs the rest of the test in a process for which permissions of files count, and reports whether this
// is that process.
func unprivileged(t *testing.T) bool {
	t.Helper()
	const inside = "TEST_UNPRIVILEGED"
	if os.Getuid() != 0 || os.Getenv(inside) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	type result struct {
		out []byte
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		for _, c := range []uintptr{unix.CAP_DAC_OVERRIDE, unix.CAP_DAC_READ_SEARCH} {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
				done <- result{err: err}
				return
			}
		}
		out, err := cmd.CombinedOutput()
		done <- result{out, err}
	}()
	if got := <-done; got.err != nil {
		t.Errorf("%v\n%s", got.err, got.out)
	}
	return false
}
