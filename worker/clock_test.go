package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// The clock was set back by hours after the agent was started and wrote
// output, so its files have modification times in the future. The shim that
// takes over ends the agent after the idle limit, not hours later.
func TestModificationTimesInTheFutureDelayNothing(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "echo $PPID > shim; echo $$ > agent; echo one; exec sleep 60")
	spec.Dir, spec.Limits.Idle = dir, time.Second
	d := l.create(spec)
	future := time.Now().Add(5 * time.Hour)
	r := l.w.Run(d)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { _, err := r.Drive(ctx); done <- err }()
	l.await("r", "one")
	readPID := func(name string) int {
		n, err := strconv.Atoi(strings.TrimSpace(contents(t, filepath.Join(dir, name))))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	shim, agent := readPID("shim"), readPID("agent")
	t.Cleanup(func() { killAgent(agent) })
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := unix.Kill(shim, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{startedFile, outFile, errFile} {
		if err := os.Chtimes(filepath.Join(d.Path(), name), future, future); err != nil {
			t.Fatal(err)
		}
	}
	l.adopt()
	waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
	if ex := l.exit("r"); ex.Reason != runs.ReasonIdle || l.output("r") != "one\n" {
		t.Errorf("exit %s, output %q", runs.Encode(ex), l.output("r"))
	}
}

// The age is the difference on the monotonic clock.
func TestAgeOfAFileIsNeverNegative(t *testing.T) {
	now := time.Now()
	for _, c := range []struct{ changed, age time.Duration }{
		{0, 0}, {-time.Hour, time.Hour}, {9 * time.Hour, 0}, {time.Nanosecond, 0},
	} {
		changed := time.Unix(0, now.Add(c.changed).UnixNano()) // like a modification time: without the monotonic clock
		if age := now.Sub(changeTime(now, changed)); age != c.age {
			t.Errorf("changed %v from now: age %v, want %v", c.changed, age, c.age)
		}
	}
}
