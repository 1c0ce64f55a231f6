package worker

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	testfixture "github.com/linesman/linesman/test/fixture"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

func TestWatchdog(t *testing.T) {
	const s = time.Second
	type look struct {
		at       time.Duration
		out, err int64
		want     runs.Reason
	}
	for _, test := range []struct {
		name   string
		limits Limits
		looks  []look
	}{
		{"no limits", Limits{}, []look{{1000 * s, 1 << 40, 0, ""}}},
		{"idle", Limits{Idle: 10 * s}, []look{{9 * s, 0, 0, ""}, {10 * s, 0, 0, runs.ReasonIdle}}},
		{"stdout is activity", Limits{Idle: 10 * s},
			[]look{{9 * s, 1, 0, ""}, {18 * s, 1, 0, ""}, {19 * s, 1, 0, runs.ReasonIdle}}},
		{"stderr is activity", Limits{Idle: 10 * s},
			[]look{{9 * s, 0, 1, ""}, {18 * s, 0, 1, ""}, {19 * s, 0, 1, runs.ReasonIdle}}},
		{"truncating is activity", Limits{Idle: 10 * s}, []look{{9 * s, 5, 0, ""}, {18 * s, 0, 0, ""}, {27 * s, 0, 0, ""}}},
		{"hard", Limits{Hard: 10 * s}, []look{{9 * s, 1, 0, ""}, {10 * s, 2, 0, runs.ReasonHard}}},
		{"hard before idle", Limits{Hard: 10 * s, Idle: 10 * s}, []look{{10 * s, 0, 0, runs.ReasonHard}}},
		{"spool", Limits{Spool: 100}, []look{{s, 100, 0, ""}, {2 * s, 101, 0, runs.ReasonSpool}}},
		{"spool counts both", Limits{Spool: 100}, []look{{s, 50, 51, runs.ReasonSpool}}},
		{"spool counts what was truncated", Limits{Spool: 100},
			[]look{{s, 60, 0, ""}, {2 * s, 40, 0, ""}, {3 * s, 41, 0, runs.ReasonSpool}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			start := time.Unix(1000, 0)
			dog := newWatchdog(test.limits, start)
			for _, l := range test.looks {
				if got := dog.check(start.Add(l.at), [2]int64{l.out, l.err}, false); got != l.want {
					t.Errorf("after %v: %q, want %q", l.at, got, l.want)
				}
				if next := dog.next(start.Add(l.at)); next <= 0 || next > s {
					t.Errorf("after %v: next check in %v", l.at, next)
				}
			}
		})
	}
}

func TestWatchdogChecksSoonerWhenTheSpoolFills(t *testing.T) {
	start := time.Unix(1000, 0)
	dog := newWatchdog(Limits{Spool: 1000}, start)
	dog.check(start.Add(time.Second), [2]int64{800, 0}, false)
	if next := dog.next(start.Add(time.Second)); next != 125*time.Millisecond {
		t.Errorf("next check in %v with 200 bytes left at 800 a second; want 125ms", next)
	}
}

func TestLimitsEndTheAgent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		script string
		limits Limits
		want   runs.Exit
	}{
		{"idle", "echo one; sleep 60", Limits{Idle: 300 * time.Millisecond}, runs.Exit{Reason: runs.ReasonIdle, Signal: 15}},
		{"hard", "while :; do echo one; sleep 0.05; done", Limits{Hard: 300 * time.Millisecond, Idle: time.Minute},
			runs.Exit{Reason: runs.ReasonHard, Signal: 15}},
		{"spool", "while :; do echo one two three; sleep 0.001; done", Limits{Spool: 1000},
			runs.Exit{Reason: runs.ReasonSpool, Signal: 15}},
		{"spool of stderr", "while :; do echo one two three >&2; sleep 0.001; done", Limits{Spool: 1000},
			runs.Exit{Reason: runs.ReasonSpool, Signal: 15}},
		{"TERM is handled", "trap 'echo bye; exit 7' TERM; echo one; while :; do sleep 0.01; done",
			Limits{Hard: time.Second, Grace: testfixture.Patience}, runs.Exit{Reason: runs.ReasonHard, Code: code(7)}},
		{"TERM is ignored", "trap '' TERM; echo one; while :; do sleep 0.01; done",
			Limits{Hard: time.Second, Grace: 300 * time.Millisecond}, runs.Exit{Reason: runs.ReasonHard, Signal: 9}},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			spec := shell("r", test.script)
			spec.Limits = test.limits
			ex := l.drive(spec)
			// The traps are set before the first line.
			for strings.HasPrefix(test.name, "TERM") && l.output("r") == "" && longer(&spec.Limits.Hard) {
				l = newFixture(t)
				ex = l.drive(spec)
			}
			if !sameExit(ex, test.want) {
				t.Errorf("exit %s, want %s", runs.Encode(ex), runs.Encode(test.want))
			}
			if test.name == "TERM is handled" && l.output("r") != "one\nbye\n" {
				t.Errorf("output %q", l.output("r"))
			}
		})
	}
}

