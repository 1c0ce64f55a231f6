package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
	testfixture "github.com/linesman/linesman/test/fixture"
)

// tail follows paths in the background and returns a function that stops it.
func (l *fixture) tail(paths ...string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.w.Tail(ctx, TailSpec{Paths: paths, Agent: "codex"}) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			l.t.Error(err)
		}
	}
	l.t.Cleanup(stop)
	return stop
}

// runIDs returns the runs with a log, in the order of their start.
func (l *fixture) runIDs() (ids []string) {
	entries, err := os.ReadDir(l.logs.dir)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		ids = append(ids, e.Name())
	}
	slices.Sort(ids)
	return ids
}

// summary returns the output and the exit of all runs.
func (l *fixture) summary() string {
	var all []string
	for _, id := range l.runIDs() {
		one := l.output(id)
		if l.ended(id) {
			one += "[" + string(l.exit(id).Reason) + "]"
		}
		all = append(all, one)
	}
	return strings.Join(all, "|")
}

func (l *fixture) awaitSummary(want string) {
	l.t.Helper()
	defer func() {
		if l.t.Failed() {
			l.t.Logf("summary %q", l.summary())
		}
	}()
	waitFor(l.t, fmt.Sprintf("summary %q", want), func() bool { return l.summary() == want })
}

func TestTailFollowsAFile(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "säge ✓ 日本.jsonl")
	write(t, path, "one\n")
	l.tail(path, path)
	l.awaitSummary("one\n")
	write(t, path, "two\nthr")
	l.awaitSummary("one\ntwo\n")
	write(t, path, "ee\n")
	l.awaitSummary("one\ntwo\nthree\n")
}

func TestTailWaitsForAFile(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := filepath.Join(t.TempDir(), "later")
	l.tail(filepath.Join(dir, "f"))
	waitFor(t, "the log message", func() bool { return l.has("wait for file") })
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "f"), "one\n")
	l.awaitSummary("one\n")
}

func TestReplacedFileIsANewRun(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		do   func(t *testing.T, path string)
		want string
	}{
		{"renamed", func(t *testing.T, path string) {
			if err := os.Rename(path, path+".1"); err != nil {
				t.Fatal(err)
			}
			write(t, path+".1", "late\n") // its writer still has it open
			write(t, path, "new\n")
		}, "one\nlate\n[eof]|new\n"},
		{"removed", func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, "new\n")
		}, "one\n[eof]|new\n"},
		{"replaced by a rename", func(t *testing.T, path string) {
			write(t, path+".new", "new\n")
			if err := os.Rename(path+".new", path); err != nil {
				t.Fatal(err)
			}
		}, "one\n[eof]|new\n"},
		{"truncated", func(t *testing.T, path string) {
			if err := os.Truncate(path, 0); err != nil {
				t.Fatal(err)
			}
			write(t, path, "new\n")
		}, "one\n[eof]|new\n"},
		{"overwritten with more", func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte("new and longer\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "one\n[eof]|new and longer\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			early := strings.Replace(test.want, "late\n", "", 1) // the run ended before that line was written
			for pause := 200 * time.Millisecond; ; pause *= 5 {
				l := newFixture(t)
				l.w.tailPause = pause
				path := filepath.Join(t.TempDir(), "f")
				write(t, path, "one\n")
				stop := l.tail(path)
				l.awaitSummary("one\n")
				test.do(t, path)
				if early == test.want || pause > 20*time.Second {
					l.awaitSummary(test.want)
					return
				}
				waitFor(t, "a summary", func() bool { s := l.summary(); return s == test.want || s == early })
				if l.summary() == test.want {
					return
				}
				stop()
			}
		})
		t.Run(test.name+" while no process tails it", func(t *testing.T) {
			l := newFixture(t)
			path := filepath.Join(t.TempDir(), "f")
			write(t, path, "one\n")
			stop := l.tail(path)
			l.awaitSummary("one\n")
			stop()
			test.do(t, path)
			l.tail(path)
			// Lines that were written to another path meanwhile cannot be found.
			l.awaitSummary(strings.Replace(test.want, "late\n", "", 1))
		})
	}
}

