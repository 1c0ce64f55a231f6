package worker

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

// Each file of a run directory is missing, empty or cut in half, before the
// agent has started and after it has ended: the run gets one exit, or is
// quarantined. No output is duplicated, no agent is started twice, and another
// run is not affected.
func TestTornRunDirectoryAffectsNoOtherRun(t *testing.T) {
	t.Parallel()
	files := []string{
		ownerFile, specFile, markFile, shimFile, shimLogFile, startedFile, outFile, errFile, exitFile, ctlFile,
	}
	damages := map[string]func(path string, size int64) error{
		"missing": func(path string, _ int64) error { return os.Remove(path) },
		"empty":   func(path string, _ int64) error { return os.Truncate(path, 0) },
		"torn":    func(path string, size int64) error { return os.Truncate(path, size/2) },
	}
	for _, ended := range []bool{false, true} {
		for _, file := range files {
			for name, damage := range damages {
				t.Run(fmt.Sprintf("%s %s, ended %v", file, name, ended), func(t *testing.T) {
					t.Parallel()
					l := newFixture(t)
					ran := filepath.Join(t.TempDir(), "ran")
					d := l.create(shell("r", "echo one >> "+ran+"; echo one; echo two; exit 4"))
					d.mark.Begun, d.mark.As = true, "here"
					if err := errors.Join(d.mark.save(), d.Close()); err != nil {
						t.Fatal(err)
					}
					l.foreign("r", runs.Started, runs.Start{Worker: "here"})
					if ended {
						for name, text := range map[string]string{
							shimFile: "", shimLogFile: "a word", startedFile: "", outFile: "one\ntwo\n", errFile: "oh",
							exitFile: `{"reason":"exited","code":4}`,
						} {
							write(t, filepath.Join(d.Path(), name), text)
						}
					}
					path := filepath.Join(d.Path(), file)
					info, err := os.Lstat(path)
					if errors.Is(err, fs.ErrNotExist) {
						return // does not exist yet
					}
					if err == nil && (name == "missing" || info.Mode().IsRegular()) {
						err = damage(path, info.Size())
					}
					if err != nil {
						t.Fatal(err)
					}
					l.create(shell("other", "echo fine")).Close()
					l.adopt()
					aside := filepath.Join(l.root, badPrefix+"r")
					waitFor(t, "the end", func() bool {
						return l.ended("other") && (l.ended("r") && !exists(d.Path()) || exists(aside))
					})
					if !exists(aside) {
						l.exit("r") // there is one, and it is the last entry
					}
					if got := l.output("r"); !strings.HasPrefix("one\ntwo\n", got) {
						t.Errorf("output %q", got)
					}
					times := strings.Count(contents(t, ran), "one")
					if want := 1; ended && times > 0 && file != startedFile || times > want {
						t.Errorf("the agent was started %d times", times)
					}
					if l.output("other") != "fine\n" {
						t.Errorf("the other run has %q", l.output("other"))
					}
				})
			}
		}
	}
}

// A kill between any two steps of the creation of a run directory leaves
// nothing that looks like a run, or that prevents the creation of the same
// run.
func TestIncompleteDirectoryIsNoRun(t *testing.T) {
	t.Parallel()
	steps := []func(dir string) error{
		func(dir string) error { return os.MkdirAll(dir, 0o700) },
		func(dir string) error { return os.WriteFile(filepath.Join(dir, ownerFile), nil, 0o600) },
		func(dir string) error {
			return os.WriteFile(filepath.Join(dir, specFile), []byte(`{"version":1,"run":`), 0o600)
		},
		func(dir string) error { return os.WriteFile(filepath.Join(dir, markFile), make([]byte, 100), 0o600) },
		func(dir string) error { return os.WriteFile(filepath.Join(dir, schemaFile), []byte("{"), 0o600) },
		func(dir string) error { return unix.Mkfifo(filepath.Join(dir, ctlFile), 0o600) },
	}
	for _, prefix := range []string{newPrefix, gonePrefix} {
		for n := range steps {
			t.Run(fmt.Sprintf("%s %d", prefix, n), func(t *testing.T) {
				t.Parallel()
				l := newFixture(t)
				left := filepath.Join(l.root, prefix+"r")
				for _, step := range steps[:n+1] {
					if err := step(left); err != nil {
						t.Fatal(err)
					}
				}
				long := time.Now().Add(-time.Hour)
				if err := os.Chtimes(left, long, long); err != nil {
					t.Fatal(err)
				}
				l.create(shell("r", "echo fine")).Close()
				l.adopt()
				waitFor(t, "the end", func() bool { return l.ended("r") && l.empty() })
				if l.output("r") != "fine\n" {
					t.Errorf("output %q", l.output("r"))
				}
			})
		}
	}
}
