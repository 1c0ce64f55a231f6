package worker

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Kernel threads have no environment and no open files, so they are not
// examined.
func TestKernelThreadsAreIgnored(t *testing.T) {
	if comm, err := os.ReadFile("/proc/2/comm"); err != nil || strings.TrimSpace(string(comm)) != "kthreadd" {
		t.Skip("no kernel threads are visible here")
	}
	seen := 0
	for p := range processes() {
		if of := p.pid == 2 || p.parent == 2; p.kernel != of {
			t.Errorf("process %d, child of %d: a kernel thread: %t", p.pid, p.parent, p.kernel)
		} else if of {
			seen++
		}
	}
	if p, ok := lookup(os.Getpid()); seen == 0 || !ok || p.kernel {
		t.Errorf("%d kernel threads, and this process: %t", seen, p.kernel)
	}
}

// A member that is in the middle of an exec shows no environment, so a young
// process without one may be a member. An old one has none at all.
func TestYoungProcessWithoutEnvironmentMayBeAMember(t *testing.T) {
	m := &members{id: identity{Mark: "of this run"}, dir: t.TempDir()}
	waitFor(t, "an unclear result", func() bool {
		bare := exec.Command("sleep", "60")
		bare.Env = []string{}
		if err := bare.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = bare.Process.Kill(); _ = bare.Wait() })
		return len(m.find()) == 0 && m.unclear
	})
	waitFor(t, "a clear result", func() bool { return len(m.find()) == 0 && !m.unclear })
}