// A file whose content is another one is not told by its beginning and its size alone.
func TestFileThatIsRewrittenWithTheSameBeginningIsANewRun(t *testing.T) {
	t.Parallel()
	begin := strings.Repeat("head\n", maxHead/4)
	before, after := begin+"old 1\n", begin+"new 1\nnew 2\n"
	rewrite := func(t *testing.T, path string) { // at no time is it shorter
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(after)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"followed", "while no process tails it", "while an entry is stored"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			path := filepath.Join(t.TempDir(), "f")
			write(t, path, before)
			if name == "while an entry is stored" {
				once := sync.OnceFunc(func() { rewrite(t, path) })
				l.logs.hook = func(_ *fileLog, e runs.Entry) runs.Entry {
					if e.Kind == runs.Out {
						once()
					}
					return e
				}
			}
			stop := l.tail(path)
			switch name {
			case "followed":
				l.awaitSummary(before)
				rewrite(t, path)
			case "while no process tails it":
				l.awaitSummary(before)
				stop()
				rewrite(t, path)
				l.tail(path)
			}
			l.awaitSummary(before + "[eof]|" + after)
			write(t, path, "more\n")
			l.awaitSummary(before + "[eof]|" + after + "more\n")
		})
	}
}

func TestRemovedFileIsReadWhileItsWriterContinues(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	now := time.Unix(1000, 0)
	source := &tailed{out: &stream{path: path, f: f, grown: now}, pause: time.Second}
	at := func(after time.Duration, want bool) {
		t.Helper()
		if ex, err := source.ended(now.Add(after)); err != nil || (ex != nil) != want {
			t.Errorf("after %v: ended %t, error %v; want %t", after, ex != nil, err, want)
		}
	}
	at(10*time.Second, false)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	at(11*time.Second, false)
	source.out.grown = now.Add(11500 * time.Millisecond)
	at(12*time.Second, false)
	at(12500*time.Millisecond, true)
}

func TestRemovedFileEndsItsRun(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\ntw")
	l.tail(path)
	l.awaitSummary("one\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.awaitSummary("one\ntw[eof]")
	waitFor(t, "the directory", l.empty)
}

func TestTailResumesAfterARestart(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	stop := l.tail(path)
	l.awaitSummary("one\n")
	stop()
	write(t, path, "two\n")
	stop = l.tail(path)
	l.awaitSummary("one\ntwo\n")
	stop()

	killed := l.process(nil, nil, "tail", path)
	write(t, path, "three\n")
	l.awaitSummary("one\ntwo\nthree\n")
	kill(killed)
	write(t, path, "four\n")
	l.tail(path)
	l.awaitSummary("one\ntwo\nthree\nfour\n")
}

// Two processes wait for one file: it becomes one run, which the other process resumes when the first one ends.
func TestFileThatTwoProcessesWaitForIsOneRun(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	other := &fixture{t: t, root: l.root, logs: l.logs, lines: l.lines}
	var err error
	if other.w, err = New(l.w.cfg); err != nil {
		t.Fatal(err)
	}
	other.w.tailPause = l.w.tailPause
	path := filepath.Join(t.TempDir(), "f")
	stops := []func(){l.tail(path), other.tail(path)}
	waitFor(t, "both", func() bool { return l.lines.FilterMessage("wait for file").Len() == 2 })
	write(t, path+".new", "one\n")
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the other one", func() bool { return l.lines.FilterMessage("tail").Len() > 0 })
	l.awaitSummary("one\n")
	first := 0
	if _, drives := other.w.drivenRun(l.runIDs()[0]); drives {
		first = 1
	}
	stops[first]()
	write(t, path, "two\n")
	l.awaitSummary("one\ntwo\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l.awaitSummary("one\ntwo\n[eof]")
	waitFor(t, "the directory", l.empty)
}

func TestTailOnceReadsToTheEnd(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	long := strings.Repeat("x", 3*runs.MaxChunk)
	write(t, filepath.Join(dir, "a"), "one\ntwo\n"+long)
	write(t, filepath.Join(dir, "b"), "")
	err := l.w.Tail(t.Context(), TailSpec{
		Paths: []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}, Agent: "codex", Once: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	outputs := make(map[string]bool)
	for _, id := range l.runIDs() {
		outputs[l.output(id)] = l.exit(id).Torn
	}
	want := map[string]bool{"one\ntwo\n" + long: true, "": false}
	if len(outputs) != len(want) || !l.empty() {
		t.Errorf("%d runs, want %d; directories removed: %t", len(outputs), len(want), l.empty())
	}
	for out, torn := range want {
		if got, ok := outputs[out]; !ok || got != torn {
			t.Errorf("a run of %d bytes: there %t, torn %t; want torn %t", len(out), ok, got, torn)
		}
	}
}

func TestTailOnceNamesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good"), "one\n")
	if err := unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(dir, "missing"), filepath.Join(dir, "good"), filepath.Join(dir, "fifo"), dir}
	err := l.w.Tail(t.Context(), TailSpec{Paths: paths, Agent: "codex", Once: true})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("error %v", err)
	}
	for _, path := range paths {
		if strings.Contains(err.Error(), path+": ") != (filepath.Base(path) != "good") {
			t.Errorf("error about %s: %v", path, err)
		}
	}
	if l.summary() != "one\n[eof]" {
		t.Errorf("summary %q", l.summary())
	}
}

