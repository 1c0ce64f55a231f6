package main

import (
	"go/ast"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// impure is what would let a pure package look at the world.
var impure = []string{
	"context", "crypto/rand", "embed", "io/fs", "io/ioutil", "log", "log/slog", "math/rand", "math/rand/v2", "net",
	"net/http", "os",
	"os/exec", "os/signal", "os/user", "path/filepath", "plugin", "runtime", "sync", "sync/atomic", "syscall", "time",
}

func production(t *testing.T) []source {
	t.Helper()
	files, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(f source) bool { return !f.production() })
	if len(files) < 300 {
		t.Fatalf("only %d files", len(files))
	}
	return files
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// imports are all packages that a file imports.
func imports(f source) (paths []string) {
	for _, i := range f.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

func TestPackagesImportDownwardsOnly(t *testing.T) {
	g := graphOf(production(t))
	row := func(name string) int {
		r, ok := roomOf(name)
		if !ok {
			t.Errorf("%s has no row: say in rooms.go what it holds, and who may import it", name)
		}
		return slices.IndexFunc(Rooms, func(other Room) bool { return other.Path == r.Path })
	}
	for name, imported := range g {
		for _, ours := range imported {
			r, _ := roomOf(ours)
			if row(ours) <= row(name) {
				t.Errorf("%s imports %s, whose row is not below its own", name, ours)
			}
			if !matches(r.By, name) {
				t.Errorf("%s imports %s, and those who may are %v", name, ours, r.By)
			}
			if slices.Contains(Alone, name) && ours != "internal/files" {
				t.Errorf("%s imports %s, and stands alone", name, ours)
			}
		}
	}
	for _, r := range Rooms {
		at := strings.TrimSuffix(r.Path, "/*")
		if _, ok := g[at]; !ok {
			t.Errorf("%s has a row, and is not there", r.Path)
		}
	}
}

// At most sixteen rooms, with at most sixty arrows between them, and none of them in a circle.
func TestHouseStaysSmall(t *testing.T) {
	rooms := graphOf(production(t)).rooms()
	if len(rooms) > 16 || rooms.arrows() > 60 || rooms.chain() == nil {
		t.Errorf("%d rooms, %d arrows, longest chain %v", len(rooms), rooms.arrows(), rooms.chain())
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	beside := []string{"bin", "deploy", "dist", "docs", "examples", "test"}
	for _, e := range entries {
		_, is := rooms[e.Name()]
		if e.IsDir() && !is && !strings.HasPrefix(e.Name(), ".") && !slices.Contains(beside, e.Name()) {
			t.Errorf("%s is no room of the house", e.Name())
		}
	}
}

func TestCoreSeesNoClockNoFileAndNoNetwork(t *testing.T) {
	for _, f := range production(t) {
		if !matches(Pure, f.dir) {
			continue
		}
		for _, imported := range imports(f) {
			host, _, _ := strings.Cut(imported, "/")
			external := strings.Contains(host, ".") && !strings.HasPrefix(imported, module+"/")
			if slices.Contains(impure, imported) || external {
				t.Errorf("%s imports %s", f.dir, imported)
			}
		}
	}
}

// Packages that `make test` tests without the race detector, which takes five times as long with their tables and
// random inputs, cannot have a race: no goroutine, no channel, no lock.
func TestNothingRunsConcurrently(t *testing.T) {
	_, list, _ := strings.Cut(text(t, "test/run/main.go"), "var sequential = []string{")
	list, _, _ = strings.Cut(list, "}")
	names := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(list, -1)
	if len(names) < 4 {
		t.Fatal("test/run has no list of them")
	}
	var patterns []string
	for _, name := range names {
		patterns = append(patterns, name[1]+"/...")
	}
	files, err := read(root)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range files {
		if f.test || !matches(patterns, f.dir) {
			continue
		}
		found[f.dir] = true
		for _, imported := range imports(f) {
			if slices.Contains([]string{"sync", "sync/atomic", "golang.org/x/sync/errgroup"}, imported) {
				t.Errorf("%s/%s imports %s", f.dir, f.name, imported)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
				t.Errorf("%s/%s: a %T", f.dir, f.name, n)
			}
			return true
		})
	}
	if len(found) < len(names) {
		t.Errorf("of %d names there are %d packages", len(names), len(found))
	}
}

func TestOnlyTheBusSpeaksNATS(t *testing.T) {
	for _, f := range production(t) {
		for _, imported := range imports(f) {
			nats := strings.HasPrefix(imported, "github.com/nats-io/")
			if (nats || strings.HasPrefix(imported, "github.com/synadia-io/")) && !matches(SpeakNATS, f.dir) {
				t.Errorf("%s imports %s", f.dir, imported)
			}
			if f.dir == "cmd/linesman" && strings.HasPrefix(imported, module+"/bus") {
				t.Errorf("cmd/linesman imports %s: commands use daemon, doctor and client", imported)
			}
		}
	}
}

func TestPackagesPageShowsTheTable(t *testing.T) {
	const page = "docs/reference/packages.md"
	whole := "# Packages\n\nGenerated from test/house/rooms.go, which also says who may import each. " +
		"Pure: no clock, no file, no network.\n\n```\n" + Tree() + "```\n"
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(filepath.Join(root, page), []byte(whole), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text(t, page) != whole {
		t.Errorf("%s does not show rooms.go: UPDATE_DOCS=1 go test ./test/house", page)
	}
}

func TestEachDecisionIsInTheIndex(t *testing.T) {
	const page = "docs/reference/decisions.md"
	want, err := decisionsPage(filepath.Join(root, "docs", "decisions"), func(file string) (string, error) {
		b, err := os.ReadFile(file)
		first, _, _ := strings.Cut(string(b), "\n")
		return strings.TrimPrefix(first, "# "), err
	})
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(filepath.Join(root, page), []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text(t, page) != want {
		t.Errorf("%s is stale: UPDATE_DOCS=1 go test ./test/house", page)
	}
}
