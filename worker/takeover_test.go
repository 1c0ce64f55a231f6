package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	testfixture "github.com/linesman/linesman/test/fixture"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/internal/files"
	"github.com/linesman/linesman/runs"
)

// recordPIDs is the beginning of a script that writes the process IDs of its shim
// and its own to the files shim and agent.
const recordPIDs = "echo $PPID > shim; echo $$ > agent; "

// number reads a process ID that a script writes.
func readPID(t *testing.T, path string) (pid int) {
	t.Helper()
	waitFor(t, filepath.Base(path), func() bool {
		text := contents(t, path)
		pid, _ = strconv.Atoi(strings.TrimSpace(text))
		return pid > 0 && strings.HasSuffix(text, "\n")
	})
	return pid
}

// killShim kills the shim that started the agent, and waits until it has
// ended.
func killShim(t *testing.T, dir string) {
	t.Helper()
	if !endShim(t, dir) {
		t.Fatal("the shim has ended before it was killed")
	}
}

// endShim is killShim for a shim that a limit may have ended before: it reports whether it killed it.
func endShim(t *testing.T, dir string) bool {
	t.Helper()
	pid := readPID(t, filepath.Join(dir, "shim"))
	p, running := lookup(pid)
	err := unix.Kill(pid, unix.SIGKILL)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		t.Fatal(err)
	}
	waitFor(t, "the shim's end", func() bool { p, ok := lookup(pid); return !ok || p.dead })
	return running && !p.dead && err == nil
}

// takenOver waits until another shim supervises the run.
func (l *fixture) takenOver(run string) {
	l.t.Helper()
	waitFor(l.t, "another shim", func() bool {
		busy, err := files.Held(filepath.Join(l.root, run, shimFile))
		return busy && err == nil
	})
}

// killAtEnd kills the process of an agent at the end of the test.
func killAtEnd(t *testing.T, path string) {
	t.Cleanup(func() {
		if pid, err := strconv.Atoi(strings.TrimSpace(contents(t, path))); err == nil {
			killAgent(pid)
		}
	})
}

// killAgent kills a process of an agent. If that has ended, another program may have its process
// ID, so this looks for the mark of a run.
func killAgent(pid int) {
	p, found := lookup(pid)
	if is, _ := hasVariable(pid, markVariable+"="); found && is {
		p.signal(unix.SIGKILL)
	}
}

func TestLimitsApplyToAnAgentWhoseShimDied(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		script string
		limits Limits
		want   runs.Reason
		output string // end of the output
	}{
		{"idle", "echo one; sleep 60", Limits{Idle: 400 * time.Millisecond}, runs.ReasonIdle, "one\n"},
		{"hard", "while :; do echo one; sleep 0.05; done", Limits{Hard: 2 * time.Second}, runs.ReasonHard, "one\n"},
		{"spool", "while :; do echo one two three; sleep 0.01; done", Limits{Spool: 3000}, runs.ReasonSpool,
			"one two three\n"},
		{"TERM is handled", "trap 'echo bye; exit 7' TERM; echo one; while :; do sleep 0.01; done",
			Limits{Idle: 400 * time.Millisecond, Grace: testfixture.Patience}, runs.ReasonIdle, "bye\n"},
		{"TERM is ignored", "trap '' TERM; echo one; while :; do sleep 0.01; done",
			Limits{Idle: 400 * time.Millisecond, Grace: 200 * time.Millisecond}, runs.ReasonIdle, "one\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// The exit status is unknown, but not the reason. On a busy machine the shim may
			// apply a limit before it is killed, or is killed while it does: then the limit is
			// too narrow.
			l, res := newFixture(t), result{}
			for {
				var spec Spec
				spec, res = l.withoutShim(test.script, test.limits)
				const most = 40_000 // of output, which takes half a minute
				if res.err != nil || sameExit(res.Exit, runs.Exit{Reason: test.want}) || test.limits.Spool > most ||
					test.limits.Spool == 0 && !longer(&test.limits.Idle, &test.limits.Hard) {
					waitFor(t, "the agent's end", func() bool { return gone(t, filepath.Join(spec.Dir, "agent")) })
					break
				}
				l = newFixture(t)
				test.limits.Spool *= 4
			}
			if res.err != nil || !sameExit(res.Exit, runs.Exit{Reason: test.want}) {
				t.Errorf("exit %s, error %v; want the reason %s alone", runs.Encode(res.Exit), res.err, test.want)
			}
			if !strings.HasSuffix(l.output("r"), test.output) {
				t.Errorf("output ends %q, want %q", l.output("r")[max(0, len(l.output("r"))-20):], test.output)
			}
		})
	}
}