// An agent adds terabytes to its output without writing them. It is ended, and what it wrote is published,
// also behind a hole, but no hole and not much more than the limit allows.
func TestHolesInTheOutputAreNotPublished(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script string
		limits       Limits
		want         string // the output, without the zeros to the end of a block
		reason       runs.Reason
	}{
		{"beyond the limit", "echo one; truncate -s 4T out; echo two; sleep 60", Limits{}, "one\n", runs.ReasonSpool},
		{"below the limit", "echo one; truncate -s 900M out; echo two", Limits{}, "one\ntwo\n", runs.ReasonExited},
		{"at the end", "echo one; truncate -s 900M out", Limits{}, "one\n", runs.ReasonExited},
		{"too much at once", "trap 'asked=1' TERM; (trap '' TERM; head -c 64M /dev/zero | tr '\\0' x; echo); " +
			"while [ -z \"$asked\" ]; do sleep 0.01; done", Limits{Spool: 1 << 20, Grace: testfixture.Patience},
			strings.Repeat("x", 1<<20+overshoot), runs.ReasonSpool},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			spec := shell("r", "cd "+filepath.Join(l.root, "r")+"; "+test.script)
			spec.Limits.Spool = test.limits.Spool
			spec.Limits.Grace = max(spec.Limits.Grace, test.limits.Grace)
			if ex := l.drive(spec); ex.Reason != test.reason {
				t.Errorf("exit %s, want the reason %s", runs.Encode(ex), test.reason)
			}
			var all strings.Builder
			for _, e := range l.entries("r") {
				if e.Kind == runs.Out {
					all.Write(e.Body)
				}
			}
			got := strings.ReplaceAll(all.String(), "\x00", "")
			if zeros := all.Len() - len(got); got != test.want || zeros > 2*64<<10 {
				t.Errorf("output of %d bytes %.20q, and %d zeros; want %d bytes %.20q", len(got), got, zeros, len(test.want),
					test.want)
			}
		})
	}
}

// A line that ends at a hole gets no end any more: the lines behind it are published while the agent runs.
func TestLineBeforeAHoleHoldsUpNoOutput(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", "cd "+filepath.Join(l.root, "r")+"; echo one; printf torn; truncate -s +1M out; echo two; "+
		"while ! [ -e go ]; do sleep 0.01; done; echo three")
	_, done := l.driven(t.Context(), l.create(spec))
	published := func() string {
		var all strings.Builder
		for _, e := range l.entries("r") {
			if e.Kind == runs.Out {
				all.Write(e.Body)
			}
		}
		return strings.ReplaceAll(all.String(), "\x00", "")
	}
	waitFor(t, "the line behind the hole", func() bool { return published() == "one\ntorntwo\n" })
	write(t, filepath.Join(l.root, "r", "go"), "")
	if res := <-done; res.err != nil || published() != "one\ntorntwo\nthree\n" {
		t.Errorf("output %.60q, error %v", published(), res.err)
	}
}

// gone reports whether the process whose ID is in the file has ended.
func gone(t *testing.T, path string) bool {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(contents(t, path)))
	if err != nil {
		t.Fatalf("no process id in %s", filepath.Base(path))
	}
	return errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}

