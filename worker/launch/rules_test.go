package launch_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/worker/launch"
)

func TestDangerMustBeAllowed(t *testing.T) {
	for _, row := range []struct {
		mode   runs.Mode
		danger bool
		ok     bool
	}{
		{runs.ReadOnly, false, true},
		{runs.WorkspaceWrite, false, true},
		{runs.DangerFull, false, false},
		{runs.ReadOnly, true, true},
		{runs.WorkspaceWrite, true, true},
		{runs.DangerFull, true, true},
		{"", true, false},
		{"danger-full-access ", false, false},
		{"danger-full-access ", true, false},
	} {
		err := launch.Rules{Danger: row.danger}.Allow(runs.Task{Attributes: runs.Attributes{Mode: row.mode}})
		var field *runs.FieldError
		if (err == nil) != row.ok || err != nil && (!errors.As(err, &field) || field.Field != "mode") {
			t.Errorf("mode %q, danger %v: got %v, want ok %v", row.mode, row.danger, err, row.ok)
		}
	}
}

func TestWorkingDirectory(t *testing.T) {
	// The temporary directory may itself be a symbolic link.
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"work/sub/deep", "work-not", "home/me", "other/secret", "work/..odd"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{
		"work/out":     "../other",                      // leads out of the root
		"work/in":      "sub/deep",                      // stays in it
		"other/back":   filepath.Join(base, "work/sub"), // leads back in
		"root":         "work",                          // a root that is a link
		"work/dangles": "nowhere",
		"work/loop":    "loop",
		"work/tofile":  "file",
		"everything":   "/",
	} {
		if err := os.Symlink(target, filepath.Join(base, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "work/file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", filepath.Join(base, "home"))

	work := []string{"work"}
	for _, row := range []struct {
		name  string
		start string   // Rules.Dir below base; "/…" unchanged
		roots []string // like start
		dir   string   // Task.Dir, like start; "": none
		want  string   // below base, like start
		wrong string   // or part of the error
	}{
		{name: "none given", start: "work/sub", want: "work/sub"},
		{name: "none given, by a link", start: "root/in", want: "work/sub/deep"},
		{name: "none given, start is not in a root", start: "other", roots: work,
			wrong: "none given, and the worker's own is not in a directory that this worker allows"},
		{name: "none given, start is gone", start: "gone", wrong: "none given, and the worker's own does not exist"},
		{name: "below the start", start: "work", dir: "work/sub", want: "work/sub"},
		{name: "below home", start: "work", dir: "home/me", want: "home/me"},
		{name: "above the start", start: "work/sub", dir: "work", wrong: "is not in a directory"},
		{name: "roots take the place of the start", start: "other", roots: work, dir: "other",
			wrong: "is not in a directory"},
		{name: "roots take the place of home", start: "work", roots: work, dir: "home/me", wrong: "is not in a directory"},
		{name: "the root itself", start: "other", roots: work, dir: "work", want: "work"},
		{name: "unclean", start: "other", roots: work, dir: "work//sub/./deep/", want: "work/sub/deep"},
		{name: "a second root", start: "other", roots: []string{"gone", "work"}, dir: "work/sub", want: "work/sub"},
		{name: "a root that is a link", start: "other", roots: []string{"root"}, dir: "work/sub", want: "work/sub"},
		{name: "through a root that is a link", start: "other", roots: work, dir: "root/sub", want: "work/sub"},
		{name: "same beginning, another directory", start: "other", roots: work, dir: "work-not",
			wrong: "is not in a directory"},
		{name: "two dots that are a name", start: "other", roots: work, dir: "work/..odd", want: "work/..odd"},
		{name: "two dots that lead out", start: "other", roots: work, dir: "work/../other", wrong: "is not in a directory"},
		{name: "two dots behind a link", start: "other", roots: work, dir: "work/in/..", want: "work/sub"},
		{name: "two dots behind a link that leads out", start: "other", roots: work, dir: "work/out/../work", want: "work"},
		{name: "a link that leads out", start: "other", roots: work, dir: "work/out/secret", wrong: "is not in a directory"},
		{name: "a link that stays", start: "other", roots: work, dir: "work/in", want: "work/sub/deep"},
		{name: "a link that leads in", start: "other", roots: work, dir: "other/back/deep", want: "work/sub/deep"},
		{name: "not there", start: "work", dir: "work/gone", wrong: "does not exist"},
		{name: "a link to nothing", start: "work", dir: "work/dangles", wrong: "does not exist"},
		{name: "a link to itself", start: "work", dir: "work/loop", wrong: "cannot be looked up"},
		{name: "a file", start: "work", dir: "work/file", wrong: "is not a directory"},
		{name: "a link to a file", start: "work", dir: "work/tofile", wrong: "is not a directory"},
		{name: "below a file", start: "work", dir: "work/file/x", wrong: "is not a directory"},
		{name: "relative", start: "work", dir: "./work", wrong: "is not an absolute path"},
		{name: "NUL", start: "work", dir: "work/\x00", wrong: "cannot be looked up"},
		{name: "too long a name", start: "work", dir: "work/" + strings.Repeat("x", 300), wrong: "cannot be looked up"},
		{name: "started in /", start: "/", dir: "work", wrong: "is not in a directory"},
		{name: "started in /, none given", start: "/", wrong: "none given, and the worker's own is not in a directory"},
		{name: "started in a link to /", start: "everything", dir: "work", wrong: "is not in a directory"},
		{name: "started in /, home allowed", start: "/", dir: "home/me", want: "home/me"},
		{name: "all of it when asked", start: "work", roots: []string{"/"}, dir: "other", want: "other"},
		{name: "a relative root allows nothing", start: "work", roots: []string{"."}, dir: "work",
			wrong: "is not in a directory"},
		{name: "an empty root allows nothing", start: "work", roots: []string{""}, dir: "work",
			wrong: "is not in a directory"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := func(s string) string {
				if s == "" || s[0] == '/' || s[0] == '.' {
					return s
				}
				return base + "/" + s // filepath.Join would clean it
			}
			rules := launch.Rules{Dir: path(row.start)}
			for _, root := range row.roots {
				rules.Roots = append(rules.Roots, path(root))
			}
			early := rules.Outside(runs.Task{Attributes: runs.Attributes{Dir: path(row.dir)}})
			if want := strings.HasSuffix(row.wrong, "is not in a directory") ||
				strings.HasSuffix(row.wrong, "that this worker allows") || strings.HasSuffix(row.wrong, "does not exist") ||
				strings.HasSuffix(row.wrong, "is not a directory"); (early != nil) != want {
				t.Errorf("before submission: %v, want an error: %t", early, want)
			}
			got, err := rules.Directory(runs.Task{Attributes: runs.Attributes{Dir: path(row.dir)}})
			if row.wrong == "" {
				if err != nil || got != path(row.want) {
					t.Errorf("got %q, %v; want %q", got, err, path(row.want))
				}
				return
			}
			var field *runs.FieldError
			if !errors.As(err, &field) || field.Field != "workingDir" || !strings.HasPrefix(field.Problem, row.wrong) ||
				got != "" {
				t.Errorf("got %q, %v; want workingDir: %s", got, err, row.wrong)
			} else if strings.Contains(err.Error(), base) {
				t.Errorf("the error quotes a path: %v", err)
			}
		})
	}
}

func TestWithoutAHomeDirIsTheOnlyRoot(t *testing.T) {
	start, other := t.TempDir(), t.TempDir()
	for _, home := range []string{"", "relative", "/", "/does/not/exist"} {
		t.Setenv("HOME", home)
		rules := launch.Rules{Dir: start}
		if _, err := rules.Directory(runs.Task{Attributes: runs.Attributes{Dir: start}}); err != nil {
			t.Errorf("HOME=%q: %v", home, err)
		}
		if got, err := rules.Directory(runs.Task{Attributes: runs.Attributes{Dir: other}}); err == nil {
			t.Errorf("HOME=%q: got %q, want an error", home, got)
		}
	}
}

// Allowed roots that further ones are added to do not have the root of the file system, not by a link either.
func TestTheWholeFileSystemIsAllowedOnlyByName(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/", link); err != nil {
		t.Fatal(err)
	}
	more, other := t.TempDir(), t.TempDir()
	for _, root := range []string{"/", "//", link} {
		t.Setenv("HOME", root)
		rules := launch.Rules{Dir: root}
		rules.Roots = append(rules.Allowed(), more)
		if got, err := rules.Directory(runs.Task{Attributes: runs.Attributes{Dir: other}}); err == nil {
			t.Errorf("%s: %q allow %q", root, rules.Roots, got)
		}
		if _, err := rules.Directory(runs.Task{Attributes: runs.Attributes{Dir: more}}); err != nil {
			t.Errorf("%s: %v", root, err)
		}
	}
}

