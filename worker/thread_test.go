package worker

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// Of two tasks that resume one thread one is started, however many workers take them; the other one says which run
// has it. A killed worker changes nothing: its run is open.
func TestAThreadHasOneRun(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", "")
	spec.Thread = "t"
	var wait sync.WaitGroup
	made, refused := make(chan *Dir, 8), make(chan error, 8)
	for i := range 8 {
		spec.Run = "r" + string(rune('0'+i))
		spec.Thread = []string{"t", "T"}[i%2]
		one, err := New(l.w.cfg)
		if err != nil {
			t.Fatal(err)
		}
		mine := spec
		wait.Go(func() {
			d, err := one.create(mine)
			if err != nil {
				refused <- err
			} else {
				made <- d
			}
		})
	}
	wait.Wait()
	if len(made) != 1 || len(refused) != 7 {
		t.Fatalf("%d are started, %d not", len(made), len(refused))
	}
	d := <-made
	for range 7 {
		if err := <-refused; err.Error() != "its thread is that of run "+d.Spec.Run+", which has not ended" {
			t.Error(err)
		}
	}
	for name, change := range map[string]func(*Spec){
		"another agent": func(s *Spec) { s.Agent = "claude_code" }, "another thread": func(s *Spec) { s.Thread = "u" },
	} {
		other := spec
		other.Run = "other"
		change(&other)
		if d, err := l.w.create(other); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := d.Remove(); err != nil {
			t.Error(err)
		}
	}
	if err := d.Close(); err != nil { // as a kill does
		t.Fatal(err)
	}
	if _, err := l.w.create(spec); err == nil {
		t.Error("a run without a worker has lost its thread")
	}
	if d, err := open(d.Path()); err != nil || d.Remove() != nil {
		t.Fatal(err)
	}
	if _, err := l.w.create(spec); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

// An agent that hides its spec keeps the thread of its run, and one that hides the directory stops no other run.
func TestHiddenRunStopsNoTaskThatResumesAThread(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	l := newFixture(t)
	spec, again, other := shell("r", ""), shell("again", ""), shell("other", "")
	spec.Thread, again.Thread, other.Thread = "t", "t", "u"
	d := l.create(spec)
	defer d.Close()
	if err := os.Chmod(d.file(specFile), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.w.create(again); !errors.As(err, new(*heldError)) {
		t.Errorf("another run of its thread: error %v", err)
	}
	if err := os.Chmod(d.path, 0); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Chmod(d.path, 0o700) }()
	made, err := l.w.create(other)
	if err != nil {
		t.Fatalf("a run of another thread: error %v", err)
	}
	made.Close()
}

// Whoever sees the end of a run may resume its thread at once: the task waits until the directory of that run is
// removed.
func TestThreadOfARunThatHasEndedIsFree(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", "")
	spec.Thread = "t1"
	d := l.create(spec)
	l.foreign("r", runs.Started, runs.Start{Source: runs.SourceQueue, Worker: "here"})
	l.foreign("r", runs.Exited, runs.Exit{Reason: runs.ReasonEOF})
	how := launches([]string{"/bin/true"})
	codex := how[spec.Agent]
	codex.Check = nil
	how[spec.Agent] = codex
	q := l.serving(how)
	l.submitted("a")
	task := runs.QueuedTask{Run: "a", Task: runs.Task{Attributes: runs.Attributes{Agent: spec.Agent, Mode: runs.ReadOnly,
		Thread: "t1"}, Prompt: "x"}}
	q.tasks <- task
	select {
	case <-q.later:
	case <-q.done:
		t.Fatalf("it is not started: %+v", l.exit("a"))
	}
	if err := d.Remove(); err != nil {
		t.Fatal(err)
	}
	q.tasks <- task
	waitFor(t, "the next one", func() bool { return l.kinds("a") == "queued start exit" })
}

// A task that resumes the thread of a live run ends as failed, from when that has a session until it has ended: also
// while it sleeps, and after the end of its worker.
func TestThreadOfALiveRunIsItsOwn(t *testing.T) {
	t.Parallel()
	s := sleeping(t, "resumes")
	ctx, end := context.WithCancel(t.Context())
	_, done := s.driven(ctx, s.create(s.spec))
	s.lasts(firstTurn + wentToSleep)
	end()
	<-done
	how := launches([]string{"/bin/true"})
	codex := how[s.spec.Agent]
	codex.Check = nil
	how[s.spec.Agent] = codex
	q := s.serving(how)
	task := func(run string) {
		s.submitted(run)
		q.tasks <- runs.QueuedTask{Run: run, Task: runs.Task{Attributes: runs.Attributes{Agent: s.spec.Agent,
			Mode: runs.ReadOnly, Thread: "s1"}, Prompt: "x"}}
		<-q.done
	}
	task("a")
	if x := s.exit("a"); x.Spawn != runs.SpawnRefused || x.Why != "its thread is that of run r, which has not ended" {
		t.Errorf("beside it: %+v", x)
	}
	if got, err := s.absent(runs.Command{ID: "e", Do: runs.DoEnd, By: "ann"}); err != nil || !got.Holds {
		t.Fatalf("end: %+v, error %v", got, err)
	}
	waitFor(t, "the end", s.empty)
	task("b")
	waitFor(t, "the next one", func() bool { return s.kinds("b") == "queued start exit" })
}

// With a live run open, whose thread can still come, the directory of the runs is not read for each line of a session.
func TestRunsAreReadAgainWhenTheyHaveChanged(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	live := shell("live", "")
	live.Live = true
	d := l.create(live)
	s := &sessionFollower{w: l.w}
	l.w.tailPause = time.Nanosecond
	waitFor(t, "a look that is later than the directory", func() bool {
		s.threads()
		return s.heldAt.Sub(s.rootAt) > time.Second/2
	})
	l.w.tailPause = time.Hour
	read := s.heldAt
	for range 100 {
		s.threads()
	}
	if got := holder(s.threads(), live.Agent, "x", ""); got.run != "" || s.heldAt != read {
		t.Errorf("the runs are read again, or %q has a thread", got.run)
	}
	write(t, d.file(threadFile), "x")
	if got := holder(s.threads(), live.Agent, "x", ""); got.run != "live" || s.heldAt != read {
		t.Errorf("run %q has the thread, or all are read again", got.run)
	}
	resumes := shell("resumes", "")
	resumes.Thread = "y"
	l.create(resumes)
	if got := holder(s.threads(), live.Agent, "y", ""); got.run != "resumes" {
		t.Errorf("run %q has the thread of a new run", got.run)
	}
}
