package test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

func TestLinksResolve(t *testing.T) {
	found := 0
	for name, page := range fixture.Documents(t, "..") {
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			target, anchor, _ := strings.Cut(m[1], "#")
			to := name
			if target != "" {
				to = filepath.Join(filepath.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join("..", to)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
			} else if anchor != "" && !slices.Contains(anchors(text(t, to)), anchor) {
				t.Errorf("%s: there is no #%s in %s", name, anchor, to)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links", found)
	}
}

// anchors are those of a page's headings, as GitHub makes them.
func anchors(page string) []string {
	var all []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1]))
	}
	return all
}

var (
	testName  = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w+`)
	testDecl  = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)[A-Z]\w*)\(`)
	linkedTo  = regexp.MustCompile("\\[`((?:Test|Fuzz|Benchmark)\\w+)`\\]\\(([^)]+)\\)")
	otherTest = regexp.MustCompile("`(SecretsStay|ChunksDoNotMatter|RecordAgreesWithEvents)`")
)

func TestNamedTestsExist(t *testing.T) {
	declared := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"node_modules", ".git", "bin"}, d.Name()) {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range testDecl.FindAllStringSubmatch(text(t, path[len("../"):]), -1) {
				declared[m[1]] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	contract := text(t, "test/fixture/backendtest/backendtest.go")
	n := 0
	for name, page := range fixture.Documents(t, "..") {
		for _, test := range testName.FindAllString(page, -1) {
			if n++; !declared[test] {
				t.Errorf("%s: there is no %s", name, test)
			}
		}
		for _, m := range linkedTo.FindAllStringSubmatch(page, -1) {
			if to := filepath.Join(filepath.Dir(name), m[2]); !strings.Contains(text(t, to), "func "+m[1]+"(") {
				t.Errorf("%s: %s is not in %s", name, m[1], to)
			}
		}
		for _, m := range otherTest.FindAllStringSubmatch(page, -1) {
			if !strings.Contains(contract, `t.Run("`+m[1]+`"`) {
				t.Errorf("%s: the contract of backends has no %s", name, m[1])
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d tests are named", n)
	}
}

func TestUsersAreDescribed(t *testing.T) {
	i := up(t, filepath.Join(install(t, "./cmd/linesman"), "linesman"), t.TempDir())
	var described []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (?:inside|public|readers) \\|").FindAllStringSubmatch(
		text(t, "docs/operations.md"), -1) {
		described = append(described, m[1])
	}
	slices.Sort(described)
	if users := slices.Sorted(maps.Keys(i.credentials)); !slices.Equal(described, users) {
		t.Errorf("docs/operations.md has the users %q, the server %q", described, users)
	}
}

// Each verb of the NATS service is in the table of docs/subjects.md.
func TestVerbsAreDescribed(t *testing.T) {
	var described, known []string
	for _, m := range regexp.MustCompile("(?m)^\\| `linesman\\.api\\.([a-z_]+)` \\|").FindAllStringSubmatch(text(t,
		"docs/subjects.md"), -1) {
		described = append(described, m[1])
	}
	for _, v := range natsapi.VerbEndpoints(nil) {
		known = append(known, v.Name)
	}
	slices.Sort(described)
	slices.Sort(known)
	if !slices.Equal(described, known) {
		t.Errorf("docs/subjects.md has the verbs %v, the service %v", described, known)
	}
}

// What the header of a record has beside a run, and what it lacks, is in docs/subjects.md.
func TestFieldsOfAHeaderAreDescribed(t *testing.T) {
	_, told, _ := strings.Cut(text(t, "docs/subjects.md"), "`Linesman-Run` is")
	told, _, _ = strings.Cut(told, "\n\n")
	header := runs.Header{
		Summary: runs.Summary{Position: new(1), ContinuedBy: "a", WorkerLost: true, Unseen: true},
		Work:    1, Asked: true, Steps: &runs.Progress{},
	}
	var record runs.Record
	var always map[string]any
	if err := json.Unmarshal([]byte(record.Header().Text()), &always); err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal([]byte(header.Text()), &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		if _, is := always[name]; !is && !strings.Contains(told, "`"+name+"`") {
			t.Errorf("docs/subjects.md does not tell of %s", name)
		}
	}
}

func TestDecisionsAreNumberedAndShort(t *testing.T) {
	entries, err := os.ReadDir("../docs/decisions")
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range entries {
		page := text(t, "docs/decisions/"+e.Name())
		if !strings.HasPrefix(e.Name(), fmt.Sprintf("%04d-", i+1)) || !strings.HasPrefix(page, fmt.Sprintf("# %d. ", i+1)) {
			t.Errorf("%s: not the next number", e.Name())
		}
		for _, part := range []string{"**Context.**", "**Decision.**", "**Consequence.**"} {
			if strings.Count(page, part) != 1 {
				t.Errorf("%s: needs one %s", e.Name(), part)
			}
		}
		if n := strings.Count(page, "\n"); n > 30 {
			t.Errorf("%s: %d lines, want a short page", e.Name(), n)
		}
	}
}