func TestCancelSweepsDescendantsThatLeftTheGroup(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", `setsid sh -c 'trap "" TERM; echo $$ > first; `+
		`setsid sh -c "trap \"\" TERM; echo \$\$ > second; exec sleep 60" & exec sleep 60' >/dev/null &
(trap "" TERM; setsid sh -c 'echo $$ > third; exec sleep 60' & )
while ! [ -s first -a -s second -a -s third ]; do sleep 0.01; done
echo ready; sleep 60`)
	spec.Dir, spec.Limits.Grace = dir, 200*time.Millisecond
	r, done := l.begun(spec, "ready")
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled {
		t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
	}
	for _, name := range []string{"first", "second", "third"} {
		waitFor(t, name, func() bool { return gone(t, filepath.Join(dir, name)) })
	}
	if want := "start out cancel exit"; l.kinds("r") != want {
		t.Errorf("log %q, want %q", l.kinds("r"), want)
	}
	for _, e := range l.entries("r") {
		if e.Kind == runs.Cancelled && string(e.Body) != `{"reason":"enough"}` {
			t.Errorf("cancel entry %s", e.Body)
		}
	}
}

// A server that an agent has left is ended with it, also one in a session of its own, or kept if
// the setting says so.
func TestServerWithoutStdoutIsEndedWithItsAgentUnlessItIsKept(t *testing.T) {
	t.Parallel()
	for _, session := range []string{"", "setsid "} {
		l, dir := newFixture(t), t.TempDir()
		spec := shell("r", session+"sh -c 'echo $$ > server; exec sleep 60' >/dev/null 2>&1 & "+
			"while ! [ -s server ]; do sleep 0.01; done; echo up")
		spec.Dir = dir
		if ex := l.drive(spec); !sameExit(ex, runs.Exit{Reason: runs.ReasonExited, Code: code(0)}) {
			t.Errorf("exit %s", runs.Encode(ex))
		}
		waitFor(t, "the end of the server", func() bool { return gone(t, filepath.Join(dir, "server")) })
	}
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "sh -c 'echo $$ > server; exec sleep 60' >/dev/null 2>&1 & "+
		"while ! [ -s server ]; do sleep 0.01; done; echo up")
	spec.Dir, spec.Limits.Keep = dir, true
	l.drive(spec)
	waitFor(t, "the shim", func() bool { l.w.reap(); return len(l.w.exitingShims) == 0 })
	if gone(t, filepath.Join(dir, "server")) {
		t.Error("the server was ended with its agent")
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(contents(t, filepath.Join(dir, "server"))))
	killAgent(pid)
}

func TestSilentHoldersOfStdoutAreEnded(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "setsid sh -c 'echo $$ > holder; exec sleep 60' & "+
		"while ! [ -s holder ]; do sleep 0.01; done; echo up; exit 4")
	spec.Dir, spec.Limits.Linger, spec.Limits.Grace = dir, 300*time.Millisecond, 100*time.Millisecond
	ex := l.drive(spec)
	if want := (runs.Exit{Reason: runs.ReasonExited, Code: code(4)}); !sameExit(ex, want) {
		t.Errorf("exit %s, want %s", runs.Encode(ex), runs.Encode(want))
	}
	waitFor(t, "the holder's end", func() bool { return gone(t, filepath.Join(dir, "holder")) })
}

func TestInterruptReachesTheAgent(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	r, done := l.begun(shell("r", "trap 'echo int; exit 1' INT; echo ready; while :; do sleep 0.01; done"), "ready")
	if err := r.Interrupt(); err != nil {
		t.Fatal(err)
	}
	if res := <-done; !sameExit(res.Exit, runs.Exit{Reason: runs.ReasonExited, Code: code(1)}) ||
		l.output("r") != "ready\nint\n" {
		t.Errorf("exit %s, output %q", runs.Encode(res.Exit), l.output("r"))
	}
	if err := r.Interrupt(); !errors.Is(err, errNoAgent) {
		t.Errorf("after the end: %v, want ErrNoAgent", err)
	}
	if err := r.Cancel(t.Context(), "late"); err != nil || l.kinds("r") != "start out exit" {
		t.Errorf("cancel after the end: %v, log %q", err, l.kinds("r"))
	}
}

func TestCancelBeforeTheStartStartsNothing(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "touch ran")
	spec.Dir = dir
	r := l.w.Run(l.create(spec))
	r.cancels <- "no"
	ex, err := r.Drive(t.Context())
	if err != nil || ex.Reason != runs.ReasonCancelled || l.kinds("r") != "start cancel exit" {
		t.Errorf("exit %s, error %v, log %q", runs.Encode(ex), err, l.kinds("r"))
	}
	if exists(filepath.Join(dir, "ran")) {
		t.Error("the agent ran")
	}
}

