package worker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/agent/opencode"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

// queued creates the directory of a task, and the log entry of its submission.
func (l *fixture) queued(run string, work uint64) *Dir {
	l.t.Helper()
	l.foreign(run, runs.Queued, runs.Start{Source: runs.SourceQueue, Queue: "q", Work: work})
	spec := shell(run, ": >ran")
	spec.Source, spec.Dir = runs.SourceQueue, l.t.TempDir()
	spec.Queue, spec.Work = "q", work
	return l.create(spec)
}

func ran(d *Dir) bool { return exists(filepath.Join(d.Spec.Dir, "ran")) }

func TestATaskIsStartedOnce(t *testing.T) {
	t.Parallel()
	started := func(by string) func(*fixture, *Dir) {
		return func(l *fixture, _ *Dir) {
			l.foreign("r", runs.Started, runs.Start{Source: runs.SourceQueue, Worker: by})
		}
	}
	cancelled := func(l *fixture, _ *Dir) { l.foreign("r", runs.Cancelled, runs.Remark{}) }
	lost := func(l *fixture, _ *Dir) { l.foreign("r", runs.Exited, runs.Exit{Reason: runs.ReasonLost}) }
	// begun: the worker was killed before or after it sent the start entry.
	begun := func(l *fixture, d *Dir) {
		d.mark.Begun = true
		if err := d.mark.save(); err != nil {
			l.t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name   string
		before []func(*fixture, *Dir)
		want   error
		ran    bool
	}{
		{"nothing else happened", nil, nil, true},
		{"killed before the start entry", []func(*fixture, *Dir){begun}, nil, true},
		{"killed after it", []func(*fixture, *Dir){begun, started("here")}, nil, true},
		{"another worker has it", []func(*fixture, *Dir){started("there")}, ErrKnown, false},
		{"another worker got it after we were killed", []func(*fixture, *Dir){begun, started("there")}, ErrKnown, false},
		{"cancelled", []func(*fixture, *Dir){cancelled}, ErrKnown, false},
		{"cancelled after we were killed", []func(*fixture, *Dir){begun, cancelled}, ErrKnown, false},
		{"ended as lost", []func(*fixture, *Dir){lost}, ErrKnown, false},
		{"ended as lost after we had started", []func(*fixture, *Dir){begun, started("here"), lost}, ErrEnded, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			d := l.queued("r", 7)
			for _, f := range test.before {
				f(l, d)
			}
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			d, err := open(d.Path()) // as after a restart
			if err != nil {
				t.Fatal(err)
			}
			_, err = l.w.Run(d).Drive(t.Context())
			if !errors.Is(err, test.want) || test.want == nil && err != nil {
				t.Errorf("drive: %v, want %v", err, test.want)
			}
			if ran(d) != test.ran {
				t.Errorf("the agent ran: %v", ran(d))
			}
			if !l.empty() {
				t.Error("the directory is still there")
			}
		})
	}
}

// submitted appends the log entry of a task in a memoryQueue.
func (l *fixture) submitted(run string) {
	l.t.Helper()
	l.foreign(run, runs.Queued, runs.Start{Source: runs.SourceQueue, Queue: "q", Work: 1})
}

func TestATaskWithoutAQueuedEntryIsNotStarted(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	s := l.serve("/bin/true")
	task := runs.QueuedTask{Run: "r", Task: runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly},
		Prompt: "x"}}
	s.tasks <- task
	<-s.later
	l.foreign("r", runs.Queued, runs.Start{Source: runs.SourceQueue, Queue: "q", Work: 2}) // another task with the same id
	s.tasks <- task
	if got := <-s.done; got != "r" {
		t.Fatalf("done with %q", got)
	}
	if got := l.kinds("r"); got != "queued" || !l.empty() {
		t.Errorf("log %q", got)
	}
}

// A task that is queued again is delivered before the log names it.
func TestTaskThatIsQueuedAgainWaitsForItsEntry(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	s := l.serve("/bin/true")
	s.work = 3
	l.foreign("r", runs.Queued, runs.Start{Source: runs.SourceQueue, Queue: "q", Work: 2})
	task := runs.QueuedTask{Run: "r", Task: runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly},
		Prompt: "x"}}
	s.tasks <- task
	select {
	case <-s.later:
	case <-s.done:
		t.Fatal("dropped")
	}
	l.foreign("r", runs.Queued, runs.Start{Source: runs.SourceQueue, Queue: "q", Work: 3})
	s.tasks <- task
	if <-s.done; !strings.Contains(l.kinds("r"), "start") {
		t.Errorf("log %q", l.kinds("r"))
	}
}

