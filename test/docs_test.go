package test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/natsapi"
	"github.com/linesman/linesman/responder/tools"
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

// The text of an example or a document names no command that does not exist.
func TestNamedCommandsExist(t *testing.T) {
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\S+)`).FindAllStringSubmatch(text(t, "docs/reference/commands.md"), -1) {
		known[m[1]] = true
	}
	named, n := regexp.MustCompile("`linesman ([a-z][a-z-]*)"), 0
	for _, dir := range []string{"examples", "docs", "deploy"} {
		err := filepath.WalkDir("../"+dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "node_modules":
				return fs.SkipDir
			case !d.Type().IsRegular():
				return nil
			}
			for _, m := range named.FindAllStringSubmatch(text(t, path[len("../"):]), -1) {
				if n++; !known[m[1]] {
					t.Errorf("%s: there is no command linesman %s", path, m[1])
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 200 {
		t.Errorf("only %d commands are named", n)
	}
}

// The table of inboxes in docs/security.md has all users.
func TestUsersAreDescribed(t *testing.T) {
	i := up(t, filepath.Join(install(t, "./cmd/linesman"), "linesman"), t.TempDir())
	_, table, _ := strings.Cut(text(t, "docs/security.md"), "\n| Inbox of |")
	table, _, _ = strings.Cut(table, "\n\n")
	var described []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\|").FindAllStringSubmatch(table, -1) {
		described = append(described, m[1])
	}
	slices.Sort(described)
	if users := slices.Sorted(maps.Keys(i.credentials)); !slices.Equal(described, users) {
		t.Errorf("docs/security.md has the users %q, the server %q", described, users)
	}
}

// docs/reference/nats.md has the operations, and docs/subjects.md the calls of tools.
func TestVerbsAreDescribed(t *testing.T) {
	page := "# Requests over NATS\n\nGenerated by UPDATE_DOCS=1 go test ./test. [Subjects](../subjects.md#requests) " +
		"explains requests and errors; types without a package are of [api](../../api).\n\n" +
		"| subject | what | request, outcome | over HTTP, scope |\n|---|---|---|---|\n"
	name := func(t reflect.Type) string {
		return strings.TrimPrefix(strings.TrimPrefix(t.String(), "*"), "api.")
	}
	var service *responder.Service
	for _, op := range service.Operations() {
		route := ""
		if op.Route != "" {
			route = "`" + op.Route + "`, " + op.Scope
		}
		page += fmt.Sprintf("| `linesman.api.%s` | %s | `%s`, `%s` | %s |\n", op.Name, op.About,
			name(reflect.TypeOf(op.New())), name(op.Outcome), route)
	}
	const path = "docs/reference/nats.md"
	if os.Getenv("UPDATE_DOCS") != "" {
		if err := os.WriteFile(filepath.Join("..", path), []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if text(t, path) != page {
		t.Errorf("%s does not show the operations: UPDATE_DOCS=1 go test ./test", path)
	}
	for _, v := range natsapi.CallEndpoints(&tools.Set{}) {
		if !strings.Contains(text(t, "docs/subjects.md"), "`linesman.api."+v.Name+"`") {
			t.Errorf("docs/subjects.md does not have %s", v.Name)
		}
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
