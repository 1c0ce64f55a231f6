package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

func TestRunReachesItsEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		out          string
		want         runs.Exit
	}{
		{"silent", "exit 0", "", runs.Exit{Reason: runs.ReasonExited, Code: code(0)}},
		{"lines", "echo one; echo two", "one\ntwo\n", runs.Exit{Reason: runs.ReasonExited, Code: code(0)}},
		{"code", "echo one; exit 3", "one\n", runs.Exit{Reason: runs.ReasonExited, Code: code(3)}},
		{"torn", "printf 'one\ntw'", "one\ntw", runs.Exit{Reason: runs.ReasonExited, Code: code(0), Torn: true}},
		{"signal", "echo one; kill -9 $$", "one\n", runs.Exit{Reason: runs.ReasonExited, Signal: 9}},
		{"stdin is empty", "cat; echo end", "end\n", runs.Exit{Reason: runs.ReasonExited, Code: code(0)}},
		{"child writes on", "(sleep 0.3; echo late) & exit 0", "late\n", runs.Exit{Reason: runs.ReasonExited, Code: code(0)}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			ex := l.drive(shell("r", test.script))
			if got := l.output("r"); got != test.out {
				t.Errorf("output %q, want %q", got, test.out)
			}
			if !sameExit(ex, test.want) || !sameExit(l.exit("r"), test.want) {
				t.Errorf("exit %s, in the log %s, want %s", runs.Encode(ex), runs.Encode(l.exit("r")), runs.Encode(test.want))
			}
			if !l.empty() {
				t.Error("the directory is still there")
			}
		})
	}
}

func TestStartEntrySaysWhatRuns(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", "true")
	spec.Labels = runs.LabelsOf(map[string]string{"k": "v"})
	l.drive(spec)
	want := `{"source":"run","agent":"codex","workingDir":"/","labels":{"k":"v"},"argv":["/bin/sh","-c","true"],"worker":"here"}`
	if first := l.entries("r")[0]; first.Kind != runs.Started || string(first.Body) != want {
		t.Errorf("first entry %s %s, want start %s", first.Kind, first.Body, want)
	}
}

func TestAgentGetsItsEnvironmentAndDirectoryAndNoOtherFiles(t *testing.T) {
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", `pwd; echo "$WORD"; env | grep -c "TEST_SECRET\|`+shimVariable+`"; ls /proc/self/fd | tr '\n' ' '`)
	t.Setenv("TEST_SECRET", "1")
	spec.Dir, spec.Env = dir, append(spec.Env, "WORD=given")
	l.drive(spec)
	// ls itself opens the directory as descriptor 3.
	if want := dir + "\ngiven\n0\n0 1 2 3 "; l.output("r") != want {
		t.Errorf("output %q, want %q", l.output("r"), want)
	}
}

func TestLongLineComesInPieces(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	const size = 5*runs.MaxChunk/2 + 1
	ex := l.drive(shell("r", fmt.Sprintf("echo short; head -c %d /dev/zero | tr '\\0' x; echo; printf end", size)))
	if want := "short\n" + strings.Repeat("x", size) + "\nend"; l.output("r") != want || !ex.Torn {
		t.Errorf("output has %d bytes, want %d; torn %t, want true", len(l.output("r")), len(want), ex.Torn)
	}
}

func TestChunksAreWholeLines(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.drive(shell("r", "seq 1 100000"))
	var n int
	for _, e := range l.entries("r") {
		if e.Kind != runs.Out {
			continue
		}
		n++
		if e.Body[len(e.Body)-1] != '\n' {
			t.Fatalf("the chunk at %d does not end with a line", e.Offset)
		}
	}
	if n < 9 || strings.Count(l.output("r"), "\n") != 100000 {
		t.Errorf("%d chunks with %d lines", n, strings.Count(l.output("r"), "\n"))
	}
}

func TestUnfinishedLineWaitsForItsEnd(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "echo one; printf tw; while ! [ -e go ]; do sleep 0.01; done; echo o")
	spec.Dir = dir
	_, done := l.begun(spec, "one\n")
	d := filepath.Join(l.root, "r", outFile)
	waitFor(t, "the piece", func() bool { return contents(t, d) == "one\ntw" })
	if got := l.output("r"); got != "one\n" {
		t.Errorf("sent %q before the line was complete", got)
	}
	write(t, filepath.Join(dir, "go"), "")
	<-done
	if got := l.output("r"); got != "one\ntwo\n" {
		t.Errorf("output %q", got)
	}
}

