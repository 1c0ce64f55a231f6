package datadir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/bus"
)

func TestUpThatDoesNotGiveWayIsNamedWithOneAdvice(t *testing.T) {
	t.Parallel()
	me := os.Getpid()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Skip("only /proc tells which program a process is")
	}
	silent := fmt.Sprintf(": process %d has the data directory and does not answer: if it was stopped, `kill "+
		"-CONT %[1]d` resumes it, else `kill -9 %[1]d` ends it; its agents continue", me)
	for _, test := range []struct {
		pid  int
		err  error
		want string
	}{
		{0, os.ErrNotExist, ": the process that has it does not say which it is; end that"},
		{me, nil, fmt.Sprintf("; end process %d", me)},
		{me, errors.New("no permission"), fmt.Sprintf(": no permission; end process %d", me)},
		{me, fmt.Errorf("%w: i/o timeout; has it been killed? Start it again", bus.ErrUnreachable), silent},
		{me, fmt.Errorf("ask it to end: %w", context.DeadlineExceeded), silent},
	} {
		if got := advice(Instance{PID: test.pid, Program: program}, test.err); got != test.want {
			t.Errorf("%d, %v: got %q, want %q", test.pid, test.err, got, test.want)
		}
	}
}

// Whether a process serves it is not known then.
func TestStopOfADataDirectoryThatCannotBeReadFails(t *testing.T) {
	t.Parallel()
	stop := func(data string) error {
		d := &Dialer{}
		d.Config.DataDir = data
		return d.Stop(t.Context())
	}
	data := filepath.Join(t.TempDir(), "data")
	if err := stop(data); err != nil {
		t.Errorf("one that does not exist: %v", err)
	}
	if err := os.WriteFile(data, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := stop(data); err == nil || !strings.Contains(err.Error(), filepath.Join(data, "lock")) {
		t.Errorf("a file: %v", err)
	}
	closed := closedTo(t)
	if err := stop(closed); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "run this as its owner") {
		t.Errorf("one of another user: %v", err)
	}
}

// closedTo is a data directory that this user cannot read. It ends the test for root, who can read all.
func closedTo(t *testing.T) string {
	t.Helper()
	if os.Getuid() == 0 {
		t.Skip("root can read all directories")
	}
	data := t.TempDir()
	if err := os.Chmod(data, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(data, 0o700) })
	return data
}

// The system may have reused its process ID.
func TestProcessThatIsAnotherProgramIsNotNamed(t *testing.T) {
	t.Parallel()
	gone := Instance{PID: os.Getpid(), Program: "/bin/linesman"}
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "; end the process that has it"},
		{errors.New("no permission"), ": no permission; end the process that has it"},
		{bus.ErrUnreachable, ": a process has the data directory and does not answer: if it was stopped, `kill " +
			"-CONT` resumes it, else `kill -9` ends it; its agents continue"},
	} {
		if got := advice(gone, test.err); got != test.want {
			t.Errorf("%v: got %q, want %q", test.err, got, test.want)
		}
	}
}
