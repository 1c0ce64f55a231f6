package worker

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// A worker has started a task, and stops, for example for an upgrade, while
// the agent runs. Then the file `worker` of the data directory is lost:
// somebody followed the message "is damaged; remove it, and a new name is
// made". The next worker has another name, and finds a start entry of another
// worker in the log.
//
// It must not treat the run as one of another worker: it would remove the
// directory of a running agent, whose output and exit would be lost, that
// could not be cancelled, and whose slot another task would get.
func TestWorkerWithANewNameKeepsItsRuns(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.foreign("r", runs.Queued, runs.Start{Source: runs.SourceQueue, Queue: "q", Work: 7})
	spec := shell("r", "echo $$ >pid; echo begun; exec sleep 1000")
	spec.Source, spec.Dir, spec.Queue, spec.Work = runs.SourceQueue, t.TempDir(), "q", 7
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	r := l.w.Run(l.create(spec))
	go func() { _, err := r.Drive(ctx); done <- err }()
	l.await("r", "begun")
	cancel()
	if err := <-done; err == nil {
		t.Error("the agent ended with the worker")
	}

	pid, err := strconv.Atoi(strings.TrimSpace(contents(t, filepath.Join(spec.Dir, "pid"))))
	if err != nil {
		t.Fatal(err)
	}
	alive := func() bool { is, _ := hasVariable(pid, markVariable+"="); return is } // not of one that has ended
	t.Cleanup(func() {
		killAgent(pid)
		waitFor(t, "the agent's end", func() bool { return !alive() })
	})

	next, err := New(Config{Root: l.root, Logs: l.logs, Shim: []string{os.Args[0], "shim"}, Name: "there", Log: l.w.log})
	if err != nil {
		t.Fatal(err)
	}
	d, err := open(filepath.Join(l.root, "r"))
	if err != nil {
		t.Fatal(err)
	}
	again := next.Run(d)
	ctx, cancel = context.WithCancel(t.Context())
	go func() { _, err := again.Drive(ctx); done <- err }()
	var dropped bool
	waitFor(t, "the next worker", func() bool {
		select {
		case err := <-done:
			done <- err
			dropped = true
		default:
		}
		return dropped || l.has("adopted")
	})
	cancel()
	if err := <-done; dropped && l.empty() && alive() {
		t.Errorf("the run directory is removed, its agent %d still runs (%v); log: %s", pid, err, l.kinds("r"))
	}
}

// A program whose main function does not call Shim begins again as a worker where its shim should be.
func TestAProcessThatIsToBeAShimIsNoWorker(t *testing.T) {
	logs := newFixture(t).logs
	t.Setenv(shimVariable, "1")
	if _, err := New(Config{Root: t.TempDir(), Logs: logs}); err == nil || !strings.Contains(err.Error(), "worker.Shim") {
		t.Errorf("got %v", err)
	}
}
