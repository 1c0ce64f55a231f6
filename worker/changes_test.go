package worker

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// workTree makes a git work tree with the committed file a.
func workTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a"), "one\n")
	for _, args := range [][]string{
		{"init", "-q"}, {"add", "a"}, {"-c", "user.name=a", "-c", "user.email=a@b", "commit", "--no-gpg-sign", "-q", "-m", "first"},
	} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("git %v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// edits is a run that changes a and adds b.
func edits(dir string) Spec {
	spec := shell("r", "echo begun; echo two >>a; echo b >b")
	spec.Dir = dir
	return spec
}

func (l *fixture) changes(run string) *runs.Diff {
	var d runs.DiffReader
	for _, e := range l.entries(run) {
		d.Add(e)
	}
	return d.Last()
}

func sameEdits(d *runs.Diff) bool {
	return d != nil && d.Reason == "" && d.Files == 2 && d.Added == 2 && d.Removed == 0 && len(d.Listed) == 2 &&
		d.Listed[0] == runs.DiffFile{Path: "a", Kind: "modified", Added: 1} &&
		d.Listed[1] == runs.DiffFile{Path: "b", Kind: "added", Added: 1} && strings.Contains(d.Patch, " one\n+two\n")
}

func TestChangesAreNotedBeforeTheExit(t *testing.T) {
	t.Parallel()
	l, dir := newFixture(t), workTree(t)
	l.w.cfg.Diff = true
	index, err := os.Stat(filepath.Join(dir, ".git", "index"))
	if err != nil {
		t.Fatal(err)
	}
	l.drive(edits(dir))
	if got := l.kinds("r"); got != "start out note exit" {
		t.Errorf("got %s", got)
	}
	if d := l.changes("r"); !sameEdits(d) {
		t.Errorf("got %+v", d)
	}
	now, err := os.Stat(filepath.Join(dir, ".git", "index"))
	if err != nil || !os.SameFile(index, now) || !now.ModTime().Equal(index.ModTime()) {
		t.Errorf("the index was written: %v", err)
	}
	if !l.empty() {
		t.Error("the directory is still there")
	}
}

// A diff that is turned off says so; directories in no work tree have no notes.
func TestRunsWithoutADiff(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		dir  string
		on   bool
		want string
	}{
		{"off", workTree(t), false, "start out note exit"},
		{"off, in no work tree", t.TempDir(), false, "start out exit"},
		{"in no work tree", t.TempDir(), true, "start out exit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := newFixture(t)
			l.w.cfg.Diff = test.on
			l.drive(edits(test.dir))
			if got := l.kinds("r"); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			d := l.changes("r")
			if noted := d != nil; noted != strings.Contains(test.want, "note") || noted && d.Reason != runs.DiffOff {
				t.Errorf("got %+v", d)
			}
		})
	}
}

// A worker that is killed at any moment leaves enough for the next one.
func TestChangesSurviveTheWorker(t *testing.T) {
	t.Parallel()
	for at := 1; at <= 4; at++ {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+strconv.Itoa(at), func(t *testing.T) {
				t.Parallel()
				l, dir := newFixture(t), workTree(t)
				l.w.cfg.Diff = true
				if err := l.create(edits(dir)).Close(); err != nil {
					t.Fatal(err)
				}
				env := []string{"TEST_DIFF=1", "TEST_KILL_WHEN=" + when, "TEST_KILL_AT=" + strconv.Itoa(at)}
				if err := l.process(nil, env, "adopt").Wait(); err == nil {
					t.Error("the worker was not killed")
				}
				l.adopt()
				waitFor(t, "the end", l.empty)
				l.exit("r")
				if d := l.changes("r"); !sameEdits(d) {
					t.Errorf("got %+v", d)
				}
			})
		}
	}
}

// A worker that stops leaves the diff to the next one.
func TestSnapshotsWaitForEachOther(t *testing.T) {
	t.Parallel()
	l, dir := newFixture(t), workTree(t)
	l.w.cfg.Diff = true
	for range maxSnapshots {
		l.w.snapshots <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, done := l.driven(ctx, l.create(edits(dir)))
	waitFor(t, "the start", func() bool { return len(l.entries("r")) == 1 })
	cancel()
	if r := <-done; r.err == nil || l.kinds("r") != "start" {
		t.Errorf("got %v, %s", r.err, l.kinds("r"))
	}
	for range maxSnapshots {
		<-l.w.snapshots
	}
	l.adopt()
	waitFor(t, "the end", l.empty)
	if d := l.changes("r"); !sameEdits(d) {
		t.Errorf("got %+v", d)
	}
}

// A cancel that is confirmed while the snapshot is taken is in the log, and the agent does not start.
func TestCancelIsHeardDuringASnapshot(t *testing.T) {
	t.Parallel()
	l, dir := newFixture(t), workTree(t)
	l.w.cfg.Diff = true
	for range maxSnapshots { // it has no slot
		l.w.snapshots <- struct{}{}
	}
	r, done := l.driven(t.Context(), l.create(edits(dir)))
	waitFor(t, "the start", func() bool { return len(l.entries("r")) == 1 })
	if err := r.Cancel(t.Context(), "enough"); err != nil || !strings.HasPrefix(l.kinds("r"), "start cancel") {
		t.Errorf("error %v, log %q", err, l.kinds("r"))
	}
	for range maxSnapshots {
		<-l.w.snapshots
	}
	if res := <-done; res.err != nil || res.Reason != runs.ReasonCancelled || l.kinds("r") != "start cancel exit" {
		t.Errorf("exit %s, error %v, log %q", runs.Encode(res.Exit), res.err, l.kinds("r"))
	}
	if exists(filepath.Join(dir, "b")) {
		t.Error("the agent ran")
	}
}
