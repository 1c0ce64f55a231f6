package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/linesman/linesman/runs"
)

func TestCreateAndOpen(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.create(shell("r", "true"))
	if _, err := Create(l.root, shell("r", "true")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("created again: %v, want ErrExist", err)
	}
	if _, err := open(d.Path()); !errors.Is(err, errOwned) {
		t.Errorf("opened while owned: %v, want ErrOwned", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if again.Spec.Argv[2] != "true" || again.Spec.Limits.Linger != time.Minute ||
		again.Spec.Limits.Spool != 1<<30 {
		t.Errorf("spec %+v", again.Spec)
	}
	if err := again.Remove(); err != nil {
		t.Fatal(err)
	}
	if _, err := open(d.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened after the end: %v, want ErrNotExist", err)
	}
	if !l.empty() {
		t.Error("something is left")
	}
}

func TestRunDirectoryIsPrivate(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	l := newFixture(t)
	spec := shell("r", "echo one; while ! [ -e go ]; do sleep 0.01; done")
	spec.Dir = t.TempDir()
	_, done := l.begun(spec, "one")
	err := filepath.WalkDir(l.root, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", filepath.Base(path), info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	write(t, filepath.Join(spec.Dir, "go"), "")
	<-done
}

func TestSpecIsChecked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		do   func(*Spec)
		want string
	}{
		{"id", func(s *Spec) { s.Run = "../x" }, "run id"},
		{"agent", func(s *Spec) { s.Agent = "Codex" }, "agent"},
		{"source", func(s *Spec) { s.Source = "socket" }, "source"},
		{"argv", func(s *Spec) { s.Argv = nil }, "argv"},
		{"dir", func(s *Spec) { s.Dir = "here" }, "dir"},
		{"file", func(s *Spec) { s.Source = runs.SourceTail }, "file"},
		{"limit", func(s *Spec) { s.Limits.Idle = -1 }, "idle"},
		{"spool", func(s *Spec) { s.Limits.Spool = -1 }, "spool"},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := shell("r", "true")
			test.do(&spec)
			root := t.TempDir()
			if _, err := Create(root, spec); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one about %s", err, test.want)
			}
			if left, _ := os.ReadDir(root); len(left) != 0 {
				t.Errorf("%d entries left", len(left))
			}
		})
	}
}

func TestBadDirectoryDoesNotAffectOthers(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	for name, spec := range map[string]string{"a1": "{", "a2": "{}", "a3": `{"version":1,"run":"other"}`, "a4": ""} {
		dir := filepath.Join(l.root, name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, ownerFile), "")
		if spec != "" {
			write(t, filepath.Join(dir, specFile), spec)
		}
	}
	if err := os.Mkdir(filepath.Join(l.root, "a5"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(l.root, "a6"), "a file")
	l.create(shell("r", "echo one")).Close()
	l.adopt()
	waitFor(t, "the good one", func() bool { return l.ended("r") && !exists(filepath.Join(l.root, "r")) })
	var names []string
	entries, _ := os.ReadDir(l.root)
	for _, e := range entries {
		if e.Name() != gonePrefix+"r" { // may be being removed
			names = append(names, e.Name())
		}
	}
	if got, want := strings.Join(names, " "), ".bad-a1 .bad-a2 .bad-a3 .bad-a4 .bad-a5 a6"; got != want {
		t.Errorf("left %q, want %q", got, want)
	}
	if n := l.lines.FilterMessageSnippet("not a run directory").Len(); n != 5 {
		t.Errorf("logged %d times, want 5", n)
	}
}

