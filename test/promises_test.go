package test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var (
	promise  = regexp.MustCompile(`(?m)^(\d+)\. \*\*`)
	proof    = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	function = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(t \*testing\.T\)`)
)

// Every test that docs/promises.md names is there, and every promise has one.
func TestPromisesHaveTheirProofs(t *testing.T) {
	b, err := os.ReadFile("../docs/promises.md")
	if err != nil {
		t.Fatal(err)
	}
	page, _, _ := strings.Cut(string(b), "## Not promised")
	have := map[string]bool{}
	err = filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"node_modules", ".git", "bin"}, d.Name()) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		code, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range function.FindAllSubmatch(code, -1) {
			have[string(m[1])] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range proof.FindAllStringSubmatch(page, -1) {
		if !have[m[1]] {
			t.Errorf("there is no test %s", m[1])
		}
	}
	starts := promise.FindAllStringSubmatchIndex(page, -1)
	if len(starts) < 15 {
		t.Fatalf("only %d promises", len(starts))
	}
	for i, at := range starts {
		if number := page[at[2]:at[3]]; number != strconv.Itoa(i+1) {
			t.Errorf("promise %d has number %s", i+1, number)
		}
		end := len(page)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		if !strings.Contains(page[at[0]:end], "Proof: ") {
			t.Errorf("promise %d has no proof", i+1)
		}
	}
}
