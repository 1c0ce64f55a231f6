package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/snapshot"
)

func TestDirectoriesWithoutAWorkTree(t *testing.T) {
	s := newStage(t)
	bare, file := filepath.Join(s.TempDir(), "bare"), filepath.Join(s.TempDir(), "x")
	s.git("init", "-q", "--bare", bare)
	if err := os.MkdirAll(filepath.Join(file, ".git"), 0o755); err != nil { // it has no HEAD
		t.Fatal(err)
	}
	for _, dir := range []string{s.TempDir(), bare, file, "/nowhere/at/all"} {
		if snapshot.InWorkTree(dir) {
			t.Errorf("%q counts as a work tree", dir)
		}
	}
	s.commit()
	if !snapshot.InWorkTree(filepath.Join(s.root, "src")) {
		t.Error("a directory in a work tree does not count as one")
	}
}

// A snapshot that is too much work has a reason, and so has the diff.
func TestNoSnapshotHasAReason(t *testing.T) {
	large := func(s *stage) {
		s.commit()
		s.write("large", "")
		if err := os.Truncate(filepath.Join(s.root, "large"), 300<<20); err != nil {
			s.Fatal(err)
		}
	}
	gone := func(s *stage) { // an index may have any number of names
		s.commit()
		blob := s.git("hash-object", "-w", "a.txt")
		var all strings.Builder
		for i := range 100_001 {
			fmt.Fprintf(&all, "100644 %s\tgone/%d\n", blob, i)
		}
		cmd := exec.Command("git", "update-index", "--index-info")
		cmd.Dir, cmd.Stdin = s.root, strings.NewReader(all.String())
		if out, err := cmd.CombinedOutput(); err != nil {
			s.Fatalf("%v %s", err, out)
		}
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, test := range []struct {
		name   string
		before func(*stage)
		ctx    context.Context
		path   string
		want   runs.NoChanges
		err    error
	}{
		{"too large", large, t.Context(), os.Getenv("PATH"), runs.TooLarge, snapshot.ErrTooLarge},
		{"too many", gone, t.Context(), os.Getenv("PATH"), runs.TooLarge, snapshot.ErrTooLarge},
		{"too slow", func(s *stage) { s.commit() }, late, os.Getenv("PATH"), runs.TooSlow, context.DeadlineExceeded},
		{"no git", func(s *stage) { s.commit() }, t.Context(), t.TempDir(), runs.NoGit, snapshot.ErrNoGit},
		{
			"damaged", func(s *stage) { s.commit(); s.write(".git/index", "DIRC no index") }, t.Context(), os.Getenv("PATH"),
			runs.SnapshotFailed, nil,
		},
		{
			"damaged configuration", func(s *stage) { s.commit(); s.write(".git/config", "[") }, t.Context(),
			os.Getenv("PATH"), runs.SnapshotFailed, nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			test.before(s)
			t.Setenv("PATH", test.path)
			err := snapshot.Take(test.ctx, s.dir, s.scratch, "/nowhere")
			if err == nil || test.err != nil && !errors.Is(err, test.err) {
				t.Errorf("got the error %v, want %v", err, test.err)
			}
			if d := s.diff(); d.Reason != test.want || d.Files != 0 {
				t.Errorf("got %+v, want the reason %s", d, test.want)
			}
		})
	}
}

