// Command house prints how large the house is and how its rooms hang together: rooms and
// arrows, lines, exported names, and in how many places one thing has a form of its own.
//
//	go run ./test/house
//
// It reads the files of the checkout in the current directory. rooms.go has the table of the
// rooms, which the tests of this package hold against the code.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	if err := report(os.Stdout, "."); err != nil {
		fmt.Fprintln(os.Stderr, "house:", err)
		os.Exit(1)
	}
}

func report(w io.Writer, root string) error {
	files, err := read(root)
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(what string, value any, more ...string) {
		fmt.Fprintf(t, "%s\t%v\t%s\n", what, value, strings.Join(more, " "))
	}

	all := graphOf(files)
	rooms := all.rooms()
	row("rooms", len(rooms))
	row("arrows between rooms", rooms.arrows())
	row("longest chain of packages", len(all.chain()), strings.Join(all.chain(), " → "))
	row("packages", len(all))

	production, tests := 0, 0
	for _, f := range files {
		switch room := topOf(f.dir); {
		case f.production():
			production += f.lines
		case f.test, room == "test":
			tests += f.lines
		}
	}
	row("lines of production Go", production)
	row("lines of tests", tests, "with test/")
	made, err := generated(root)
	if err != nil {
		return err
	}
	row("lines that are generated", made, "the reference, OpenAPI, its types of the page")

	names, inside := exported(files)
	row("exported names", names, fmt.Sprintf("%d of them are used only in their package", inside))
	runs, tasks := shapes(files, ofRun, 6), shapes(files, ofTask, 6)
	row("shapes of a run", len(runs), runs...)
	row("shapes of a task", len(tasks), tasks...)
	for _, field := range [][]string{{"model"}, {"governance", "governanceContext", "governance_context"}} {
		n, err := naming(root, files, field)
		if err != nil {
			return err
		}
		row("files that name a run's "+field[0], n, "Go, the page's source; by hand")
	}
	words, err := words(root)
	if err != nil {
		return err
	}
	row("words of documents", words, "by hand, without decisions")
	return t.Flush()
}

// isGenerated reports whether a file, by its path below root, is written by a program.
func isGenerated(path string) bool {
	return strings.HasPrefix(path, "docs/reference/") || path == "responder/rest/openapi.json" ||
		path == "web/src/lib/schema.ts"
}

func generated(root string) (lines int, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(root, path)
		if err != nil || d.IsDir() || !isGenerated(filepath.ToSlash(below)) {
			return err
		}
		b, err := os.ReadFile(path)
		lines += bytes.Count(b, []byte("\n"))
		return err
	})
	return lines, err
}

// exported counts the exported names of packages, without methods and fields, and those that no
// other package uses.
func exported(files []source) (names, inside int) {
	type name struct{ pkg, name string }
	all, used := map[name]bool{}, map[name]bool{}
	for _, f := range files {
		if f.production() {
			for _, d := range f.ast.Decls {
				for _, n := range declared(d) {
					if ast.IsExported(n) {
						all[name{f.dir, n}] = true
					}
				}
			}
		}
		imports := f.imports()
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && imports[x.Name] != "" {
					used[name{imports[x.Name], s.Sel.Name}] = true
				}
			}
			return true
		})
	}
	for n := range all {
		if !used[n] {
			inside++
		}
	}
	return len(all), inside
}

// declared are the names of a declaration.
func declared(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// What a run, and what a task has: by all names that a field of it has had.
var (
	ofRun = []string{"agent|kind", "state", "dir|workingdir", "thread|threadid", "labels", "model", "title", "reason",
		"source", "worker", "activity", "tokens", "progress|percent", "started|startedat", "ended|endedat", "queue"}
	ofTask = []string{"agent|kind", "prompt|task", "model", "title", "dir|workingdir", "thread|threadid|resume", "mode",
		"labels", "schema|outputschema", "env|envpolicy|environment", "skipgit|skipgitrepocheck", "governance"}
)

// shapes are the structs of production code with at least so many fields of something.
func shapes(files []source, of []string, least int) (names []string) {
	for _, f := range files {
		if !f.production() {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			t, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			s, ok := t.Type.(*ast.StructType)
			if !ok {
				return true
			}
			var has []string
			for _, field := range s.Fields.List {
				for _, n := range field.Names {
					has = append(has, strings.ToLower(n.Name))
				}
			}
			found := 0
			for _, one := range of {
				if slices.ContainsFunc(strings.Split(one, "|"), func(n string) bool { return slices.Contains(has, n) }) {
					found++
				}
			}
			if found >= least {
				names = append(names, f.dir+"."+t.Name.Name)
			}
			return true
		})
	}
	slices.Sort(names)
	return names
}

// naming counts the files that name a field in one of its forms.
func naming(root string, files []source, forms []string) (n int, err error) {
	word := regexp.MustCompile(`(?i)\b(` + strings.Join(forms, "|") + `)\b`)
	for _, f := range files {
		if !f.production() {
			continue
		}
		found := false
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				found = found || slices.ContainsFunc(forms, func(f string) bool { return strings.EqualFold(f, n.Name) })
			case *ast.BasicLit:
				found = found || n.Kind == token.STRING && word.MatchString(n.Value) && !strings.Contains(n.Value, " ")
			}
			return !found
		})
		if found {
			n++
		}
	}
	err = filepath.WalkDir(filepath.Join(root, "web", "src"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.Contains(d.Name(), ".test.") {
			return err
		}
		if below, err := filepath.Rel(root, path); err != nil || isGenerated(filepath.ToSlash(below)) {
			return err
		}
		b, err := os.ReadFile(path)
		if err == nil && word.Match(b) {
			n++
		}
		return err
	})
	return n, err
}

// words counts those of the documents that people write and read.
func words(root string) (n int, err error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return 0, err
	}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		b, err := os.ReadFile(page)
		if err != nil {
			return 0, err
		}
		n += len(bytes.Fields(b))
	}
	return n, nil
}