// withoutShim runs an agent whose shim is killed after its first line, unless a limit ends it before.
func (l *fixture) withoutShim(script string, limits Limits) (Spec, result) {
	l.t.Helper()
	spec := shell("r", recordPIDs+script)
	spec.Dir, spec.Limits = l.t.TempDir(), limits
	killAtEnd(l.t, filepath.Join(spec.Dir, "agent"))
	_, done := l.driven(l.t.Context(), l.create(spec))
	if l.prints("r", "one") {
		endShim(l.t, spec.Dir)
	}
	return spec, <-done
}

// The agent has children in its group, in its session, and in other sessions.
// The shim may be killed before it recorded the agent.
func TestCancelEndsAllOfARunWhoseShimDied(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		left func(lines []string) string // lines of the started file
		far  bool                        // also the child that only the mark identifies
	}{
		{"all is recorded", func(lines []string) string { return strings.Join(lines, "") }, true},
		{"the agent is not recorded", func(lines []string) string { return lines[0] }, true},
		{"the record is torn", func(lines []string) string { return lines[0] + lines[1][:5] }, true},
		{"a directory of an older version", func([]string) string { return "" }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			dir := t.TempDir()
			spec := shell("r", recordPIDs+`trap "" TERM
sh -c 'echo $$ > child; while :; do echo child; sleep 0.02; done' &
setsid sh -c 'echo $$ > daemon; exec sleep 60' &
(setsid sh -c 'echo $$ > far; exec sleep 60' </dev/null >/dev/null 2>&1 &)
while ! [ -s child -a -s daemon -a -s far ]; do sleep 0.01; done
echo ready; while :; do echo agent; sleep 0.02; done`)
			spec.Dir, spec.Limits.Grace = dir, 200*time.Millisecond
			all := []string{"agent", "child", "daemon", "far"}
			for _, name := range all {
				killAtEnd(t, filepath.Join(dir, name))
			}
			r, done := l.begun(spec, "ready")
			started := filepath.Join(l.root, "r", startedFile)
			waitFor(t, "the record of the agent", func() bool { return strings.Count(contents(t, started), "\n") >= 2 })
			lines := strings.SplitAfter(contents(t, started), "\n")
			if len(lines) != 3 {
				t.Fatalf("the file has %d lines, want two", len(lines)-1)
			}
			killShim(t, dir)
			if err := os.WriteFile(started, []byte(test.left(lines)), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := r.Cancel(t.Context(), "enough"); err != nil {
				t.Fatal(err)
			}
			if res := <-done; res.err != nil || !sameExit(res.Exit, runs.Exit{Reason: runs.ReasonCancelled, Torn: res.Torn}) {
				t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
			}
			if !test.far {
				all = all[:3]
			}
			for _, name := range all {
				waitFor(t, name+" to end", func() bool { return gone(t, filepath.Join(dir, name)) })
			}
		})
	}
}

