package worker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// sessionsSpec follows the files below dir whose names end in .jsonl. A line "headless ID" says
// that a session is headless, a line "shown" that it is not. The session "own" is that of a run.
func sessionsSpec(dir string) SessionsSpec {
	return SessionsSpec{
		Idle: time.Hour,
		Places: []Place{{
			Agent: "codex", Dir: dir,
			Logs: agent.Sessions{
				Files: []string{"*.jsonl", "*/*.jsonl", "*/*/*.jsonl"},
				Name:  path.Base,
				Origin: func(line []byte) (o agent.Origin, known bool) {
					text := strings.TrimSpace(string(line))
					if o.Session, o.Headless = strings.CutPrefix(text, "headless "); !o.Headless {
						o.Session, known = strings.CutPrefix(text, "shown ")
					}
					return o, known || o.Headless || text == "shown"
				},
			},
		}},
		Own: func(_ context.Context, session string) (bool, error) { return session == "own", nil },
	}
}

// sessions follows sessions in the background. It returns the runs of a path in the order
// of their starts, and a function that stops it.
func (l *fixture) sessions(spec SessionsSpec) (begun func(path string) []string, stop func()) {
	var mu sync.Mutex
	all := make(map[string][]string)
	spec.Began = func(run, path string) {
		mu.Lock()
		defer mu.Unlock()
		all[path] = append(all[path], run)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.w.Sessions(ctx, spec) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	})
	l.t.Cleanup(stop)
	return func(path string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(all[path])
	}, stop
}

