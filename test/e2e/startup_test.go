package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// The start of a command is a large part of its time, and hooks of agents start one each time: it collects no
// garbage.
func TestShortCommandsCollectNoGarbage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"version"}, {"--help"}, {"completion", "bash"}, {"shim", t.TempDir()}} {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "GOGC=", "GODEBUG=gctrace=1", "HOME="+t.TempDir())
		_, stderr, code := fixture.Run(t, cmd)
		if args[0] != "shim" && code != 0 {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
		if strings.Contains(stderr, "gc 1 @") {
			t.Errorf("%v collected garbage:\n%.300s", args, stderr)
		}
	}
}