// A data directory is copied while an agent works, or restored beside the original. The run of the copy
// ends, and the agent does not notice, whatever is asked of the copy.
func TestCopyOfARunLeavesTheAgentAlone(t *testing.T) {
	t.Parallel()
	for _, cancel := range []bool{false, true} {
		t.Run(fmt.Sprintf("cancel %t", cancel), func(t *testing.T) {
			t.Parallel()
			l, restored := newFixture(t), newFixture(t)
			spec := shell("r", recordPIDs+`trap "touch asked" TERM; echo one; while ! [ -e go ]; do sleep 0.01; done; echo two`)
			spec.Dir, spec.Limits.Idle = t.TempDir(), 30*time.Second
			killAtEnd(t, filepath.Join(spec.Dir, "agent"))
			_, done := l.begun(spec, "one")
			for from, to := range map[string]string{l.root: restored.root, l.logs.dir: restored.logs.dir} {
				_ = os.Remove(to)
				if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if cancel {
				restored.foreign("r", runs.Cancelled, runs.Remark{})
			}
			restored.adopt()
			waitFor(t, "the end of the copy", func() bool { return restored.ended("r") })
			want := runs.ReasonLost
			if cancel {
				want = runs.ReasonCancelled
			}
			if ex := restored.exit("r"); ex.Reason != want {
				t.Errorf("the copy: exit %s, want %s", runs.Encode(ex), want)
			}
			if !restored.has("this is a copy") {
				t.Error("the worker of the copy does not say what it found")
			}
			write(t, filepath.Join(spec.Dir, "go"), "")
			if res := <-done; !sameExit(res.Exit, runs.Exit{Reason: runs.ReasonExited, Code: code(0)}) ||
				l.output("r") != "one\ntwo\n" || exists(filepath.Join(spec.Dir, "asked")) {
				t.Errorf("exit %s, output %q; want an agent that ends by itself", runs.Encode(res.Exit), l.output("r"))
			}
		})
	}
}

// An agent stops its shim, which then enforces no limit and takes no command, also that of the next worker.
func TestShimThatIsStoppedIsReplaced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name            string
		limits          Limits
		restart, cancel bool
		want            runs.Reason
	}{
		{"a limit", Limits{Hard: time.Second}, false, false, runs.ReasonHard},
		{"a cancel", Limits{}, false, true, runs.ReasonCancelled},
		{"a cancel by the next worker", Limits{}, true, true, runs.ReasonCancelled},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.restart && runtime.GOOS != "linux" {
				t.Skip("only the worker that started it knows the shim on this system")
			}
			l := newFixture(t)
			spec := shell("r", recordPIDs+
				"echo one; while ! [ -e go ]; do sleep 0.01; done; kill -STOP $PPID; echo two; exec sleep 600")
			spec.Dir, spec.Limits = t.TempDir(), test.limits
			killAtEnd(t, filepath.Join(spec.Dir, "agent"))
			killAtEnd(t, filepath.Join(spec.Dir, "shim"))
			if test.restart { // the next one finds it stopped
				l.create(spec).Close()
				worker := l.process(nil, nil, "adopt")
				l.await("r", "one")
				kill(worker)
				write(t, filepath.Join(spec.Dir, "go"), "")
				waitFor(t, "the shim to be stopped", func() bool {
					p, _ := lookup(readPID(t, filepath.Join(spec.Dir, "shim")))
					return p.halted
				})
				l.foreign("r", runs.Cancelled, runs.Remark{})
				l.adopt()
			} else {
				write(t, filepath.Join(spec.Dir, "go"), "")
				r, _ := l.driven(t.Context(), l.create(spec))
				for !l.prints("r", "two") && longer(&spec.Limits.Hard) { // more where that ends the agent before
					l = newFixture(t)
					r, _ = l.driven(t.Context(), l.create(spec))
				}
				if test.cancel {
					if err := r.Cancel(t.Context(), "enough"); err != nil {
						t.Error(err)
					}
				}
			}
			waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
			if ex := l.exit("r"); ex.Reason != test.want {
				t.Errorf("exit %s, want %s", runs.Encode(ex), test.want)
			}
			waitFor(t, "the end of the agent", func() bool { return gone(t, filepath.Join(spec.Dir, "agent")) })
		})
	}
}

// readsFIFO begins a process of an agent that reads the commands for its shim, and is not silent.
const readsFIFO = "mkfifo ctl; (while :; do cat ctl >/dev/null; echo read; done) &"

// An agent removes the FIFO for commands, or reads them itself, or what it has left does. A cancel reaches its run all
// the same.
func TestCancelNeedsNoFIFO(t *testing.T) {
	t.Parallel()
	const reads = "mkfifo ctl; (while :; do cat ctl; done) >/dev/null &"
	for _, by := range []string{
		"true;", "mkfifo ctl;", "touch ctl;", "ln -s /dev/null ctl;", "mkdir ctl;", reads, readsFIFO,
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			end := "exec sleep 600"
			if by == readsFIFO {
				end = "exit 3"
			}
			spec := shell("r", "cd '"+filepath.Join(l.root, "r")+"'; rm ctl; "+by+" echo one; "+end)
			r, done := l.begun(spec, "one")
			if err := r.Cancel(t.Context(), "enough"); err != nil {
				t.Error(err)
			}
			want := runs.Exit{Reason: runs.ReasonCancelled}
			switch by { // another shim is not needed
			case reads:
				want.Signal = 15
			case readsFIFO:
				want.Code = code(3)
			}
			if res := <-done; res.err != nil || !sameExit(res.Exit, want) {
				t.Errorf("exit %s, %v", runs.Encode(res.Exit), res.err)
			}
		})
	}
}