func TestCancelEndsTheAgentWhileTheLogIsUnreachable(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "trap 'touch ended; exit 0' TERM; while :; do echo line; sleep 0.01; done")
	spec.Dir, spec.Limits.Grace = dir, testfixture.Patience
	r, done := l.begun(spec, "line")
	back := make(chan struct{})
	l.logs.setBlocked(back)
	if err := r.Cancel(t.Context(), "stop"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the agent's end", func() bool { return exists(filepath.Join(dir, "ended")) })
	close(back)
	if res := <-done; res.Reason != runs.ReasonCancelled {
		t.Errorf("reason %s, want cancelled", res.Reason)
	}
	if k := l.kinds("r"); !strings.HasSuffix(k, "exit") || strings.Count(k, "cancel") != 1 {
		t.Errorf("log %q", k)
	}
}

func TestCancelEntryWinsOverAnExit(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.logs.hook = func(log *fileLog, e runs.Entry) runs.Entry {
		if e.Kind == runs.Exited && !log.mark.Cancelled { // another writer is a moment faster
			l.foreign("r", runs.Cancelled, runs.Remark{Reason: "elsewhere"})
		}
		return e
	}
	ex := l.drive(shell("r", "echo one; exit 3"))
	want := runs.Exit{Reason: runs.ReasonCancelled, Code: code(3)}
	if !sameExit(ex, want) || !sameExit(l.exit("r"), want) || l.kinds("r") != "start out cancel exit" {
		t.Errorf("exit %s, log %q", runs.Encode(ex), l.kinds("r"))
	}
}

func TestForeignCancelStopsTheAgent(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", "while :; do echo line; sleep 0.01; done")
	spec.Limits.Grace = testfixture.Patience
	_, done := l.begun(spec, "line")
	l.foreign("r", runs.Cancelled, runs.Remark{})
	if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled || res.Signal != 15 {
		t.Errorf("exit %s, error %v", runs.Encode(res.Exit), res.err)
	}
}

// While the worker was away a responder has stored a cancel in its place.
func TestSilentAgentIsStoppedByACancelThatWasStoredDuringAnOutage(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	_, done := l.begun(shell("r", "echo one; exec sleep 600"), "one")
	l.foreign("r", runs.Cancelled, runs.Remark{})
	l.logs.away.Add(1)
	if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled || l.kinds("r") != "start out cancel exit" {
		t.Errorf("exit %s, error %v, log %q", runs.Encode(res.Exit), res.err, l.kinds("r"))
	}
}

func TestForeignExitFencesOff(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "echo $$ > agent; while :; do echo line; sleep 0.01; done")
	spec.Dir = dir
	_, done := l.begun(spec, "line")
	l.foreign("r", runs.Exited, runs.Exit{Reason: runs.ReasonLost})
	if res := <-done; !errors.Is(res.err, ErrEnded) {
		t.Errorf("error %v, want ErrEnded", res.err)
	}
	if ex := l.exit("r"); ex.Reason != runs.ReasonLost {
		t.Errorf("reason %s in the log", ex.Reason)
	}
	if !l.empty() || !l.has("fenced off") {
		t.Errorf("directory gone %t, logged %t", l.empty(), l.has("fenced off"))
	}
	waitFor(t, "the agent's end", func() bool { return gone(t, filepath.Join(dir, "agent")) })
}

// short is a source that cannot look at its files at first.
type short struct {
	source
	fails int
}

func (s *short) ended(now time.Time) (*runs.Exit, error) {
	if s.fails--; s.fails >= 0 {
		return nil, unix.EMFILE
	}
	return s.source.ended(now)
}

// The files by which the shim of a run that is fenced off is reached stay until its agent has ended, also while
// descriptors are short.
func TestFencedRunIsStoppedAlthoughDescriptorsAreShort(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	spec := shell("r", "exec sleep 600")
	d := l.create(spec)
	l.foreign("r", runs.Started, runs.Start{})
	l.foreign("r", runs.Exited, runs.Exit{Reason: runs.ReasonLost})
	d.mark.Begun = true
	r := l.w.Run(d)
	source := &short{source: r.source, fails: 3}
	r.source = source
	if _, err := r.Drive(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("error %v, want ErrEnded", err)
	}
	if agent := source.source.(*spawned); source.fails >= 0 || agent.exit == nil {
		t.Errorf("the directory was removed before the end of the agent")
	}
	if !l.empty() {
		t.Error("the directory is still there")
	}
}

