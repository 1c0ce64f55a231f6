package main

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
	silent := fmt.Sprintf(": process %d has the data directory and does not answer: if it was stopped, `kill -CONT %[1]d` resumes it, else `kill -9 %[1]d` ends it; its agents continue", me)
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
		if got := by(instance{PID: test.pid}, test.err); got != test.want {
			t.Errorf("%d, %v: got %q, want %q", test.pid, test.err, got, test.want)
		}
	}
}