// A file that the agent makes too large has a reason, too; a damaged scratch directory has one.
func TestNoDiffHasAReason(t *testing.T) {
	s := newStage(t)
	s.commit()
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.write("large", "")
	if err := os.Truncate(filepath.Join(s.root, "large"), 300<<20); err != nil {
		t.Fatal(err)
	}
	d, err := snapshot.Diff(t.Context(), s.dir, s.scratch)
	if !errors.Is(err, snapshot.ErrTooLarge) || d.Reason != runs.TooLarge {
		t.Errorf("got %+v, %v", d, err)
	}
	state := filepath.Join(s.scratch, "state.json")
	for _, text := range []string{"", "{", `{"tree":"--output=/tmp/x","name":"..","root":"/"}`} {
		if err := os.WriteFile(state, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if d, err := snapshot.Diff(t.Context(), s.dir, s.scratch); err == nil || d.Reason != runs.SnapshotFailed {
			t.Errorf("state %q: got %+v, %v", text, d, err)
		}
	}
}

// A snapshot that was taken before is kept, as after the kill of a worker.
func TestTheFirstSnapshotCounts(t *testing.T) {
	s := newStage(t)
	s.commit()
	if err := os.MkdirAll(filepath.Join(s.scratch, "git-1", "objects"), 0o700); err != nil { // of a worker that was killed
		t.Fatal(err)
	}
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.write("a.txt", "x\n")
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a diff can be made again
		if got := listed(s.diff()); !slices.Equal(got, []string{"modified a.txt +1 -3"}) {
			t.Errorf("got %q", got)
		}
	}
	if all, err := filepath.Glob(filepath.Join(s.scratch, "git-*")); err != nil || len(all) != 1 {
		t.Errorf("repositories are left: %v %v", all, err)
	}
}

// Whatever the umask is, only the user reads what git stores. It is that of the process: no parallel test.
func TestSnapshotIsForItsUserAlone(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	s := newStage(t)
	s.commit()
	s.write("a.txt", "x\n")
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.write("b.txt", "x\n")
	listed(s.diff())
	seen := 0
	err := filepath.WalkDir(s.scratch, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if seen++; err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", path, info.Mode())
		}
		return err
	})
	if err != nil || seen < 5 {
		t.Errorf("%d files, %v", seen, err)
	}
}

// The data directory of linesman may be in the work tree, whose patterns may include its files again.
func TestFilesOfLinesmanDoNotCount(t *testing.T) {
	for _, patterns := range []string{"", "*\n!*/\n!out\n!x\n"} {
		s := newStage(t)
		s.commit()
		if patterns != "" {
			s.write(".gitignore", patterns)
		}
		s.scratch = filepath.Join(s.root, "da*ta [1]", "runs", "r", "diff")
		if err := s.take(); err != nil {
			t.Fatal(err)
		}
		s.write("da*ta [1]/runs/r/out", "output\n")
		s.write("data 1/x", "x\n")
		if got := listed(s.diff()); !slices.Equal(got, []string{"added data 1/x +1 -0"}) {
			t.Errorf("with %q: got %q", patterns, got)
		}
	}
}

