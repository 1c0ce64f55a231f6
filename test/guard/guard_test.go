package guard

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What this program is, when a test starts it once more.
const role = "LINESMAN_TEST_GUARD_ROLE"

func TestMain(m *testing.M) {
	Work()
	switch os.Getenv(role) {
	case "deaf": // what the tests' program leaves behind
		signal.Ignore(syscall.SIGTERM)
		fmt.Println(os.Getpid())
		select {}
	case "tests":
		os.Exit(tests(os.Args[1]))
	}
	os.Exit(m.Run())
}

// tests is a test binary that never ends, with a process that outlives it.
func tests(dir string) int {
	if _, err := Watch(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	child := exec.Command(filepath.Join(dir, "program"))
	child.Env = append(os.Environ(), role+"=deaf")
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// Whatever ends a test binary, what it started is ended, and its files go.
func TestNothingOutlivesAnInterruptedTestBinary(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(s) {
				t.Skip("this process was started with the signal ignored, as a background job of a shell is")
			}
			dir := filepath.Join(t.TempDir(), "of the tests")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			if err := place(filepath.Join(dir, "program"), self); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(self, dir)
			cmd.Env = append(os.Environ(), role+"=tests")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(line))
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Process.Signal(s); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // by the signal
			tick := time.NewTicker(10 * time.Millisecond)
			defer tick.Stop()
			for late := time.Now().Add(30 * time.Second); ; <-tick.C {
				_, gone := os.Stat(dir)
				exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
				if errors.Is(gone, fs.ErrNotExist) && !strings.HasPrefix(exe, dir) {
					return
				}
				if time.Now().After(late) {
					_ = syscall.Kill(pid, syscall.SIGKILL)
					t.Fatalf("process %d runs %q, and of the directory it is said: %v", pid, exe, gone)
				}
			}
		})
	}
}
