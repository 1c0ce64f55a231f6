package worker

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// An agent may be a launcher whose child writes the output. If the launcher is
// killed, the run continues until the child has ended, has all of its output,
// and ends with the exit of the launcher.
func TestKilledLauncherLeavesTheRunToItsChild(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	pid, further := filepath.Join(dir, "pid"), filepath.Join(dir, "further")
	script := "(while ! test -e " + further + "; do sleep 0.02; done; echo two; echo three) & echo $$ > " + pid +
		"; echo one; wait"
	_, done := l.begun(shell("r", script), "one")
	launcher, err := strconv.Atoi(strings.TrimSpace(contents(t, pid)))
	if err == nil {
		err = unix.Kill(launcher, unix.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the launcher's end", func() bool { return exists(filepath.Join(l.root, "r", exitFile)) })
	if l.ended("r") {
		t.Error("the run has ended, and its child has not")
	}
	if err := os.WriteFile(further, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	got := <-done
	if want := (runs.Exit{Reason: runs.ReasonExited, Signal: int(unix.SIGKILL)}); got.err != nil ||
		!sameExit(got.Exit, want) {
		t.Errorf("ended %s, %v; want %s", runs.Encode(got.Exit), got.err, runs.Encode(want))
	}
	if out := l.output("r"); out != "one\ntwo\nthree\n" {
		t.Errorf("output %q", out)
	}
}
