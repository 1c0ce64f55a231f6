package worker

import (
	"os"
	"strings"
	"testing"
)

// A thread of the kernel can give no evidence, so that none of them is looked at.
func TestThreadsOfTheKernelAreNoCandidates(t *testing.T) {
	if comm, err := os.ReadFile("/proc/2/comm"); err != nil || strings.TrimSpace(string(comm)) != "kthreadd" {
		t.Skip("none are shown here")
	}
	seen := 0
	for p := range processes() {
		if of := p.pid == 2 || p.parent == 2; p.kernel != of {
			t.Errorf("process %d, child of %d: a thread of the kernel: %t", p.pid, p.parent, p.kernel)
		} else if of {
			seen++
		}
	}
	if p, ok := lookup(os.Getpid()); seen == 0 || !ok || p.kernel {
		t.Errorf("%d threads of the kernel, and this process: %t", seen, p.kernel)
	}
}
