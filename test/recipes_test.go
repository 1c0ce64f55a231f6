package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recipe returns the files and folders in the list of a recipe of CONTRIBUTING.md.
func recipe(t *testing.T, title string) []string {
	t.Helper()
	_, part, found := strings.Cut(text(t, "CONTRIBUTING.md"), "\n### "+title+"\n")
	part, _, _ = strings.Cut(part, "\n#")
	var files []string
	for _, m := range regexp.MustCompile(`(?m)^- .*?\]\(([^)#]+)\)`).FindAllStringSubmatch(part, -1) {
		files = append(files, m[1])
	}
	if !found || len(files) == 0 {
		t.Fatalf("there is no recipe for %s", title)
	}
	return files
}

// naming returns the files that people write by hand and that have a text, but tests and documents.
func naming(t *testing.T, what string) (files []string) {
	t.Helper()
	others := []string{".git", "node_modules", "bin", "dist", "testdata", "docs", "examples", "test"}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(others, d.Name()):
			return fs.SkipDir
		case d.IsDir(), strings.HasSuffix(path, "_test.go"), strings.Contains(path, ".test."),
			!slices.Contains([]string{".go", ".json", ".ts", ".tsx"}, filepath.Ext(path)):
			return nil
		}
		name := strings.TrimPrefix(filepath.ToSlash(path), "../")
		if name == "responder/rest/openapi.json" || name == "web/src/lib/schema.ts" {
			return nil
		}
		if strings.Contains(text(t, name), what) {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Who follows a recipe touches the files that it lists, and no other one: here by what is
// there already.
func TestRecipesNameTheirFiles(t *testing.T) {
	for _, title := range []string{
		"An agent", "A field of a run", "A field that callers ask for", "An operation", "A metric", "A bound",
	} {
		for _, file := range recipe(t, title) {
			if _, err := os.Stat(filepath.Join("..", file)); err != nil {
				t.Errorf("%s: %v", title, err)
			}
		}
	}

	field := recipe(t, "A field of a run")
	if len(field) > 4 {
		t.Errorf("a field needs %d files, not at most 4", len(field))
	}
	for _, file := range naming(t, "costUsd") { // of all runs that have ended
		shown := strings.HasPrefix(file, "web/src/") || file == "runs/brief.go" || file == "api/run.go"
		if !shown && !slices.Contains(field, file) {
			t.Errorf("a field is also in %s", file)
		}
	}
	if file := "runs/header.go"; !slices.Contains(naming(t, "agentVersion"), file) {
		t.Errorf("a field need not be in %s", file)
	}

	asked := recipe(t, "A field that callers ask for")
	if len(asked) > 6 {
		t.Errorf("a field that callers ask for needs %d files, not at most 6", len(asked))
	}
	for _, file := range naming(t, "skipGitRepoCheck") {
		other := strings.HasPrefix(file, "web/src/") || file == "responder/codexcloud/failure.go" // what a program prints
		if !other && !slices.Contains(asked, file) {
			t.Errorf("a field that callers ask for is also in %s", file)
		}
	}

	verb := recipe(t, "An operation")
	if len(verb) > 3 {
		t.Errorf("an operation needs %d files, not at most 3", len(verb))
	}
	for _, file := range slices.Concat(naming(t, "api.Seen"), naming(t, "OpSeen"), naming(t, `"markSeen"`)) {
		method := file == "responder/resolve.go" || file == "client/client.go" // of the service, and one to read well
		if !method && !slices.Contains(verb, file) {
			t.Errorf("an operation is also in %s", file)
		}
	}
}
