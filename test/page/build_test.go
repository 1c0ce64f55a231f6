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
	"github.com/linesman/linesman/test/fixture/browsertest"
)

// The checked-in files of the page, and the bundle of its unit tests, are those that `make web` builds from their source.
func TestBuiltPageIsThatOfItsSource(t *testing.T) {
	dir := fixture.Install(t, browsertest.Kind, "web")
	npm(t, dir, "exec", "--", "tsc")
	for name, config := range map[string]string{"dist": "vite.config.ts", "testdata": "units.config.ts"} {
		out := t.TempDir()
		npm(t, dir, "exec", "--", "vite", "build", "--config", config, "--outDir", out, "--emptyOutDir")
		compare(t, "web/"+name, files(t, filepath.Join(dir, name)), files(t, out))
	}
}

// compare compares the checked-in files of a directory with those that were built.
func compare(t *testing.T, dir string, want, got map[string]string) {
	t.Helper()
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(names, slices.Sorted(maps.Keys(got))) {
		t.Errorf("%s has %q, its source makes %q: run `make web`", dir, names, slices.Sorted(maps.Keys(got)))
	}
	for name, content := range want {
		if got[name] != content {
			t.Errorf("%s/%s is not that of its source: run `make web`", dir, name)
		}
	}
}

func TestUnitsOfThePage(t *testing.T) {
	fixture.Long(t, "runs in Node.js what make test runs in a JavaScript engine")
	npm(t, fixture.Install(t, browsertest.Kind, "web"), "test")
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