// place returns a directory for sessions, without symbolic links.
func place(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// text returns the output of all runs of a session.
func (l *fixture) text(ids []string) (all string) {
	for _, id := range ids {
		all += l.output(id)
	}
	return all
}

func TestSessionsThatChangeAreFollowedFromTheirBeginning(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	file := func(name string) string { return filepath.Join(dir, "2026", name+".jsonl") }
	if err := os.Mkdir(filepath.Dir(file("x")), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old", "resumed", "unclear"} {
		write(t, file(name), "shown "+name+"\n")
		before := time.Now().Add(-2 * time.Hour)
		if err := os.Chtimes(file(name), before, before); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(place(t), "outside.jsonl")
	write(t, outside, "shown SECRET\n")
	begun, _ := l.sessions(sessionsSpec(dir))
	write(t, file("first"), "shown first\n") // perhaps before the first scan
	waitFor(t, "a scan", func() bool {
		write(t, file("first"), "more\n")
		return len(begun(file("first"))) == 1
	})
	write(t, file("resumed"), "two\n")
	write(t, file("own"), "one\nheadless own\n")
	write(t, file("headless"), "one\nheadless other\n")
	write(t, filepath.Join(dir, "2026", "no session.txt"), "shown\n")
	if err := os.Symlink(outside, file("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(dir, "linked")); err != nil {
		t.Fatal(err)
	}
	write(t, file("late"), "line\n") // does not tell yet
	waitFor(t, "the resumed session", func() bool { return l.text(begun(file("resumed"))) == "shown resumed\ntwo\n" })
	write(t, file("late"), "shown\n")
	waitFor(t, "the late session", func() bool { return l.text(begun(file("late"))) == "line\nshown\n" })
	write(t, file("last"), "shown last\n")
	waitFor(t, "the last session", func() bool { return l.text(begun(file("last"))) == "shown last\n" })
	waitFor(t, "the headless session", func() bool { return l.text(begun(file("headless"))) == "one\nheadless other\n" })
	if got := len(l.runIDs()); got != 5 {
		t.Errorf("%d runs, want those of first, resumed, headless, late and last: %q", got, l.summary())
	}
}

func TestSilentSessionEndsAndItsNextRunContinues(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	path := filepath.Join(dir, "s.jsonl")
	spec := sessionsSpec(dir)
	spec.Since, spec.Idle = time.Hour, 300*time.Millisecond
	write(t, path, "shown\none\n")
	begun, stop := l.sessions(spec)
	ended := func(n int) {
		t.Helper()
		waitFor(t, "the end of run "+strconv.Itoa(n), func() bool {
			ids := begun(path)
			return len(ids) == n && l.ended(ids[n-1]) && l.empty()
		})
	}
	ended(1)
	write(t, path, "two\n")
	ended(2)
	stop()
	write(t, path, "three\n") // while nothing follows it
	begun2, _ := l.sessions(spec)
	waitFor(t, "the third run", func() bool { return l.text(begun2(path)) == "three\n" })
	ids := append(begun(path), begun2(path)...)
	if want := []string{ids[0], ids[0] + "-2", ids[0] + "-3"}; !slices.Equal(ids, want) {
		t.Errorf("runs %q, want %q", ids, want)
	}
	if got := l.text(ids); got != "shown\none\ntwo\nthree\n" {
		t.Errorf("output %q", got)
	}
	record := runs.NewRecord(ids[2], "codex")
	record.Entry(l.entries(ids[2])[0])
	if record.Continues != ids[0] {
		t.Errorf("continues %q, want %q", record.Continues, ids[0])
	}
	if reason := l.exit(ids[0]).Reason; reason != runs.ReasonEOF {
		t.Errorf("reason %s, want eof", reason)
	}
}

// A log whose lines were removed is another run, from its beginning.
func TestSessionWithOtherContentIsAnotherRun(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	path := filepath.Join(dir, "s.jsonl")
	write(t, path, "shown\none\n")
	spec := sessionsSpec(dir)
	spec.Since = time.Hour
	begun, stop := l.sessions(spec)
	waitFor(t, "the first run", func() bool { return l.text(begun(path)) == "shown\none\n" })
	if err := os.Truncate(path, int64(len("shown\n"))); err != nil {
		t.Fatal(err)
	}
	write(t, path, "1\n")
	waitFor(t, "the second run", func() bool { return l.text(begun(path)) == "shown\none\nshown\n1\n" })
	stop()
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write(t, path, "shown\n2\n3\n") // while nothing follows it
	begun2, _ := l.sessions(spec)
	waitFor(t, "the third run", func() bool {
		ids := begun2(path)
		return len(ids) > 0 && l.output(ids[len(ids)-1]) == "shown\n2\n3\n"
	})
	write(t, path, "4\n")
	ids := l.runIDs()
	waitFor(t, "its next line", func() bool { return strings.HasSuffix(l.output(ids[len(ids)-1]), "\n4\n") })
	if want := []string{ids[0], ids[0] + "-2", ids[0] + "-3"}; !slices.Equal(ids, want) {
		t.Errorf("runs %q, want %q", ids, want)
	}
}

func TestSessionWhoseRunWasCancelledIsNotFollowed(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	path := filepath.Join(dir, "s.jsonl")
	write(t, path, "shown\n")
	spec := sessionsSpec(dir)
	spec.Since = time.Hour
	begun, _ := l.sessions(spec)
	waitFor(t, "the run", func() bool { return l.text(begun(path)) == "shown\n" })
	run := begun(path)[0]
	r, driven := l.w.drivenRun(run)
	if !driven {
		t.Fatal("the run is not driven")
	}
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "its end", func() bool { return l.ended(run) && l.empty() })
	write(t, path, "more\n")
	for _, name := range []string{"a", "b"} { // two scans later
		other := filepath.Join(dir, name+".jsonl")
		write(t, other, "shown\n")
		waitFor(t, name, func() bool { return l.text(begun(other)) == "shown\n" })
	}
	if ids := begun(path); len(ids) != 1 || l.exit(run).Reason != runs.ReasonCancelled {
		t.Errorf("runs %q, the first one ended as %s", ids, l.exit(run).Reason)
	}
}

func TestSessionsBeyondTheLimitWait(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.w.maxSessions = 1
	dir := place(t)
	spec := sessionsSpec(dir)
	spec.Since, spec.Idle = time.Hour, 300*time.Millisecond
	for _, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(dir, name+".jsonl"), "shown "+name+"\n")
	}
	l.sessions(spec)
	waitFor(t, "all of them", func() bool { return len(l.runIDs()) == 3 && l.empty() })
	if n := l.lines.FilterMessageSnippet("the others wait").Len(); n != 1 {
		t.Errorf("%d warnings, want one", n)
	}
	var last int64
	for _, id := range slices.SortedFunc(slices.Values(l.runIDs()), func(a, b string) int {
		return int(l.entries(a)[0].Time - l.entries(b)[0].Time)
	}) {
		all := l.entries(id)
		if all[0].Time < last {
			t.Errorf("run %s begins before the one before it ends", id)
		}
		last = all[len(all)-1].Time
	}
}