// A responder that was killed can leave a task without a queued entry. A worker waits
// for the entry at the first delivery only, because other tasks wait meanwhile. After
// half a minute it drops the task.
func TestTaskWhoseSubmissionFailedHoldsNothingBack(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	s := l.serve("/bin/true")
	task := runs.QueuedTask{Run: "r", Task: runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly},
		Prompt: "x"}}
	var waited time.Duration
	for s.times = 1; ; s.times++ {
		before := l.logs.opens()
		s.tasks <- task
		select {
		case after := <-s.later:
			waited += after
		case <-s.done:
			if waited < 30*time.Second || waited > time.Minute || s.times > 15 {
				t.Errorf("dropped after %d deliveries in %v, want at most 15, in half a minute to a minute", s.times, waited)
			}
			return
		}
		if looks := l.logs.opens() - before; s.times > 1 && looks > 1 {
			t.Fatalf("its log was opened %d times at delivery %d, want once", looks, s.times)
		}
	}
}

// memoryQueue is a queue of tasks in memory, and records what happens to them.
type memoryQueue struct {
	times int // that each task was delivered
	work  uint64
	tasks chan runs.QueuedTask
	done  chan string
	later chan time.Duration
}

func (s *memoryQueue) Next(ctx context.Context) (Delivery, error) {
	select {
	case t := <-s.tasks:
		return &slipTask{t, s, s.times}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

type slipTask struct {
	task runs.QueuedTask
	s    *memoryQueue

	times int
}

func (d *slipTask) Task() (runs.QueuedTask, error) { return d.task, d.task.Check() }
func (d *slipTask) Work() uint64                   { return max(d.s.work, 1) }
func (d *slipTask) Times() int                     { return d.times }
func (d *slipTask) Done() error                    { d.s.done <- d.task.Run; return nil }
func (d *slipTask) Later(after time.Duration) error {
	d.s.later <- after
	return nil
}

// launches starts each codex with a command.
func launches(command []string) map[string]agent.Launch {
	how := codex.Agent.Launch
	how.Command = command
	return map[string]agent.Launch{codex.Agent.Kind(): how}
}

func (l *fixture) serve(command ...string) *memoryQueue {
	l.t.Helper()
	return l.serving(launches(command), os.Environ()...)
}

func (l *fixture) serving(how map[string]agent.Launch, environ ...string) *memoryQueue {
	l.t.Helper()
	s := &memoryQueue{times: 1, tasks: make(chan runs.QueuedTask), done: make(chan string, 16),
		later: make(chan time.Duration, 16)}
	dir := l.t.TempDir()
	l.adopt()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- l.w.Serve(ctx, Tasks{
			Queue: s, Name: "q", Slots: 1, Agents: how,
			Rules: launch.Rules{Dir: dir, Roots: []string{dir}}, Environ: environ, MaxLimit: time.Hour,
		})
	}()
	l.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			l.t.Error(err)
		}
	})
	return s
}

func TestARedeliveredTaskIsAcknowledged(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.submitted("r")
	s := l.serve("/bin/sh", "-c", "exit 0")
	task := runs.QueuedTask{Run: "r", Task: runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly},
		Prompt: "x", Schema: []byte(`{"type":"object"}`)}}
	for range 2 { // while its run is active, and after its end
		s.tasks <- task
		if got := <-s.done; got != "r" {
			t.Fatalf("done with %q", got)
		}
	}
	waitFor(t, "the end", l.empty)
	if got := l.kinds("r"); got != "queued start exit" {
		t.Errorf("log %q", got)
	}
}

func TestATaskWithADirectoryIsRedeliveredLater(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.queued("r", 1) // another goroutine is about to start it
	defer d.Close()
	s := l.serve("/bin/true")
	s.tasks <- runs.QueuedTask{Run: "r", Task: runs.Task{Attributes: runs.Attributes{Agent: "codex",
		Mode: runs.ReadOnly}, Prompt: "x"}}
	<-s.later
}

func TestSchemaFileIsRemovedWithTheRun(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.submitted("r")
	copied := filepath.Join(t.TempDir(), "schema")
	s := l.serve("/bin/sh", "-c", `for a; do case $a in --output-schema=*) cat "${a#*=}";; esac; done >`+copied, "sh")
	s.tasks <- runs.QueuedTask{Run: "r", Task: runs.Task{Attributes: runs.Attributes{Agent: "codex",
		Mode: runs.ReadOnly}, Prompt: "x", Schema: []byte(`{"type":"object"}`)}}
	<-s.done
	waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
	if got := contents(t, copied); got != `{"type":"object"}` {
		t.Errorf("the agent saw %q", got)
	}
	if _, err := os.Stat(schemaPath(l.root, "r")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file still exists: %v", err)
	}
}