func TestCancelledFileIsIgnoredUntilItIsReplaced(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(path string) error{
		"replaced by a rename": func(path string) error { return os.Rename(path+".new", path) },
		"removed": func(path string) error { // the next file may get its inode
			return errors.Join(os.Remove(path), os.WriteFile(path, []byte("three\n"), 0o600))
		},
		"truncated":             func(path string) error { return os.WriteFile(path, []byte("three\n"), 0o600) },
		"truncated, same begin": func(path string) error { return os.WriteFile(path, []byte("one\n"), 0o600) },
		"overwritten with more": func(path string) error { return os.WriteFile(path, []byte(numbers(0, 100)), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newFixture(t)
			path := filepath.Join(t.TempDir(), "f")
			write(t, path, "one\n")
			l.tail(path)
			l.awaitSummary("one\n")
			r, ok := l.w.drivenRun(l.runIDs()[0])
			if !ok {
				t.Fatal("the run is not driven")
			}
			write(t, path, "two\n")
			l.awaitSummary("one\ntwo\n")
			if err := r.Cancel(t.Context(), "enough"); err != nil {
				t.Fatal(err)
			}
			l.awaitSummary("one\ntwo\n[cancelled]")
			waitFor(t, "the directory", l.empty)
			write(t, path, "more\n")
			write(t, path+".new", "three\n")
			if err := replace(path); err != nil {
				t.Fatal(err)
			}
			now := contents(t, path)
			l.awaitSummary("one\ntwo\n[cancelled]|" + now)
		})
	}
}

func TestTailIsCheapForManyIdleFiles(t *testing.T) {
	testfixture.Descriptors(t, 4096)
	l := newFixture(t)
	const files = 1000
	dir := t.TempDir()
	var paths []string
	for i := range files {
		path := filepath.Join(dir, fmt.Sprint(i))
		write(t, path, "one\n")
		paths = append(paths, path)
	}
	l.tail(paths...)
	waitFor(t, "all of them", func() bool {
		return len(l.runIDs()) == files && !strings.Contains("|"+l.summary()+"|", "||")
	})
	before := cpu(t)
	<-time.After(2 * time.Second) // the measured interval
	if used := cpu(t) - before; used > time.Second {
		t.Errorf("%d idle files took %v of 2 s", files, used)
	}
	write(t, paths[77], "two\n")
	waitFor(t, "the one that grows", func() bool { return strings.Contains(l.summary(), "one\ntwo\n") })
}

func cpu(t *testing.T) time.Duration {
	t.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &use); err != nil {
		t.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