// A directory that cannot be read for a while changes nothing: what was cancelled in it is not followed again.
func TestUnreadableDirectoryOfSessionsIsNotForgotten(t *testing.T) {
	if !unprivileged(t) {
		return
	}
	l := newFixture(t)
	dir := place(t)
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(below, "s.jsonl")
	write(t, path, "shown\n")
	begun, _ := l.sessions(sessionsSpec(dir))
	waitFor(t, "the run", func() bool { return l.text(begun(path)) == "shown\n" })
	run := begun(path)[0]
	r, _ := l.w.drivenRun(run)
	if err := r.Cancel(t.Context(), "enough"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "its end", func() bool { return l.ended(run) && l.empty() })
	if err := os.Chmod(below, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(below, 0o700) })
	waitFor(t, "a warning", func() bool { return l.has("read the logs of sessions") })
	if err := os.Chmod(below, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, path, "more\n")
	write(t, filepath.Join(below, "last.jsonl"), "shown\n")
	waitFor(t, "another one", func() bool { return l.text(begun(filepath.Join(below, "last.jsonl"))) == "shown\n" })
	if got := l.text(begun(path)); got != "shown\n" || len(begun(path)) != 1 {
		t.Errorf("it is followed again: %q", got)
	}
}

// A process that follows sessions is killed at any append. The next one continues: without
// the ledger and without the directories, too.
func TestSessionsKilledAtAnyAppendLoseAndDuplicateNothing(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 4; n++ {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" append "+strconv.Itoa(n), func(t *testing.T) {
				l := newFixture(t)
				dir := place(t)
				path := filepath.Join(dir, "s.jsonl")
				write(t, path, "shown\n"+numbers(0, 20_000)) // more than one chunk
				killed := l.process(nil, []string{"TEST_KILL_AT=" + strconv.Itoa(n), "TEST_KILL_WHEN=" + when}, "sessions", dir)
				err := killed.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
					t.Fatalf("it was not killed: %v", err)
				}
				if n%2 == 0 {
					if err := os.RemoveAll(l.root); err != nil {
						t.Fatal(err)
					}
				}
				write(t, path, "more\n")
				spec := sessionsSpec(dir)
				spec.Since, spec.Idle = time.Hour, 300*time.Millisecond
				l.sessions(spec)
				waitFor(t, "all of it", func() bool { return strings.HasSuffix(l.text(l.runIDs()), "more\n") })
				if l.text(l.runIDs()) != "shown\n"+numbers(0, 20_000)+"more\n" {
					t.Errorf("the output of %q differs from the file", l.runIDs())
				}
			})
		}
	}
}

// Whatever happens to a log between two runs of it: each of its lines is in one run.
func TestLogThatChangesBetweenItsRunsIsPublishedOnce(t *testing.T) {
	t.Parallel()
	const old = "shown\nold 1\nold 2\nold 3\n"
	for name, change := range map[string]func(l *fixture, path string){
		"imported": func(l *fixture, path string) {
			write(l.t, path, "imported\n")
			if err := l.w.Tail(l.t.Context(), TailSpec{Paths: []string{path}, Agent: "codex", Once: true}); err != nil {
				l.t.Error(err)
			}
			write(l.t, path, "long "+strings.Repeat("x", 100)+"\n")
		},
		"replaced by another file": func(l *fixture, path string) {
			write(l.t, path+".new", "shown new\n"+numbers(0, 100))
			if err := os.Rename(path+".new", path); err != nil {
				l.t.Error(err)
			}
		},
		"emptied, and written again": func(l *fixture, path string) {
			if err := os.Truncate(path, 0); err != nil {
				l.t.Error(err)
			}
			write(l.t, path, "shown new\n"+numbers(0, 100))
		},
		"out of its directory for a moment": func(l *fixture, path string) {
			if err := errors.Join(os.Rename(filepath.Dir(path), filepath.Dir(path)+".away"),
				os.Rename(filepath.Dir(path)+".away", filepath.Dir(path))); err != nil {
				l.t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			dir := filepath.Join(place(t), "logs")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, "s.jsonl")
			write(t, path, old)
			spec := sessionsSpec(dir)
			spec.Since, spec.Idle = time.Hour, 300*time.Millisecond
			_, stop := l.sessions(spec)
			waitFor(t, "the first run", func() bool { return l.text(l.runIDs()) == old && l.empty() })
			stop()
			change(l, path)
			l.sessions(spec)
			write(t, path, "last\n")
			waitFor(t, "the last line", func() bool { return strings.Contains(l.text(l.runIDs()), "last\n") })
			times := map[string]int{}
			for line := range strings.Lines(l.text(l.runIDs())) {
				times[line]++
			}
			now, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(now) + old) {
				if times[line] != 1 {
					t.Errorf("line %q is in %d runs", line, times[line])
				}
			}
		})
	}
}

