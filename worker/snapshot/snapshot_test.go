package snapshot_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/snapshot"
)

// stage is a work tree with a few files, and the directory of a run in it.
type stage struct {
	*testing.T
	root, dir, scratch string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &stage{t, root, root, filepath.Join(t.TempDir(), "data", "runs", "r", "diff")}
}

// git runs git as a user would.
func (s *stage) git(args ...string) string {
	s.Helper()
	return s.gitIn(s.root, args...)
}

func (s *stage) gitIn(dir string, args ...string) string {
	s.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@b", "GIT_ALLOW_PROTOCOL=file")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (s *stage) write(name, text string) {
	s.Helper()
	at := filepath.Join(s.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) remove(name string) {
	s.Helper()
	if err := os.RemoveAll(filepath.Join(s.root, name)); err != nil {
		s.Fatal(err)
	}
}

// commit makes a repository with the files a.txt and src/b.txt.
func (s *stage) commit(options ...string) {
	s.Helper()
	s.git(append([]string{"init", "-q", "-b", "main"}, options...)...)
	s.write("a.txt", "one\ntwo\nthree\n")
	s.write("src/b.txt", "b\n")
	s.git("add", ".")
	s.git("commit", "-q", "-m", "first")
}

func (s *stage) take() error {
	return snapshot.Take(s.Context(), s.dir, s.scratch, filepath.Dir(filepath.Dir(filepath.Dir(s.scratch))))
}

func (s *stage) diff() runs.Diff {
	s.Helper()
	d, err := snapshot.Diff(s.Context(), s.dir, s.scratch)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// listed is the list of a diff as text.
func listed(d runs.Diff) []string {
	all := []string{}
	for _, f := range d.Listed {
		line := f.Kind + " " + f.Path
		if f.From != "" {
			line = f.Kind + " " + f.From + " > " + f.Path
		}
		if f.Binary {
			line += " binary"
		} else {
			line += fmt.Sprintf(" +%d -%d", f.Added, f.Removed)
		}
		all = append(all, line)
	}
	return all
}

// state is all of a repository that must not change: the files in .git with their times.
func (s *stage) state() string {
	s.Helper()
	var b strings.Builder
	err := filepath.WalkDir(filepath.Join(s.root, ".git"), func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		changed := info.ModTime().UnixNano()
		if strings.Contains(path, "/objects/") && !info.IsDir() {
			changed = 0 // git sets it when it needs an object that is there already
		}
		fmt.Fprintln(&b, path, info.Mode(), info.Size(), changed, info.Sys().(*syscall.Stat_t).Ino)
		return nil
	})
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return b.String()
}

func link(s *stage, target, name string) {
	s.Helper()
	if err := os.Symlink(target, filepath.Join(s.root, name)); err != nil {
		s.Fatal(err)
	}
}

var changes = []struct {
	name          string
	before, after func(*stage)
	want          []string
}{
	{"nothing", func(s *stage) { s.commit() }, func(*stage) {}, []string{}},
	{
		"edits", func(s *stage) { s.commit() },
		func(s *stage) {
			s.write("a.txt", "one\n2\nthree\nfour\n")
			s.write("new/c.txt", "c\n")
			s.remove("src/b.txt")
		},
		[]string{"modified a.txt +2 -1", "added new/c.txt +1 -0", "deleted src/b.txt +0 -1"},
	},
	{
		"changes of before do not count",
		func(s *stage) {
			s.commit()
			s.write("a.txt", "mine\n")
			s.write("untracked", "1\n")
			s.git("rm", "-q", "src/b.txt")
		},
		func(s *stage) { s.write("untracked", "1\n2\n") },
		[]string{"modified untracked +1 -0"},
	},
	{
		"a commit and a branch", func(s *stage) { s.commit() },
		func(s *stage) {
			s.git("checkout", "-q", "-b", "other")
			s.write("a.txt", "x\n")
			s.git("commit", "-q", "-a", "-m", "second")
			s.git("gc", "-q")
		},
		[]string{"modified a.txt +1 -3"},
	},
	{
		"a rename, a mode and a kind", func(s *stage) { s.commit(); s.write("d", "d\n") },
		func(s *stage) {
			_ = os.Rename(s.root+"/a.txt", s.root+"/z.txt")
			_ = os.Chmod(s.root+"/src/b.txt", 0o755)
			s.remove("d")
			link(s, "a.txt", "d")
		},
		[]string{"type d +1 -1", "modified src/b.txt +0 -0", "renamed a.txt > z.txt +0 -0"},
	},
	{
		"unborn", func(s *stage) { s.git("init", "-q"); s.write("x", "1\n") },
		func(s *stage) { s.write("x", "2\n"); s.write("y", "y\n") },
		[]string{"modified x +1 -1", "added y +1 -0"},
	},
	{
		"SHA-256", func(s *stage) { s.commit("--object-format=sha256") },
		func(s *stage) { s.write("a.txt", "x\n"); s.write("c", "c\n") },
		[]string{"modified a.txt +1 -3", "added c +1 -0"},
	},
	{
		"ignored", func(s *stage) {
			s.commit()
			s.write(".gitignore", "*.o\n")
			s.write(".git/info/exclude", "mine\n")
			_ = os.MkdirAll(os.Getenv("HOME")+"/.config/git", 0o755)
			_ = os.WriteFile(os.Getenv("HOME")+"/.config/git/ignore", []byte("*.swp\n"), 0o644)
		},
		func(s *stage) {
			for _, name := range []string{"x.o", "mine", "a.swp", "seen"} {
				s.write(name, "1\n")
			}
			s.write(".git/info/exclude", "*\n") // it does not hide what follows
		},
		[]string{"added seen +1 -0"},
	},
	{
		"marked as unchanged", func(s *stage) {
			s.commit()
			s.git("update-index", "--assume-unchanged", "a.txt")
			s.git("update-index", "--skip-worktree", "src/b.txt")
		},
		func(s *stage) { s.write("a.txt", "x\n"); s.write("src/b.txt", "y\n") },
		[]string{"modified a.txt +1 -3", "modified src/b.txt +1 -1"},
	},
	{
		"an edit within the second, of the same size", func(s *stage) { s.commit() },
		func(s *stage) { s.write("src/b.txt", "c\n") },
		[]string{"modified src/b.txt +1 -1"},
	},
	{
		"names", func(s *stage) { s.commit() },
		func(s *stage) {
			s.write("with\nnewline\x1b[31m", "1\n")
			s.write("bad\xff", "1\n")
			s.write("tab\t \"quoted\"", "1\n")
			s.write(":(glob)**", "1\n")
			s.write("-f", "1\n")
		},
		[]string{
			"added -f +1 -0", "added :(glob)** +1 -0", "added bad\uFFFD +1 -0", "added tab\t \"quoted\" +1 -0",
			"added with\nnewline\x1b[31m +1 -0",
		},
	},
	{
		"binary", func(s *stage) { s.commit(); s.write("p.bin", "a\x00b") },
		func(s *stage) { s.write("p.bin", "a\x00c") },
		[]string{"modified p.bin binary"},
	},
	{
		"links out of the tree", func(s *stage) { s.commit(); link(s, s.TempDir(), "out") },
		func(s *stage) {
			_ = os.WriteFile(s.root+"/out/file", []byte("1\n"), 0o644)
			s.remove("src")
			other := s.TempDir()
			_ = os.WriteFile(other+"/b.txt", []byte("of others\n"), 0o644)
			link(s, other, "src")
		},
		[]string{"added src +1 -0", "deleted src/b.txt +0 -1"},
	},
	{
		"a file and a directory change places", func(s *stage) { s.commit() },
		func(s *stage) { s.remove("a.txt"); s.write("a.txt/x", "1\n"); s.remove("src"); s.write("src", "2\n") },
		[]string{"deleted a.txt +0 -3", "added a.txt/x +1 -0", "added src +1 -0", "deleted src/b.txt +0 -1"},
	},
	{
		"special files", func(s *stage) { s.commit(); _ = syscall.Mkfifo(s.root+"/pipe", 0o600) },
		func(s *stage) { s.remove("a.txt"); _ = syscall.Mkfifo(s.root+"/a.txt", 0o600) },
		[]string{"deleted a.txt +0 -3"},
	},
	{
		"the index is locked", func(s *stage) { s.commit(); s.write(".git/index.lock", "") },
		func(s *stage) { s.write("a.txt", "x\n") },
		[]string{"modified a.txt +1 -3"},
	},
	{
		"a split index", func(s *stage) { s.commit(); s.git("update-index", "--split-index") },
		func(s *stage) { s.write("a.txt", "x\n") },
		[]string{"modified a.txt +1 -3"},
	},
	{
		"a conflict", func(s *stage) {
			s.commit()
			s.git("checkout", "-q", "-b", "other")
			s.write("a.txt", "other\n")
			s.git("commit", "-q", "-a", "-m", "other")
			s.git("checkout", "-q", "main")
			s.write("a.txt", "main\n")
			s.git("commit", "-q", "-a", "-m", "main")
			_ = exec.Command("git", "-C", s.root, "-c", "user.name=a", "-c", "user.email=b", "merge", "other").Run()
		},
		func(s *stage) { s.write("a.txt", "both\n") },
		[]string{"modified a.txt +1 -5"},
	},
	{
		"a conflict outside the directory", func(s *stage) {
			s.commit()
			s.git("checkout", "-q", "-b", "other")
			s.write("a.txt", "other\n")
			s.git("commit", "-q", "-a", "-m", "other")
			s.git("checkout", "-q", "main")
			s.write("a.txt", "main\n")
			s.git("commit", "-q", "-a", "-m", "main")
			_ = exec.Command("git", "-C", s.root, "-c", "user.name=a", "-c", "user.email=b", "merge", "other").Run()
			s.dir = s.root + "/src"
		},
		func(s *stage) { s.write("src/b.txt", "both\n") },
		[]string{"modified b.txt +1 -1"},
	},
	{
		"a directory below", func(s *stage) { s.commit(); s.dir = s.root + "/src" },
		func(s *stage) { s.write("a.txt", "x\n"); s.write("src/c.txt", "c\n"); s.git("add", "-A") },
		[]string{"added c.txt +1 -0"},
	},
	{
		"an empty directory below", func(s *stage) { s.commit(); s.dir = s.root + "/e"; _ = os.Mkdir(s.dir, 0o755) },
		func(s *stage) { s.write("e/c.txt", "c\n") },
		[]string{"added c.txt +1 -0"},
	},
	{
		"the directory was removed", func(s *stage) { s.commit(); s.dir = s.root + "/src" },
		func(s *stage) { s.remove("src") },
		[]string{"deleted b.txt +0 -1"},
	},
	{
		"the repository was removed", func(s *stage) { s.git("init", "-q"); s.write("x", "1\n") },
		func(s *stage) { s.write("x", "2\n"); s.remove(".git") },
		[]string{"modified x +1 -1"},
	},
	{
		"a linked work tree", func(s *stage) {
			s.commit()
			s.dir = filepath.Join(s.TempDir(), "linked")
			s.git("worktree", "add", "-q", s.dir)
		},
		func(s *stage) { _ = os.WriteFile(s.dir+"/a.txt", []byte("x\n"), 0o644) },
		[]string{"modified a.txt +1 -3"},
	},
	{
		"a submodule", func(s *stage) {
			s.commit()
			s.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", s.root, "sub")
			s.git("commit", "-q", "-m", "sub")
		},
		func(s *stage) {
			s.write("sub/a.txt", "x\n")
			s.gitIn(s.root+"/sub", "commit", "-q", "-a", "-m", "in sub")
			s.write("sub/a.txt", "not committed\n")
		},
		[]string{"modified sub +1 -1"},
	},
	{
		"in a submodule", func(s *stage) {
			s.commit()
			s.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", s.root, "sub")
			s.dir = s.root + "/sub"
		},
		func(s *stage) { s.write("sub/a.txt", "x\n") },
		[]string{"modified a.txt +1 -3"},
	},
	{
		"another repository in the directory", func(s *stage) { s.commit() },
		func(s *stage) { s.git("init", "-q", "nested"); s.write("nested/x", "1\n"); s.write("c", "c\n") },
		[]string{"added c +1 -0"},
	},
	{
		"sparse", func(s *stage) {
			s.commit()
			s.git("sparse-checkout", "init", "--cone", "--sparse-index")
		},
		func(s *stage) { s.write("a.txt", "x\n"); s.write("src/b.txt", "y\n") },
		[]string{"modified a.txt +1 -3", "modified src/b.txt +1 -1"},
	},
	{
		"shallow", func(s *stage) {
			s.commit()
			from := s.root
			s.root = filepath.Join(s.TempDir(), "clone")
			s.dir = s.root
			s.gitIn(from, "clone", "-q", "--depth=1", "file://"+from, s.root)
		},
		func(s *stage) { s.write("a.txt", "x\n") },
		[]string{"modified a.txt +1 -3"},
	},
	{
		"partial, where nothing is fetched", func(s *stage) {
			s.commit()
			s.git("config", "uploadpack.allowFilter", "true")
			from := s.root
			s.root = filepath.Join(s.TempDir(), "clone")
			s.dir = s.root
			s.gitIn(from, "clone", "-q", "--filter=blob:none", "--sparse", "file://"+from, s.root)
		},
		func(s *stage) { s.write("a.txt", "x\n") },
		[]string{"modified a.txt +1 -3"},
	},
	{
		"line endings", func(s *stage) {
			s.git("init", "-q")
			s.git("config", "core.autocrlf", "true")
			s.write("w.txt", "one\r\ntwo\r\n")
			s.git("add", ".")
			s.git("commit", "-q", "-m", "first")
		},
		func(s *stage) { s.write("w.txt", "one\r\n2\r\n") },
		[]string{"modified w.txt +1 -1"},
	},
	{
		"unreadable files", func(s *stage) { s.commit(); s.write("secret", "1\n") },
		func(s *stage) {
			_ = os.Chmod(s.root+"/secret", 0)
			_ = os.Mkdir(s.root+"/closed", 0)
			s.write("c", "c\n")
		},
		[]string{"added c +1 -0"},
	},
}

func TestDifferenceOfADirectory(t *testing.T) {
	for _, test := range changes {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			test.before(s)
			was := s.state()
			if err := s.take(); err != nil {
				t.Fatal(err)
			}
			if got := s.state(); got != was {
				t.Errorf("the repository changed: %s", cmpLines(was, got))
			}
			test.after(s)
			was = s.state()
			d := s.diff()
			if got := s.state(); got != was {
				t.Errorf("the repository changed: %s", cmpLines(was, got))
			}
			if got := listed(d); !slices.Equal(got, test.want) {
				t.Errorf("got %q\nwant %q\n%s", got, test.want, d.Patch)
			}
			if d.Files != int64(len(test.want)) {
				t.Errorf("got %d files, want %d", d.Files, len(test.want))
			}
		})
	}
}

// cmpLines returns the lines that only one of two texts has.
func cmpLines(was, got string) (only []string) {
	a, b := strings.Split(was, "\n"), strings.Split(got, "\n")
	for _, l := range a {
		if !slices.Contains(b, l) {
			only = append(only, "- "+l)
		}
	}
	for _, l := range b {
		if !slices.Contains(a, l) {
			only = append(only, "+ "+l)
		}
	}
	return only
}