// A shim that starts slowly does not listen for a while. That it took no commands before it had its lock does
// not count.
func TestShimThatStartsSlowlyIsNotEnded(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.create(shell("r", ""))
	defer d.Close()
	s := l.w.Run(d).source.(*spawned)
	now := time.Now()
	if s.command(now, ctlCancel); s.deaf != now {
		t.Fatalf("no shim takes commands since %v, want %v", s.deaf, now)
	}
	if alive, err := s.hasShim(now.Add(answerTime)); alive || err != nil || !s.deaf.IsZero() {
		t.Errorf("a shim: %t, %v; since %v", alive, err, s.deaf)
	}
}

// An agent replaces a file of its run's directory by one whose opening would block. The next worker still
// ends the run, or renames a directory that is none of a run any more, and stops when its context ends.
func TestAgentThatReplacesFilesOfItsRunBlocksNobody(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"mkfifo %s", "ln -s /dev/zero %s", "mkdir %s", "ln -s %[1]s %[1]s"} {
		blocksNobody(t, by, true)
	}
}

// An agent removes the permissions of a file of its run's directory.
func TestAgentThatHidesFilesOfItsRunBlocksNobody(t *testing.T) {
	if unprivileged(t) {
		blocksNobody(t, "chmod 0 %s", false)
	}
}

// blocksNobody has an agent do something with each file of its run, and the next worker end the run.
func blocksNobody(t *testing.T, by string, replaces bool) {
	t.Helper()
	for _, name := range []string{
		outFile, errFile, exitFile, shimFile, shimLogFile, ctlFile, timesFile, startedFile, markFile, ownerFile, specFile,
	} {
		t.Run(name+" by "+by, func(t *testing.T) {
			t.Parallel()
			var l *fixture
			replaced := filepath.Join(t.TempDir(), "replaced")
			for limit := 500 * time.Millisecond; !exists(replaced); limit *= 4 { // more where that ends the agent before
				l = newFixture(t)
				path := filepath.Join(l.root, "r", name)
				script := fmt.Sprintf(by, path) + "; touch " + replaced + "; exec sleep 60"
				if replaces {
					script = "rm -f " + path + "; " + script
				}
				spec := shell("r", "echo one; "+script)
				spec.Limits.Hard, spec.Limits.Linger = limit, 100*time.Millisecond
				ctx, stop := context.WithCancel(t.Context())
				_, done := l.driven(ctx, l.create(spec))
				waitFor(t, "the replacement", func() bool { return exists(replaced) || len(done) > 0 })
				stop()
				<-done
			}
			l.adopt()
			waitFor(t, "the end of the run, or of its directory", func() bool {
				entries, _ := os.ReadDir(l.root)
				return l.ended("r") || len(entries) == 1 && strings.HasPrefix(entries[0].Name(), badPrefix)
			})
		})
	}
}

// Without a limit or a cancel the agent runs to its end. Its exit code is
// unknown.
func TestAgentOutlivesItsShim(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", recordPIDs+"echo one; while ! [ -e go ]; do sleep 0.01; done; echo two")
	spec.Dir = t.TempDir()
	spec.Limits.Linger = 100 * time.Millisecond // applies to processes that are left, not to a silent agent
	_, done := l.begun(spec, "one")
	killShim(t, spec.Dir)
	waitFor(t, "the loss to be noticed", func() bool { return l.has("shim is gone") })
	l.takenOver("r")
	write(t, filepath.Join(spec.Dir, "go"), "")
	if res := <-done; !sameExit(res.Exit, runs.Exit{Reason: runs.ReasonLost}) || l.output("r") != "one\ntwo\n" {
		t.Errorf("exit %s, output %q", runs.Encode(res.Exit), l.output("r"))
	}
}