func TestUnreachableDirectoryIsAnError(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root has access to every directory")
	}
	base := t.TempDir()
	inner := filepath.Join(base, "closed", "inner")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(inner), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Dir(inner), 0o755) })
	if got, err := (launch.Rules{Dir: base}).Directory(runs.Task{Attributes: runs.Attributes{Dir: inner}}); err == nil ||
		!strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %q, %v; want permission denied", got, err)
	}
}

// A task that may not leave a directory does not, by a link either, wherever the roots are.
func TestATaskStaysWithinADirectory(t *testing.T) {
	t.Parallel()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"home/sub", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"home/out": "elsewhere", "home/in": "home/sub", "also": "home"} {
		if err := os.Symlink(filepath.Join(root, to), filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	r := launch.Rules{Dir: root, Roots: []string{root}}
	for _, within := range []string{"home", "also"} {
		for dir, want := range map[string]string{
			"home": "home", "home/sub": "home/sub", "also/sub": "home/sub", "home/in": "home/sub",
			"home/out": "", "elsewhere": "", "": "",
		} {
			got, err := r.Directory(runs.Task{
				Attributes: runs.Attributes{Dir: filepath.Join(root, dir)}, Within: filepath.Join(root, within),
			})
			if want != "" {
				want = filepath.Join(root, want)
			}
			if got != want || (err == nil) != (want != "") || err != nil && strings.Contains(err.Error(), root) {
				t.Errorf("%q within %q: %q, %v", dir, within, got, err)
			}
		}
	}
	if _, err := r.Directory(runs.Task{Attributes: runs.Attributes{Dir: root}, Within: root + "/none"}); err == nil {
		t.Error("within a directory that is not there")
	}
}