func TestAdoptRemovesLeftoversOfKilledProcesses(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	for _, name := range []string{newPrefix + "old", newPrefix + "young", gonePrefix + "r", badPrefix + "x"} {
		if err := os.MkdirAll(filepath.Join(l.root, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(l.root, name, ownerFile), "")
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(l.root, newPrefix+"old"), past, past); err != nil {
		t.Fatal(err)
	}
	l.adopt()
	waitFor(t, "the clearing", func() bool {
		return !exists(filepath.Join(l.root, newPrefix+"old")) && !exists(filepath.Join(l.root, gonePrefix+"r"))
	})
	for _, name := range []string{newPrefix + "young", badPrefix + "x"} {
		if !exists(filepath.Join(l.root, name)) {
			t.Errorf("%s was deleted", name)
		}
	}
}

func TestAdoptDrivesAtMostMaxRuns(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	l.w.cfg.MaxRuns = 1
	dir := t.TempDir()
	for _, id := range []string{"a", "b"} {
		spec := shell(id, "echo up; while ! [ -e go ]; do sleep 0.01; done")
		spec.Dir = dir
		l.create(spec).Close()
	}
	l.adopt()
	l.await("a", "up")
	if len(l.entries("b")) != 0 {
		t.Error("b was started too")
	}
	write(t, filepath.Join(dir, "go"), "")
	waitFor(t, "both", func() bool { return l.ended("a") && l.ended("b") })
}

func TestAdoptRetriesAfterAnError(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	d := l.create(shell("r", "echo one"))
	d.Close()
	if err := os.WriteFile(filepath.Join(l.logs.dir, "r"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	again, err := open(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	again.mark.Log.Seq = 7 // ahead of the log, which therefore cannot be opened
	if err := errors.Join(again.mark.save(), again.Close()); err != nil {
		t.Fatal(err)
	}
	l.adopt()
	waitFor(t, "the error", func() bool { return l.has("drive run") })
	waitFor(t, "the directory to be free", func() bool {
		again, err = open(d.Path())
		return err == nil
	})
	again.mark.Log.Seq = 0
	if err := errors.Join(again.mark.save(), again.Close()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end", func() bool { return l.ended("r") })
	if l.kinds("r") != "start out exit" {
		t.Errorf("log %q", l.kinds("r"))
	}
}

func TestTailedFileIsAdoptedOnlyOnceItIsGone(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	stop := l.tail(path)
	l.awaitSummary("one\n")
	stop()
	write(t, path, "two\n")
	l.adopt()
	other := shell("r", "echo up") // adopted in the same scan or a later one
	l.create(other).Close()
	waitFor(t, "a scan", func() bool { return l.ended("r") })
	id := l.runIDs()[0]
	if l.output(id) != "one\n" {
		t.Errorf("output %q", l.output(id))
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the end", func() bool { return l.ended(id) })
	if l.exit(id).Reason != runs.ReasonEOF {
		t.Errorf("exit %s", runs.Encode(l.exit(id)))
	}
}

// A directory that is left to the next Tail is read once, and again only after its file or itself has changed.
func TestDirectoryThatIsLeftIsReadOnce(t *testing.T) {
	t.Parallel()
	l := newFixture(t)
	path := filepath.Join(t.TempDir(), "f")
	write(t, path, "one\n")
	stop := l.tail(path)
	l.awaitSummary("one\n")
	stop()
	dir := l.w.runDir(l.runIDs()[0])
	a := &adoption{w: l.w, failures: map[string]*retryDelay{}, left: map[string]leftForTail{}}
	a.scan(t.Context())
	info, err := os.Stat(filepath.Join(dir, specFile))
	if err != nil || len(a.left) != 1 {
		t.Fatalf("%d directories are left, %v", len(a.left), err)
	}
	write(t, filepath.Join(dir, specFile), "{") // no Spec: a directory that is read again is quarantined
	change := func(at time.Time) {
		t.Helper()
		if err := os.Chtimes(filepath.Join(dir, specFile), at, at); err != nil {
			t.Fatal(err)
		}
		a.scan(t.Context())
	}
	if change(info.ModTime()); !exists(dir) {
		t.Error("it was read again")
	}
	if change(info.ModTime().Add(time.Second)); exists(dir) {
		t.Error("it was not read again")
	}
	if a.scan(t.Context()); len(a.left) != 0 {
		t.Error("a directory that is gone is remembered")
	}
}

// Many runs look after their agents at the same moments, none of them later than before.
func TestPausesEndTogether(t *testing.T) {
	t.Parallel()
	for i := range 1000 {
		now := time.Unix(1_800_000_000, int64(i)*7_654_321)
		if got := together(20*time.Millisecond, now); got != 20*time.Millisecond {
			t.Fatalf("a short pause: %v", got)
		}
		got := together(time.Second, now)
		if got > time.Second || got <= 900*time.Millisecond || now.Add(got).UnixNano()%int64(100*time.Millisecond) != 0 {
			t.Fatalf("at %v: %v", now, got)
		}
	}
}