// A repository can name programs that git runs; none of them runs.
func TestNothingRunsThatARepositoryConfigures(t *testing.T) {
	s := newStage(t)
	s.commit()
	s.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", s.root, "sub")
	s.git("commit", "-q", "-m", "sub")
	dir, err := os.MkdirTemp("/tmp", "linesman-test-") // a shell reads some of the settings: no space is in its path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	marker, program := filepath.Join(dir, "marker"), filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$0 $*\" >>"+marker+"\ncat\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hostile := func() {
		config := fmt.Sprintf(`[core]
	fsmonitor = %[1]s
	hooksPath = %[2]s
	pager = %[1]s
	editor = %[1]s
	sshCommand = %[1]s
	gitProxy = %[1]s
	askPass = %[1]s
	alternateRefsCommand = %[1]s
	attributesFile = %[2]s/attributes
[filter "evil"]
	clean = %[1]s
	smudge = %[1]s
	process = %[1]s
	required = true
[diff]
	external = %[1]s
[diff "evil"]
	command = %[1]s
	textconv = %[1]s
[merge "evil"]
	driver = %[1]s
[credential]
	helper = "!%[1]s"
[pager]
	config = %[1]s
	ls-files = %[1]s
	diff-tree = %[1]s
[alias]
	ls-files = "!%[1]s"
	update-index = "!%[1]s"
	write-tree = "!%[1]s"
	diff-tree = "!%[1]s"
	config = "!%[1]s"
[gpg]
	program = %[1]s
[trace2]
	normalTarget = %[3]s
	eventTarget = %[3]s
[submodule]
	recurse = true
[remote "origin"]
	url = "ext::%[1]s"
	promisor = true
	partialclonefilter = blob:none
`, program, filepath.Dir(program), marker)
		for _, dir := range []string{".git", ".git/modules/sub"} {
			old, err := os.ReadFile(filepath.Join(s.root, dir, "config"))
			if err != nil {
				t.Fatal(err)
			}
			s.write(dir+"/config", string(old)+config)
			for _, hook := range []string{"post-index-change", "pre-commit", "fsmonitor-watchman", "post-checkout"} {
				s.write(dir+"/hooks/"+hook, "#!/bin/sh\necho hook >>"+marker+"\n")
				if err := os.Chmod(filepath.Join(s.root, dir, "hooks", hook), 0o755); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, hook := range []string{"post-index-change", "pre-commit"} {
			if err := os.Link(program, filepath.Join(filepath.Dir(program), hook)); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err)
			}
		}
		for _, file := range []string{".gitattributes", ".git/info/attributes", "sub/.gitattributes"} {
			s.write(file, "* filter=evil diff=evil merge=evil\n")
		}
	}
	hostile()
	for _, v := range []string{
		"GIT_EXTERNAL_DIFF", "GIT_PAGER", "GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_ASKPASS", "GIT_CONFIG_PARAMETERS",
	} {
		t.Setenv(v, program)
	}
	t.Setenv("GIT_CONFIG_PARAMETERS", "'core.fsmonitor="+program+"'")
	t.Setenv("GIT_DIR", s.TempDir())
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.write("a.txt", "x\n")
	s.write("sub/a.txt", "x\n")
	s.write("new", "n\n")
	hostile()
	got := listed(s.diff())
	if text, err := os.ReadFile(marker); err == nil {
		t.Errorf("a program ran:\n%s", text)
	}
	if !slices.Equal(got, []string{"modified a.txt +1 -3", "added new +1 -0"}) {
		t.Errorf("got %q", got)
	}
	// The marker works: git itself runs a program of this repository.
	for _, v := range []string{"GIT_DIR", "GIT_CONFIG_PARAMETERS"} {
		if err := os.Unsetenv(v); err != nil {
			t.Fatal(err)
		}
	}
	_ = exec.Command("git", "-C", s.root, "add", "-A").Run() // it may fail: the filter is none
	if _, err := os.Stat(marker); err != nil {
		t.Errorf("the repository is harmless: %v", err)
	}
}

// Attributes cannot hide the content of a file.
func TestAttributesHideNothing(t *testing.T) {
	s := newStage(t)
	s.commit()
	s.write(".gitattributes", "* -diff -text\n")
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.write("a.txt", "x\n")
	if d := s.diff(); !strings.Contains(d.Patch, "+x\n") {
		t.Errorf("got %s", d.Patch)
	}
}

// The patch has two parts for a file that becomes a link.
func TestTruncatedFileIsTheOneWhosePatchIs(t *testing.T) {
	s := newStage(t)
	s.commit()
	s.write("a", "a\n")
	s.write("b", "b\n")
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.remove("a")
	link(s, "b", "a")
	s.write("b", strings.Repeat("0123456789\n", 10_000))
	s.write("c", "c\n")
	d := s.diff()
	for _, f := range d.Listed {
		if f.Truncated != (f.Path == "b") {
			t.Errorf("%s %s: truncated %t", f.Kind, f.Path, f.Truncated)
		}
	}
	if want := "diff --git a/a b/a\n"; len(d.Listed) != 3 || strings.Count(d.Patch, want) != 2 {
		t.Errorf("%d files, want 3, and twice %q in\n%s", len(d.Listed), want, d.Patch)
	}
}