// A log whose end cannot be entered in the ledger for a moment is not published again.
func TestSessionWhoseLedgerFailsForAMomentIsPublishedOnce(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	path := filepath.Join(dir, "s.jsonl")
	write(t, path, "shown\none\n")
	if err := os.Mkdir(l.w.ledger.path, 0o700); err != nil {
		t.Fatal(err)
	}
	spec := sessionsSpec(dir)
	spec.Since, spec.Idle = time.Hour, 300*time.Millisecond
	begun, _ := l.sessions(spec)
	waitFor(t, "two attempts", func() bool { return l.lines.FilterMessage("follow the log of a session").Len() > 1 })
	if err := os.Remove(l.w.ledger.path); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the ledger", func() bool { return l.empty() })
	write(t, path, "two\n")
	waitFor(t, "the next line", func() bool { return strings.HasSuffix(l.text(begun(path)), "two\n") })
	if got := l.text(l.runIDs()); got != "shown\none\ntwo\n" {
		t.Errorf("output %q", got)
	}
}

// The log of a fork begins with the messages of the other one, and that of a sub-agent can begin
// with its parent's: they are published once.
func TestMessagesOfAnotherLogAreNotPublishedAgain(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := place(t)
	spec := sessionsSpec(dir)
	logs := &spec.Places[0].Logs
	logs.Message = func(line []byte) (id string, copied bool) {
		text := strings.TrimSpace(string(line))
		if id, is := strings.CutPrefix(text, "answer "); is {
			return id, false
		}
		if id, is := strings.CutPrefix(text, "copy "); is {
			return id, true
		}
		return "", false
	}
	logs.Parent = func(file string) string {
		if session, name := path.Split(file); session != "" && name != "" {
			return strings.TrimSuffix(session, "/") + ".jsonl"
		}
		return ""
	}
	if err := os.Mkdir(filepath.Join(dir, "parent"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name+".jsonl") }
	begun, _ := l.sessions(spec)
	write(t, file("parent"), "shown\nprompt\nanswer 1\nanswer 2\n")
	write(t, file("fork"), "shown\nprompt\ncopy 1\ncopy 2\nprompt 2\nanswer 3\ncopy 3\n")
	write(t, file("nothing new"), "shown\nprompt\ncopy 1\n")
	write(t, file("parent/sub"), "shown\nprompt\nanswer 1\ntask\nanswer 4\n")
	write(t, file("parent/own"), "shown\ntask\nanswer 5\nanswer 1\n")
	for name, want := range map[string]string{
		"parent": "shown\nprompt\nanswer 1\nanswer 2\n", "fork": "prompt 2\nanswer 3\ncopy 3\n",
		"parent/sub": "task\nanswer 4\n", "parent/own": "shown\ntask\nanswer 5\nanswer 1\n",
	} {
		waitFor(t, name, func() bool { return l.text(begun(file(name))) == want })
	}
	write(t, file("nothing new"), "copy 2\nprompt 3\n")
	waitFor(t, "the new prompt", func() bool { return l.text(begun(file("nothing new"))) == "prompt 3\n" })
	if got := len(l.runIDs()); got != 5 {
		t.Errorf("%d runs: %q", got, l.summary())
	}
}
