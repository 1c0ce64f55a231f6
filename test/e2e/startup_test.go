package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The start of a command is a large part of its time, and hooks of agents start one each time: it collects no
// garbage.
func TestShortCommandsCollectNoGarbage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--help"}, {"completion", "bash"}, {"shim", t.TempDir()}} {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "GOGC=", "GODEBUG=gctrace=1", "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if args[0] != "shim" && err != nil {
			t.Errorf("%v: %v", args, err)
		}
		if strings.Contains(string(out), "gc 1 @") {
			t.Errorf("%v collected garbage:\n%.300s", args, out)
		}
	}
}
