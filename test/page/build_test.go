package page

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/linesman/linesman/test/fixture"
)

// The checked-in files of the page are those that `make web` builds from its source.
func TestBuiltPageIsThatOfItsSource(t *testing.T) {
	requireBrowser(t)
	dir := fixture.Install(t, "web")
	out := t.TempDir()
	npm(t, dir, "exec", "--", "tsc")
	npm(t, dir, "exec", "--", "vite", "build", "--outDir", out, "--emptyOutDir")
	want, got := files(t, filepath.Join(dir, "dist")), files(t, out)
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(names, slices.Sorted(maps.Keys(got))) {
		t.Errorf("web/dist has %q, its source makes %q: run `make web`", names, slices.Sorted(maps.Keys(got)))
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("web/dist/%s is not that of its source: run `make web`", name)
		}
	}
}

func TestUnitsOfThePage(t *testing.T) {
	requireBrowser(t)
	npm(t, fixture.Install(t, "web"), "test")
}

func npm(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("npm %q: %v\n%s", args, err, out)
	}
}

// files are the contents of all files below a directory.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(os.DirFS(dir), name)
		all[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
