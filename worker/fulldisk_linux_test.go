package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// mounted runs the rest of the test in a process that can mount file systems,
// and reports whether this is that process.
func mounted(t *testing.T) bool {
	t.Helper()
	const inside = "TEST_MOUNTS"
	if os.Getenv(inside) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if id := os.Getuid(); id != 0 {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: id, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &ended), strings.Contains(string(out), "--- SKIP: "):
		t.Skipf("cannot mount file systems here: %v\n%s", err, out)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// smallRoot puts the run directories of l on a small file system. It returns
// functions that fill it and free it again.
func (l *fixture) smallRoot() (fill, empty func()) {
	l.t.Helper()
	if err := os.MkdirAll(l.root, 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", l.root, "tmpfs", 0, "size=1m,mode=0700"); err != nil {
		l.t.Skipf("a small file system cannot be mounted: %v", err)
	}
	l.t.Cleanup(func() {
		if err := unix.Unmount(l.root, unix.MNT_DETACH); err != nil {
			l.t.Error(err)
		}
	})
	ballast := filepath.Join(l.root, ".ballast")
	return func() {
			if err := os.WriteFile(ballast, make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
				l.t.Fatalf("the file system is not full: %v", err)
			}
		}, func() {
			if err := os.Remove(ballast); err != nil {
				l.t.Fatal(err)
			}
		}
}

// The agent ends on SIGTERM, but its exit cannot be recorded. A child of it
// ignores SIGTERM, and is killed after the grace period nevertheless.
func TestFullDiskHoldsUpNoKill(t *testing.T) {
	if !mounted(t) {
		return
	}
	for grace := 3 * time.Second; !killsOnFullDisk(t, grace) && longer(&grace); {
		t.Logf("the agent did not handle SIGTERM in %v", grace/4) // the machine is busy
	}
}

// killsOnFullDisk reports false if the agent was killed before it handled SIGTERM.
func killsOnFullDisk(t *testing.T, grace time.Duration) bool {
	t.Helper()
	l := newFixture(t)
	fill, _ := l.smallRoot()
	spec := shell("r", `sh -c 'trap "" TERM; echo $$ > child; while :; do sleep 0.05; done' &
trap 'exit 3' TERM; while ! [ -s child ]; do sleep 0.01; done; echo ready; while :; do sleep 0.01; done`)
	spec.Dir, spec.Limits.Grace = t.TempDir(), grace
	killAtEnd(t, filepath.Join(spec.Dir, "child"))
	r, done := l.begun(spec, "ready")
	fill()
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the child's end", func() bool { return gone(t, filepath.Join(spec.Dir, "child")) })
	res := <-done
	if late := res.Signal == int(unix.SIGKILL); late && 4*grace <= time.Minute {
		return false
	}
	if res.err != nil || !sameExit(res.Exit, runs.Exit{Reason: runs.ReasonCancelled, Code: code(3)}) {
		t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
	}
	return true
}

// No worker is running when the agent ends, and the disk is full at that
// moment.
func TestExitIsRecordedOnceThereIsRoom(t *testing.T) {
	if !mounted(t) {
		return
	}
	l := newFixture(t)
	fill, empty := l.smallRoot()
	spec := shell("r", recordPIDs+"echo ready; while ! [ -e go ]; do sleep 0.01; done; exit 3")
	spec.Dir = t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	d := l.create(spec)
	_, done := l.driven(ctx, d)
	l.await("r", "ready")
	stop()
	<-done
	fill()
	write(t, filepath.Join(spec.Dir, "go"), "")
	waitFor(t, "the agent's end", func() bool { return gone(t, filepath.Join(spec.Dir, "agent")) })
	if exists(d.file(exitFile)) {
		t.Fatal("the disk was not full")
	}
	empty()
	waitFor(t, "the record", func() bool { return exists(d.file(exitFile)) })
	again, err := open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	ex, err := l.w.Run(again).Drive(t.Context())
	if err != nil || !sameExit(ex, runs.Exit{Reason: runs.ReasonExited, Code: code(3)}) {
		t.Errorf("exit %s, error %v", runs.Encode(ex), err)
	}
}

// All that the worker has appended is fed; the rest once there is room.
func TestFullDiskStopsNoLineForTheAgent(t *testing.T) {
	if !mounted(t) {
		return
	}
	l := newFixture(t)
	fill, empty := l.smallRoot()
	c := l.converse()
	c.say(100, 200)
	whole := string(c.lines)
	f, read := c.alone()
	fill()
	c.lines = append(c.lines, strings.Repeat("5", 8<<10)+"\n"...)
	if err := c.send(); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the disk was not full: %v", err)
	}
	if f.feed(time.Now()); read() != whole || c.fed().Phase != phaseIdle || c.fed().At != int64(len(whole)) {
		t.Errorf("on a full disk the agent did not get its lines: %+v", c.fed())
	}
	empty()
	c.say(300)
	if f.feed(time.Now()); read() != string(c.lines)[len(whole):] {
		t.Error("the agent did not get the next lines")
	}
}

// What cannot be spooled is lost, and the run says so, once there is room.
func TestPipeOnAFullDiskIsLost(t *testing.T) {
	if !mounted(t) {
		return
	}
	l := newFixture(t)
	fill, empty := l.smallRoot()
	d := l.create(Spec{Run: "r", Attributes: runs.Attributes{Agent: "codex"}, Source: runs.SourcePipe})
	in, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Pipe(t.Context(), in, d) }()
	_, done := l.driven(t.Context(), d)
	if _, err := io.WriteString(out, "one\n"); err != nil {
		t.Fatal(err)
	}
	l.await("r", "one\n")
	fill()
	text := numbers(0, 8000) // more than the rest of its last page
	if _, err := io.WriteString(out, text); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the part that there is room for", func() bool { return len(l.output("r")) > len("one\n") })
	select {
	case err := <-ended:
		t.Errorf("the end is not recorded: %v", err)
	case <-time.After(exitPause / 2): // time for a wrong end
	}
	empty()
	if err := <-ended; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v", err)
	}
	res := <-done
	if res.err != nil || res.Reason != runs.ReasonLost || !strings.HasPrefix("one\n"+text, l.output("r")) {
		t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
	}
}