// The queue redelivers a cancelled task, for example after its worker was
// killed.
func TestARedeliveredCancelledTaskIsNotStarted(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	ran := filepath.Join(t.TempDir(), "ran")
	l.submitted("r")
	l.foreign("r", runs.Cancelled, runs.Remark{Reason: "no"})
	s := l.serve("/bin/sh", "-c", ": >"+ran)
	s.tasks <- runs.QueuedTask{Run: "r", Task: runs.Task{Attributes: runs.Attributes{Agent: "codex",
		Mode: runs.ReadOnly}, Prompt: "x"}}
	if got := <-s.done; got != "r" {
		t.Fatalf("done with %q", got)
	}
	waitFor(t, "the directory", l.empty)
	if got := l.kinds("r"); got != "queued cancel" || exists(ran) {
		t.Errorf("log %q, ran %v", got, exists(ran))
	}
}

// A thread to resume of which the agent has no session here is not started as a new one, or with an
// error of the agent that is not understood. Where that is not certain the agent is started.
func TestATaskIsNotStartedOnASessionThatIsNotThere(t *testing.T) {
	t.Parallel()
	const id, other = "01a1fd7c-2962-7480-bee8-860dd513208c", "01a1fd7c-2962-7480-bee8-860dd513208d"
	root, missing := filepath.Join(t.TempDir(), "[a]*"), filepath.Join(t.TempDir(), "none")
	for _, name := range []string{
		"sessions/2026/11/21/rollout-2026-11-21T09-42-15-" + id + ".jsonl", "projects/-src-shop/" + id + ".jsonl",
		"sessions/2026/11/21/rollout-2026-11-21T09-42-15.jsonl", "projects/-src-shop/" + other + ".txt/x", "other/" + other,
	} {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.WriteFile(closed, nil, 0o600); err != nil { // no directory: nothing is certain
		t.Fatal(err)
	}
	codexEnv, claudeEnv := []string{"CODEX_HOME=" + root}, []string{"HOME=/none", "CLAUDE_CONFIG_DIR=" + root}
	for _, c := range []struct {
		name   string
		of     agent.Sessions
		thread string
		env    []string
		want   bool
	}{
		{"codex", codex.Agent.Sessions, id, codexEnv, true},
		{"codex, upper case", codex.Agent.Sessions, strings.ToUpper(id), codexEnv, true},
		{"codex, another", codex.Agent.Sessions, strings.Replace(other, "8d", "8e", 1), codexEnv, false},
		{"codex, a file elsewhere", codex.Agent.Sessions, other, codexEnv, false},
		{"claude", claude.Agent.Sessions, id, claudeEnv, true},
		{"claude, another", claude.Agent.Sessions, strings.Replace(other, "8d", "8e", 1), claudeEnv, false},
		{"no directory of the agent", codex.Agent.Sessions, id, []string{"CODEX_HOME=" + missing}, false},
		{"a directory that cannot be read", codex.Agent.Sessions, id, []string{"CODEX_HOME=" + closed}, true},
		{"a home that is not told", codex.Agent.Sessions, id, nil, true},
		{"a new thread", codex.Agent.Sessions, "", codexEnv, true},
		{"no UUID", codex.Agent.Sessions, "*", codexEnv, true},
		{"logs that are not known", opencode.Agent.Sessions, "ses_1", codexEnv, true},
		{"a program of the user", agent.Sessions{}, id, codexEnv, true},
	} {
		if got := hasSession(c.of, c.thread, c.env); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}

	l := newFixture(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "codex")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n: >>\"$CODEX_HOME/ran\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	how := launches([]string{program})
	one := how["codex"]
	one.Logs = codex.Agent.Sessions
	how["codex"] = one
	l.submitted("known")
	l.submitted("unknown")
	l.submitted("copied")
	s := l.serving(how, "CODEX_HOME="+root, "PATH=/usr/bin:/bin")
	for run, of := range map[string]runs.Attributes{
		"known": {Thread: id}, "unknown": {Thread: other}, "copied": {ForkedFrom: other},
	} {
		of.Agent, of.Mode = "codex", runs.ReadOnly
		s.tasks <- runs.QueuedTask{Run: run, Task: runs.Task{Attributes: of, Prompt: "x"}}
		if got := <-s.done; got != run {
			t.Fatalf("done with %q, want %q", got, run)
		}
	}
	waitFor(t, "the end", func() bool {
		return l.ended("known") && l.ended("unknown") && l.ended("copied") && l.empty()
	})
	if got := l.kinds("known"); got != "queued start exit" || !exists(filepath.Join(root, "ran")) {
		t.Errorf("the log of the one that is known: %q", got)
	}
	for _, run := range []string{"unknown", "copied"} {
		if got, x := l.kinds(run), l.exit(run); got != "queued exit" || x.Spawn != runs.SpawnNoSession {
			t.Errorf("the log of %s, which is not known: %q, %+v", run, got, x)
		}
	}
}
