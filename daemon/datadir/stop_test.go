package datadir

import (
	"context"
	"errors"
	"fmt"
	"os"
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