func TestStderrKeepsBeginningAndEnd(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		script string
		head   int // bytes kept of the beginning
		tail   int
	}{
		{"short", "head -c 1000 /dev/zero >&2", 1000, 0},
		{"long", "head -c 3000000 /dev/zero >&2; echo end >&2", errHead, errTail},
		{"just both", "head -c 1114112 /dev/zero >&2", errHead, errTail},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			l.drive(shell("r", test.script))
			var head, tail int
			var last runs.Entry
			for _, e := range l.entries("r") {
				if e.Kind != runs.ErrOut {
					continue
				}
				last = e
				if e.Offset < errHead {
					head += len(e.Body)
				} else {
					tail += len(e.Body)
				}
			}
			if head != test.head || tail != test.tail {
				t.Errorf("kept %d and %d bytes, want %d and %d", head, tail, test.head, test.tail)
			}
			if test.name == "long" &&
				(!strings.HasSuffix(string(last.Body), "end\n") || last.Offset+int64(len(last.Body)) != 3000004) {
				t.Errorf("the last piece is at %d, %d bytes", last.Offset, len(last.Body))
			}
		})
	}
}

func TestAgentMayTruncateItsOwnOutput(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", `echo '{"n":1}'; echo '{"n":2}'
while ! [ -e go ]; do sleep 0.01; done
: > /proc/self/fd/1
echo '{"n":1}'; echo '{"n":3}'`)
	spec.Dir = dir
	_, done := l.begun(spec, "2")
	write(t, filepath.Join(dir, "go"), "")
	<-done
	if want := "{\"n\":1}\n{\"n\":2}\n{\"n\":1}\n{\"n\":3}\n"; l.output("r") != want {
		t.Errorf("output %q, want %q", l.output("r"), want)
	}
}

func TestTruncatedOutputResumesAtItsEnd(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	long := strings.Repeat("x", 199) + "\n"
	spec := shell("r", `printf 'head '; head -c 194 /dev/zero | tr '\0' x; echo; echo two; `+
		`while ! [ -e go ]; do sleep 0.01; done; echo three; while :; do sleep 1; done`)
	spec.Dir = dir
	r, done := l.begun(spec, "two\n")
	if err := os.Truncate(r.dir.file(outFile), int64(len(long))); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the cut to be noticed", func() bool { return l.has("output was truncated") })
	write(t, filepath.Join(dir, "go"), "")
	l.await("r", "three\n")
	if err := r.Cancel(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	<-done
	if want := "head " + strings.Repeat("x", 194) + "\ntwo\nthree\n"; l.output("r") != want {
		t.Errorf("output %q", l.output("r"))
	}
}

func TestSpawnFailures(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "plain"), "no program")
	write(t, filepath.Join(dir, "lost"), "#!/not/there\n")
	write(t, filepath.Join(dir, "noise"), "\x00\x01\x02")
	for _, name := range []string{"lost", "noise"} {
		if err := os.Chmod(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ name, argv, dir, path, want string }{
		{"not on the path", "no-such-agent", dir, "/usr/bin:/bin", runs.SpawnNotFound},
		{"no path", "sh", dir, "", runs.SpawnNotFound},
		{"no file", "/no/such/agent", dir, "/bin", runs.SpawnNotFound},
		{"not executable", "./plain", dir, "/bin", runs.SpawnNotExecutable},
		{"not executable on the path", "plain", dir, dir, runs.SpawnNotExecutable},
		{"a directory", dir, dir, "/bin", runs.SpawnNotExecutable},
		{"no interpreter", "./lost", dir, "/bin", runs.SpawnNotFound},
		{"not a program", "./noise", dir, "/bin", runs.SpawnNotExecutable},
		{"no working directory", "sh", dir + "/none", "/bin", runs.SpawnOther},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			spec := shell("r", "")
			spec.Argv, spec.Dir, spec.Env = []string{test.argv}, test.dir, []string{"PATH=" + test.path}
			want := runs.Exit{Reason: runs.ReasonSpawn, Spawn: test.want}
			if ex := l.drive(spec); !sameExit(ex, want) {
				t.Errorf("exit %s, want %s", runs.Encode(ex), runs.Encode(want))
			}
		})
	}
}

func TestAgentIsFoundOnThePathOfItsEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agent-of-test"), "#!/bin/sh\necho \"$0\"\n")
	if err := os.Chmod(filepath.Join(dir, "agent-of-test"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := newFixture(t)
	spec := shell("r", "")
	spec.Argv, spec.Env = []string{"agent-of-test"}, []string{"PATH=relative:/bin:" + dir}
	l.drive(spec)
	if want := filepath.Join(dir, "agent-of-test") + "\n"; l.output("r") != want {
		t.Errorf("output %q, want %q", l.output("r"), want)
	}
}

func TestShimThatDoesNotStartEndsTheRun(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.w.cfg.Shim = []string{"/bin/false"}
	want := runs.Exit{Reason: runs.ReasonSpawn, Spawn: runs.SpawnOther}
	if ex := l.drive(shell("r", "true")); !sameExit(ex, want) {
		t.Errorf("exit %s, want %s", runs.Encode(ex), runs.Encode(want))
	}
	if l.has("processes of the run may be left") {
		t.Error("the log says that processes may be left, but the run had none")
	}
}

func TestOutputWaitsWhileTheLogIsUnreachable(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two; touch done")
	spec.Dir = dir
	_, done := l.begun(spec, "one")
	back := make(chan struct{})
	l.logs.setBlocked(back)
	write(t, filepath.Join(dir, "go"), "")
	waitFor(t, "the agent", func() bool { return exists(filepath.Join(dir, "done")) })
	if got := l.output("r"); got != "one\n" {
		t.Errorf("output %q while the log is unreachable", got)
	}
	close(back)
	<-done
	if got := l.output("r"); got != "one\ntwo\n" {
		t.Errorf("output %q", got)
	}
}

func TestNoteOncePerSilence(t *testing.T) {
	t.Parallel()
	// After the note, the agent has a tenth of it to write again.
	for idle := 6 * time.Second; !notedOncePerSilence(t, idle); idle *= 2 {
		t.Logf("the agent did not write again in %v", idle/10) // the machine is busy
	}
}

// notedOncePerSilence reports false if the agent was ended before it wrote again, or before that silence
// was noted.
func notedOncePerSilence(t *testing.T, idle time.Duration) bool {
	t.Helper()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two; touch wrote; sleep 600")
	spec.Dir, spec.Limits.Idle = dir, idle
	l.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
		if e.Kind == runs.Note {
			write(t, filepath.Join(dir, "go"), "")
		}
		return e
	}
	ex := l.drive(spec)
	late := !exists(filepath.Join(dir, "wrote")) || l.kinds("r") == "start out note out exit"
	if late && idle < 40*time.Second {
		return false
	}
	if want := "start out note out note exit"; l.kinds("r") != want {
		t.Errorf("log %q, want %q", l.kinds("r"), want)
	}
	if ex.Reason != runs.ReasonIdle {
		t.Errorf("reason %s, want idle", ex.Reason)
	}
	return true
}

// A request that the worker did not store before it stopped, or that nobody could act on, is not confirmed: the next
// worker does not know it.
func TestRequestThatOnlyTheWorkerKnowsIsNotConfirmed(t *testing.T) {
	t.Parallel()
	t.Run("cancel of a worker that stops", func(t *testing.T) {
		t.Parallel()
		l := newFixture(t)
		ctx, stop := context.WithCancel(t.Context())
		d := l.create(shell("r", "echo one; exec sleep 600"))
		r, done := l.driven(ctx, d)
		l.await("r", "one")
		stop()
		<-done
		if err := r.Cancel(t.Context(), "enough"); !errors.Is(err, errGoesOn) || l.kinds("r") != "start out" {
			t.Errorf("error %v, log %q", err, l.kinds("r"))
		}
		l.foreign("r", runs.Cancelled, runs.Remark{}) // as the responder does then
		l.adopt()
		waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
		if ex := l.exit("r"); ex.Reason != runs.ReasonCancelled {
			t.Errorf("exit %s", runs.Encode(ex))
		}
	})
	for name, keep := range map[string]bool{"before the agent starts": false, "of a run that can go on": true} {
		t.Run("cancel "+name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "asks=1")
			s.spec.Keep = keep
			away := make(chan struct{})
			kind := runs.Started
			if keep {
				kind = runs.Ordered
			}
			asks := make(chan struct{})
			s.once(isKind(kind), false, func() { close(asks); <-away })
			r, done := s.driven(t.Context(), s.create(s.spec))
			<-asks
			if err := r.Cancel(t.Context(), "enough"); !errors.Is(err, errGoesOn) {
				t.Errorf("error %v", err)
			}
			close(away)
			if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled {
				t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
			}
		})
	}
}

// An agent that is never ready, but prints to stderr, is not silent: the start of a kept run has a limit. One that has
// had a turn is started again, as one that has died.
func TestAgentThatIsNeverReadyEndsItsRun(t *testing.T) {
	t.Parallel()
	for does, processes := range map[string]int{"mutters": 1, "later-mutters": 4} {
		t.Run(does, func(t *testing.T) {
			t.Parallel()
			for limit := time.Second; !neverReady(t, does, processes, limit); limit *= 4 {
				t.Logf("no first turn within %v", limit) // the machine is busy
			}
		})
	}
}

// neverReady reports false if the first process was too late, too.
func neverReady(t *testing.T, does string, processes int, limit time.Duration) bool {
	t.Helper()
	s := sleeping(t, "resumes", does)
	s.w.startTime = limit
	r, done := s.driven(t.Context(), s.create(s.spec))
	if processes > 1 {
		waitFor(t, "the first turn", func() bool { return len(done) > 0 || s.transcript() == firstTurn+wentToSleep })
		if len(done) > 0 && limit < time.Minute {
			return false
		}
		s.say(r, "m1")
	}
	res := <-done
	if res.err != nil || res.Exit.Reason != runs.ReasonSession {
		t.Errorf("%+v\n%s", res, s.transcript())
	}
	if got := strings.Count(s.did("started"), "x"); got != processes {
		t.Errorf("%d processes, want %d", got, processes)
	}
	if want := "the agent was not ready in time"; processes == 1 && s.exit("r").Why != want {
		t.Errorf("it ended because %q, want %q", s.exit("r").Why, want)
	}
	return true
}