// Where a patch has the beginning or the end of a PEM block, none of its lines are in it. A change in the middle, whose
// file has no hunk with either, cannot be told from other text.
func TestPatchHasNoLinesOfAKeyThatItHasAMarkOf(t *testing.T) {
	const begin, end = "-----" + "BEGIN PRIVATE KEY-----\n", "-----" + "END PRIVATE KEY-----\n"
	var body strings.Builder // each line begins with the letter that git looks for in a header of a hunk
	for i := range 40 {
		fmt.Fprintf(&body, "c2VjcmV0+%02d\n", i)
	}
	key, text := begin+body.String()+end, strings.Repeat("1. text\n", 9)
	change := func(in, line string) string { return strings.Replace(in, line, "c2VjcmV0+changed\n", 1) }
	large, rest := strings.Repeat("0123456789\n", 7_000), strings.Repeat("1. text\n", 60)
	headed := begin + "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\n" + body.String() + end
	quoted := "\"" + strings.ReplaceAll(strings.TrimSpace(key), "\n", "\\n\" +\n\"") + "\"\n"
	for _, test := range []struct{ name, before, after, kept string }{
		{"below it", key + "one\ntwo\n" + text, key + "one\n2\n" + text, " one\n-two\n+2\n 1. text\n"},
		{"in its last lines", key + text, change(key, "c2VjcmV0+38\n") + text, "\n 1. text\n"},
		{"both", key + "one\n" + text + "two\n", change(key, "c2VjcmV0+38\n") + "one\n" + text + "2\n",
			" [redacted]\n one\n@@ -50,4 +50,4 @@\n 1. text\n"},
		{"in its first and middle lines", key, change(change(key, "c2VjcmV0+01\n"), "c2VjcmV0+20\n"), "\n+[redacted]\n"},
		{"in all of its parts", text + key, text + change(change(change(key, "c2VjcmV0+01\n"), "c2VjcmV0+20\n"),
			"c2VjcmV0+38\n"), " 1. text\n"},
		{"far below it, where it is in the header", key + text + text + "x\n", key + text + text + "y\n",
			" @@\n 1. text\n"},
		{"another with the same beginning", begin + "c2VjcmV0+1\n" + strings.TrimSpace(end), begin + "c2VjcmV0+2\n" + end + text,
			"+1. text\n"},
		{"two, without a line end between them", text, text + strings.TrimSpace(key) + key + "end\n", "+end\n"},
		{"far above another change", "0\n" + key + rest + "x\n", "1\n" + key + rest + "y\n", "\n 1. text\n-x\n+y\n"},
		{"with its beginning and a header, then in the middle", "0\na b\nc d\n" + headed, "1\na b\nc d\n" +
			change(change(headed, "c2VjcmV0+01\n"), "c2VjcmV0+20\n"), "\n+[redacted]\n"},
		{"quoted", "0\n" + quoted, "1\n" + strings.Replace(quoted, "+20", "+changed", 1), "\n+[redacted]\n"},
		{"behind too much", "x\n" + key, large + change(key, "c2VjcmV0+20\n"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newStage(t)
			s.commit()
			s.write("0", test.before)
			if err := s.take(); err != nil {
				t.Fatal(err)
			}
			s.write("0", test.after)
			s.write("1", "c2V\n"+"end\n") // a block ends with its file at the latest
			d := s.diff()
			if strings.Contains(d.Patch, "c2VjcmV0") || !strings.Contains(d.Patch, test.kept) ||
				!strings.Contains(d.Patch, "+c2V\n+end\n") {
				t.Errorf("got\n%s", d.Patch)
			}
		})
	}
}

// A patch has the line ends of the files, or it could not be applied.
func TestPatchKeepsLineEnds(t *testing.T) {
	s := newStage(t)
	s.commit()
	s.write("w.txt", "one\r\ntwo\r\nthree\r\n")
	s.git("add", ".")
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.write("w.txt", "one\r\n2\r\nthree\r\r\nend\r")
	if d := s.diff(); !strings.HasSuffix(d.Patch,
		" one\r\n-two\r\n-three\r\n+2\r\n+three\r\r\n+end\r\n\\ No newline at end of file\n") {
		t.Errorf("got %q", d.Patch)
	}
}

