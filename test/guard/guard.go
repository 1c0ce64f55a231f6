// Package guard ends what a test binary leaves behind when it is interrupted:
// by Ctrl-C, by a kill -9, by a panic or by the time limit of go test, none of
// which runs a test's cleanups.
//
// The guard is a process of its own: the test binary once more, in a session
// of its own, which waits for the end of a pipe that nobody else holds open.
package guard

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// environment tells the second process what it is for.
const environment = "LINESMAN_TEST_GUARD"

// grace is how long processes may take that were asked to end, before they are
// killed: a shim ends its agent first, after 5 s if need be.
const grace = 8 * time.Second

// Guard looks after a directory.
type Guard struct {
	cmd  *exec.Cmd
	pipe io.Closer
}

// Watch has dir looked after until this process ends, in whatever way. Then
// processes whose program is in dir are ended, with what shims among them have
// started, and dir is removed. Of programs elsewhere only those processes are
// ended that have a file in dir as an argument.
//
// TestMain must call [Work] before all else.
func Watch(dir string, elsewhere ...string) (*Guard, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	cmd := exec.Command(self)
	list := strings.Join(append([]string{dir}, elsewhere...), string(filepath.ListSeparator))
	cmd.Env = append(os.Environ(), environment+"="+list)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C is not for the guard
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return &Guard{cmd, pipe}, nil
}

// Stop has the guard do its work now, and returns when it is done.
func (g *Guard) Stop() error {
	err := errors.Join(g.pipe.Close(), g.cmd.Wait())
	if err != nil {
		return fmt.Errorf("guard: %w", err)
	}
	return nil
}

// Work returns at once, but for the guard's own process: that does its work
// and ends here.
func Work() {
	list := filepath.SplitList(os.Getenv(environment))
	if len(list) == 0 {
		return
	}
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with whoever we work for
	end(list[0], list[1:])
	if err := os.RemoveAll(list[0]); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// end ends all processes of dir, also those that begin meanwhile.
func end(dir string, elsewhere []string) {
	const pause = 20 * time.Millisecond
	asked := map[int]bool{}
	late := time.Now().Add(grace)
	for left := theirs(dir, elsewhere); len(left) > 0; left = theirs(dir, elsewhere) {
		for _, pid := range left {
			switch {
			case time.Now().After(late):
				_ = syscall.Kill(pid, syscall.SIGKILL)
			case !asked[pid]:
				asked[pid] = true
				_ = syscall.Kill(pid, syscall.SIGCONT) // a test may have stopped it
				_ = syscall.Kill(pid, syscall.SIGTERM)
			}
		}
		if time.Now().After(late.Add(grace)) {
			return // not even that ends them
		}
		time.Sleep(pause)
	}
}

// theirs are the living processes of dir, and of the programs elsewhere.
func theirs(dir string, elsewhere []string) (pids []int) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	within := filepath.Clean(dir) + string(filepath.Separator)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		if err != nil {
			continue // it has ended, or is somebody else's
		}
		ours := strings.HasPrefix(exe, within)
		for _, program := range elsewhere {
			if exe != program {
				continue
			}
			line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
			ours = ours || err == nil && strings.Contains(string(line), within)
		}
		if ours {
			pids = append(pids, pid)
		}
	}
	return pids
}
