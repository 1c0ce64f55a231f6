package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// The clock was set back by hours after the agent was started and wrote
// output, so its files have modification times in the future. The shim that
// takes over ends the agent after the idle limit, not hours later.
func TestModificationTimesInTheFutureDelayNothing(t *testing.T) {
	t.Parallel()
	for idle := time.Second; !idleInThePast(t, idle) && longer(&idle); {
		t.Logf("the shim was not killed within %v", idle/4) // the machine is busy
	}
}

// idleInThePast reports false if the first shim ended the agent.
func idleInThePast(t *testing.T, idle time.Duration) bool {
	t.Helper()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", recordPIDs+"echo one; exec sleep 60")
	spec.Dir, spec.Limits.Idle = dir, idle
	killAtEnd(t, filepath.Join(dir, "agent"))
	d := l.create(spec)
	future := time.Now().Add(5 * time.Hour)
	r := l.w.Run(d)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { _, err := r.Drive(ctx); done <- err }()
	printed := l.prints("r", "one")
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	last := 4*idle > time.Minute
	early := func() bool {
		if last {
			t.Errorf("the agent ended before the shim was killed, with an idle limit of %v", idle)
		}
		return false
	}
	if !printed || !endShim(t, dir) || l.ended("r") {
		return early()
	}
	// A shim that had begun to end the agent may have recorded that.
	if exists(d.file(exitFile)) || gone(t, filepath.Join(dir, "agent")) {
		return early()
	}
	for _, name := range []string{startedFile, outFile, errFile} {
		if err := os.Chtimes(filepath.Join(d.Path(), name), future, future); err != nil {
			t.Fatal(err)
		}
	}
	l.adopt()
	waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
	if l.exit("r").Reason == runs.ReasonLost && !last { // the first shim was killed while it ended the agent
		return false
	}
	if ex := l.exit("r"); ex.Reason != runs.ReasonIdle || l.output("r") != "one\n" {
		t.Errorf("exit %s, output %q", runs.Encode(ex), l.output("r"))
	}
	return true
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