// Shims and workers are killed alternately, and a worker restarts while an
// agent that ignores SIGTERM is being ended.
func TestTakeoverSurvivesKills(t *testing.T) {
	t.Parallel()
	for grace := 500 * time.Millisecond; !takeoverSurvivesKills(t, grace) && longer(&grace); {
		t.Logf("the agent did not handle SIGTERM in %v", grace/4) // the machine is busy
	}
}

// takeoverSurvivesKills reports false if the agent was killed before it handled the first SIGTERM.
func takeoverSurvivesKills(t *testing.T, grace time.Duration) bool {
	t.Helper()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", recordPIDs+`trap "touch asked" TERM; echo ready; while :; do echo line; sleep 0.02; done`)
	spec.Dir, spec.Limits.Grace = dir, grace
	killAtEnd(t, filepath.Join(dir, "agent"))
	l.create(spec).Close()
	worker := l.process(nil, nil, "adopt")
	l.await("r", "ready")
	killShim(t, dir)
	for range 2 {
		l.takenOver("r")
		next := shimOf(t, filepath.Join(l.root, "r"))
		kill(worker)
		worker = l.process(nil, nil, "adopt")
		_ = unix.Kill(next, unix.SIGKILL)
		waitFor(t, "the shim's end", func() bool { p, ok := lookup(next); return !ok || p.dead })
	}
	l.takenOver("r")
	l.foreign("r", runs.Cancelled, runs.Remark{})
	asked := func() bool { return exists(filepath.Join(dir, "asked")) }
	waitFor(t, "the first SIGTERM, or the end", func() bool { return asked() || l.ended("r") })
	kill(worker)
	l.adopt()
	waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
	if ex := l.exit("r"); ex.Reason != runs.ReasonCancelled || ex.Code != nil {
		t.Errorf("exit %s", runs.Encode(ex))
	}
	waitFor(t, "the agent's end", func() bool { return gone(t, filepath.Join(dir, "agent")) })
	if !asked() && grace > 10*time.Second {
		t.Errorf("no SIGTERM was handled in %v", grace)
	}
	return asked()
}

// shimOf returns the process ID of the shim that supervises the run
// directory.
func shimOf(t *testing.T, dir string) (pid int) {
	t.Helper()
	waitFor(t, "the shim's process", func() bool {
		for p := range processes() {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
			if err == nil && !p.dead && strings.HasSuffix(string(line), "\x00shim\x00"+dir+"\x00") {
				pid = p.pid
			}
		}
		return pid != 0
	})
	return pid
}

// The agent has ended, which is recorded. Its shim is killed while it waits
// for a child that keeps writing.
func TestCancelEndsWhatAnAgentLeftBehindWithoutItsShim(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", recordPIDs+`(trap "" TERM; echo $$ >/dev/null; `+
		`sh -c 'echo $$ > child; while :; do echo child; sleep 0.02; done') & `+
		`while ! [ -s child ]; do sleep 0.01; done; echo ready; exit 4`)
	spec.Dir, spec.Limits.Grace = dir, 200*time.Millisecond
	killAtEnd(t, filepath.Join(dir, "child"))
	r, done := l.begun(spec, "ready")
	waitFor(t, "the agent's end", func() bool { return exists(filepath.Join(l.root, "r", exitFile)) })
	killShim(t, dir)
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled || res.Code == nil || *res.Code != 4 {
		t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
	}
	waitFor(t, "the child's end", func() bool { return gone(t, filepath.Join(dir, "child")) })
}

