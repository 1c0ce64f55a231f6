package worker

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
)

// A followed file has no end. Its import fails with its name, and the other
// files are imported.
func TestImportOfAFileThatIsFollowedFails(t *testing.T) {
	l := newFixture(t)
	dir := t.TempDir()
	followed, file := filepath.Join(dir, "followed"), filepath.Join(dir, "file")
	write(t, followed, "one\n")
	stop := l.tail(followed)
	l.awaitSummary("one\n")
	write(t, file, "two\n")
	for range 2 {
		_, _, err := l.once(false, followed, file)
		if !errors.Is(err, errFollowed) || !strings.Contains(err.Error(), followed) ||
			strings.Contains(err.Error(), file+":") {
			t.Errorf("error %v", err)
		}
		if summary := l.summary(); summary != "one\n|two\n[eof]" && summary != "two\n[eof]|one\n" {
			t.Errorf("summary %q", summary)
		}
	}
	write(t, followed, "more\n") // the followed run continues
	waitFor(t, "the line", func() bool { return strings.Contains(l.summary(), "one\nmore\n") })
	stop()
	if outputs, _ := l.imports(false, followed); len(outputs) != 1 || outputs[0] != "one\nmore\n" {
		t.Errorf("imported %q", outputs)
	}
}

// A call that waits for another import reports it once, for any number of
// files.
func TestImportSaysOnceThatItWaitsForAnother(t *testing.T) {
	for _, followed := range []bool{false, true} { // a followed file was imported first
		t.Run(fmt.Sprintf("followed before %t", followed), func(t *testing.T) {
			l := newFixture(t)
			dir := t.TempDir()
			var paths []string
			for i := range 3 {
				paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
				write(t, paths[i], fmt.Sprintln(i))
			}
			if followed {
				stop := l.tail(paths...)
				waitFor(t, "all runs", func() bool { return len(l.summary()) == len("0\n|1\n|2\n") })
				stop()
			}
			stuck := make(chan struct{})
			logs := &fileLogs{dir: l.logs.dir, blocked: stuck}
			other, err := New(Config{Root: l.root, Logs: logs, Name: "here"})
			if err != nil {
				t.Fatal(err)
			}
			var begun, waits atomic.Int32
			done := make(chan error, 2)
			go func() {
				done <- other.Tail(t.Context(), TailSpec{
					Paths: paths, Agent: "codex", Once: true, Began: func(string, string) { begun.Add(1) },
				})
			}()
			waitFor(t, "the other import", func() bool { return logs.opens() == len(paths) })
			go func() {
				done <- l.w.Tail(t.Context(), TailSpec{
					Paths: paths, Agent: "codex", Once: true, Waiting: func(string) { waits.Add(1) },
				})
			}()
			waitFor(t, "a word", func() bool { return waits.Load() > 0 })
			<-time.After(2 * l.w.tailPause) // time for a second report
			close(stuck)
			for range 2 {
				if err := <-done; err != nil {
					t.Error(err)
				}
			}
			if waits.Load() != 1 {
				t.Errorf("reported %d times that it waits, want once", waits.Load())
			}
			if len(l.runIDs()) != len(paths) || strings.Count(l.summary(), string("["+runs.ReasonEOF+"]")) != len(paths) ||
				!l.empty() {
				t.Errorf("summary %q", l.summary())
			}
		})
	}
}