func TestPatchIsBoundedAndRedacted(t *testing.T) {
	s := newStage(t)
	s.commit()
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	s.write("0-large", strings.Repeat("0123456789\n", 20_000))
	s.write("1-long", strings.Repeat("y", 1<<20)+"\n")
	const dashes = "-----"
	s.write("2-key", dashes+"BEGIN PRIVATE KEY-----\nc2VjcmV0\nc2VjcmV0\n"+dashes+"END PRIVATE KEY-----\nend\n")
	s.write("a.txt", "one\ntoken = ghp_"+strings.Repeat("0123456789", 4)+"\nthree\n")
	d := s.diff()
	if !d.Truncated || !d.Listed[0].Truncated || !d.Listed[1].Truncated || d.Listed[2].Truncated {
		t.Errorf("got %+v", d.Listed)
	}
	for _, secret := range []string{"c2VjcmV0", "ghp_", "yyyy", "0123456789\n"} {
		if strings.Contains(d.Patch, secret) {
			t.Errorf("the patch has %q", secret)
		}
	}
	for _, kept := range []string{
		"+end\n", "-two\n+token = [redacted]\n three\n", "@@ -0,0 +1,5 @@\n+[redacted]\n+[redacted]\n",
	} {
		if !strings.Contains(d.Patch, kept) {
			t.Errorf("the patch lacks %q:\n%s", kept, d.Patch)
		}
	}

	for i := range 300 {
		s.write(fmt.Sprintf("many/%03d", i), strings.Repeat("<\x01>\n", 300))
	}
	d = s.diff()
	if d.Files != 304 || len(d.Listed) != 200 || !d.Truncated || d.Added != 20_000+1+5+1+300*300 {
		t.Errorf("got %d files, %d listed, +%d", d.Files, len(d.Listed), d.Added)
	}
	for _, body := range d.Notes("set") {
		if len(body) > 48<<10 {
			t.Errorf("a note has %d bytes", len(body))
		}
	}
	if len(d.Patch) > 256<<10 || !strings.HasSuffix(d.Patch, "\n") {
		t.Errorf("the patch has %d bytes", len(d.Patch))
	}
}

// Whoever writes to a repository can add files that an index could share, of any size and number. Only those of an
// index that git may need are copied, and all together have at most its size.
func TestSharedIndexesAreBounded(t *testing.T) {
	s := newStage(t)
	s.commit()
	s.git("update-index", "--split-index")
	old := time.Now().Add(-time.Hour)
	for i := range 100 {
		name := fmt.Sprintf(".git/sharedindex.%040d", i)
		s.write(name, "")
		at := filepath.Join(s.root, name)
		if err := errors.Join(os.Truncate(at, 10<<20), os.Chtimes(at, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	copied, err := filepath.Glob(filepath.Join(s.scratch, "git-*", "sharedindex.*"))
	if err != nil || len(copied) == 0 || len(copied) > 16 {
		t.Errorf("%d files were copied, %v", len(copied), err)
	}
	s.write("a.txt", "x\n")
	if got := listed(s.diff()); !slices.Equal(got, []string{"modified a.txt +1 -3"}) {
		t.Errorf("got %q", got)
	}
	large := time.Now().Add(time.Hour)
	for i := range 3 { // more than an index may have: they are left out
		at := filepath.Join(s.root, fmt.Sprintf(".git/sharedindex.%040d", i))
		if err := errors.Join(os.Truncate(at, 257<<20), os.Chtimes(at, large, large)); err != nil {
			t.Fatal(err)
		}
	}
	s.scratch += "2"
	if err := s.take(); err != nil {
		t.Fatal(err)
	}
	if got := listed(s.diff()); len(got) != 0 {
		t.Errorf("got %q", got)
	}
}