func TestKnownRunIsNotStarted(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		source string
		before []runs.Kind
		known  bool
	}{
		{"new", runs.SourceRun, nil, false},
		{"run", runs.SourceRun, []runs.Kind{runs.Started}, true},
		{"run queued", runs.SourceRun, []runs.Kind{runs.Queued}, true},
		{"queue", runs.SourceQueue, []runs.Kind{runs.Queued}, false},
		{"queue not yet queued", runs.SourceQueue, nil, false},
		{"queue started", runs.SourceQueue, []runs.Kind{runs.Queued, runs.Started}, true},
		{"queue cancelled", runs.SourceQueue, []runs.Kind{runs.Queued, runs.Cancelled}, true},
		{"queue ended", runs.SourceQueue, []runs.Kind{runs.Queued, runs.Started, runs.Exited}, true},
	} {
		for _, when := range []string{"before", "between", "adopted"} {
			t.Run(test.name+" "+when, func(t *testing.T) {
				l := newFixture(t)
				dir := t.TempDir()
				spec := shell("r", "touch ran")
				spec.Source, spec.Dir = test.source, dir
				d := l.create(spec)
				if when == "between" { // after the worker has read the log
					once := false
					l.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
						if !once {
							once = true
							for _, k := range test.before {
								l.foreign("r", k, struct{}{})
							}
						}
						return e
					}
				} else {
					for _, k := range test.before {
						l.foreign("r", k, struct{}{})
					}
				}
				if when == "adopted" {
					d.Close()
					var err error
					if d, err = open(d.Path()); err != nil {
						t.Fatal(err)
					}
				}
				_, err := l.w.Run(d).Drive(t.Context())
				if errors.Is(err, ErrKnown) != test.known || (err != nil) != test.known {
					t.Errorf("error %v, want known: %t", err, test.known)
				}
				if exists(filepath.Join(dir, "ran")) == test.known || !l.empty() {
					t.Errorf("ran: %t, directory removed: %t", exists(filepath.Join(dir, "ran")), l.empty())
				}
			})
		}
	}
}

func TestDriveReturnsWhenItsContextEnds(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	spec := shell("r", "echo one; while ! [ -e go ]; do sleep 0.01; done; echo two")
	spec.Dir = dir
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	d := l.create(spec)
	go func() { _, err := l.w.Run(d).Drive(ctx); done <- err }()
	l.await("r", "one")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	write(t, filepath.Join(dir, "go"), "")
	d, err := open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	ex, err := l.w.Run(d).Drive(t.Context())
	if err != nil || *ex.Code != 0 || l.output("r") != "one\ntwo\n" || l.kinds("r") != "start out exit" {
		t.Errorf("exit %s, error %v, output %q, log %q", runs.Encode(ex), err, l.output("r"), l.kinds("r"))
	}
}

// foreign stores an entry as another writer.
func (l *fixture) foreign(run string, kind runs.Kind, body any) {
	l.t.Helper()
	logs := &fileLogs{dir: l.logs.dir}
	log, err := logs.Open(context.Background(), "", run, runs.Mark{})
	if err != nil {
		l.t.Error(err)
		return
	}
	for {
		err := log.Append(context.Background(), runs.Entry{Kind: kind, Body: runs.Encode(body)})
		if err == nil || !errors.Is(err, runs.ErrMoved) {
			if err != nil {
				l.t.Error(err)
			}
			return
		}
	}
}

// The shim that started the agent is gone: its successor knows what the agent leaves by its mark.
func TestServerIsEndedWithAnAgentWhoseShimDied(t *testing.T) {
	t.Parallel()
	l, dir := newFixture(t), t.TempDir()
	spec := shell("r", recordPIDs+"setsid sh -c 'echo $$ > server; exec sleep 60' >/dev/null 2>&1 & "+
		"while ! [ -s server ]; do sleep 0.01; done; echo up; while ! [ -e go ]; do sleep 0.01; done")
	spec.Dir, spec.Limits.Grace = dir, 100*time.Millisecond
	_, done := l.begun(spec, "up\n")
	killAtEnd(t, filepath.Join(dir, "server"))
	killShim(t, dir)
	l.takenOver("r")
	write(t, filepath.Join(dir, "go"), "")
	<-done
	waitFor(t, "the end of the server", func() bool { return gone(t, filepath.Join(dir, "server")) })
}