// The recorded IDs are reused by an unrelated process, process group and
// session. None of its processes is signalled.
func TestReusedProcessIDsAreNotSignalled(t *testing.T) {
	t.Parallel()
	unrelated := exec.Command("/bin/sh", "-c", "sleep 60 & wait")
	unrelated.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := unrelated.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(-unrelated.Process.Pid, unix.SIGKILL); _ = unrelated.Wait() })
	p, ok := lookup(unrelated.Process.Pid)
	if !ok {
		t.Fatal("no such process")
	}
	for name, id := range map[string]identity{
		"started at another time": {Mark: "m", Boot: bootID(), Session: p.pid, Agent: p.pid, Start: p.start - 1},
		"before the last boot":    {Mark: "m", Boot: "another", Session: p.pid, Agent: p.pid, Start: p.start},
		"never recorded":          {Mark: "m", Boot: bootID(), Session: p.pid},
	} {
		t.Run(name, func(t *testing.T) {
			if found := (&members{id: id, dir: t.TempDir()}).find(); len(found) != 0 {
				t.Errorf("found %+v", found)
			}
			l := newFixture(t)
			d := l.create(shell("r", "echo ran"))
			write(t, filepath.Join(d.Path(), startedFile), string(runs.Encode(id))+"\n")
			r := l.w.Run(d)
			r.cancels <- "enough"
			if ex, err := r.Drive(t.Context()); err != nil || ex.Reason != runs.ReasonCancelled {
				t.Errorf("exit %s, error %v", runs.Encode(ex), err)
			}
			for _, now := range []int{p.pid, -p.pid} {
				if err := unix.Kill(now, 0); err != nil {
					t.Errorf("the unrelated process %d is gone: %v", now, err)
				}
			}
			if q, ok := lookup(p.pid); !ok || q.dead {
				t.Error("the unrelated process has ended")
			}
		})
	}
	p.start-- // as if the process ID had been reused since the search
	p.signal(unix.SIGKILL)
	if q, ok := lookup(p.pid); !ok || q.dead {
		t.Error("the unrelated process has ended")
	}
}

// A process that reads the output of a run is not a member.
func TestReaderOfTheOutputIsNoMember(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out := filepath.Join(dir, outFile)
	write(t, out, "one\n")
	for redirect, want := range map[string]int{"<": 0, ">>": 1} {
		other := exec.Command("/bin/sh", "-c", "exec sleep 60 "+redirect+`"$0"`, out)
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill(other) })
		asleep(t, other)
		found := 0
		for _, p := range (&members{dir: dir}).find() {
			if p.pid == other.Process.Pid {
				found++
			}
		}
		if found != want {
			t.Errorf("opened by %s: found %d times, want %d", redirect, found, want)
		}
	}
}

// Environments and open files can be large, and there can be many processes,
// so those of an unrelated process are read only once.
func TestUnrelatedProcessesAreReadOnce(t *testing.T) {
	t.Parallel()
	dir, mark := t.TempDir(), rand.Text()
	write(t, filepath.Join(dir, outFile), "")
	for name, script := range map[string]string{
		"environment": `exec env ` + markVariable + `="$1" sleep 60`,
		"open files":  `exec sleep 60 >>"$0"`,
	} {
		other := exec.Command("/bin/sh", "-c", "echo; read line; "+script, filepath.Join(dir, outFile), mark)
		in, err := other.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := other.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill(other) })
		if _, err := out.Read(make([]byte, 1)); err != nil { // its exec is complete
			t.Fatal(err)
		}
		finds := func(m *members) bool {
			return slices.ContainsFunc(m.find(), func(p process) bool { return p.pid == other.Process.Pid })
		}
		m := &members{id: identity{Mark: mark, Boot: bootID()}, dir: dir}
		if finds(m) {
			t.Errorf("%s: an unrelated process is a member", name)
		}
		if _, err := in.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		waitFor(t, name, func() bool { return finds(&members{id: m.id, dir: dir}) })
		if finds(m) {
			t.Errorf("%s: read twice", name)
		}
		p, _ := lookup(other.Process.Pid)
		later := &members{id: m.id, dir: dir}
		later.id.Start = p.start + 1
		if finds(later) {
			t.Errorf("%s: read of a process that is older than the agent", name)
		}
		kill(other)
		if m.find(); m.unrelated[p.pid] == p.start {
			t.Errorf("%s: kept after its end", name)
		}
	}
}

// There is always output left to send, so the worker must not wait for a pause
// before it checks the shim.
func TestTakeoverNeedsNoPauseOfTheOutput(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
		time.Sleep(200 * time.Millisecond) // a slow log
		return e
	}
	spec := shell("r", recordPIDs+"while :; do echo line; sleep 0.01; done")
	spec.Dir = t.TempDir()
	killAtEnd(t, filepath.Join(spec.Dir, "agent"))
	r, done := l.begun(spec, "line")
	killShim(t, spec.Dir)
	l.takenOver("r")
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled {
		t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
	}
}
