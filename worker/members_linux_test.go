package worker

import (
	"os"
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
