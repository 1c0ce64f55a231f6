package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/linesman/linesman"

// source is a Go file.
type source struct {
	dir, name string // dir is the package's path below the root of the module
	test      bool   // _test.go
	lines     int
	ast       *ast.File
}

// production reports whether a file is part of what is released.
func (s source) production() bool {
	return !s.test && !slices.Contains([]string{"test", "examples", "deploy"}, topOf(s.dir))
}

// imports are the packages of this module that the file imports, by the name that they have there.
func (s source) imports() map[string]string {
	all := map[string]string{}
	for _, i := range s.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		ours, ok := strings.CutPrefix(p, module+"/")
		if !ok {
			continue
		}
		name := path.Base(ours)
		if i.Name != nil {
			name = i.Name.Name
		}
		all[name] = ours
	}
	return all
}

// read returns all Go files below root, whatever system they are for.
func read(root string) ([]source, error) {
	var all []source
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"node_modules", "testdata", "bin"}, d.Name())
			if file != root && hidden {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parse: %w", err)
		}
		dir, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		all = append(all, source{filepath.ToSlash(dir), d.Name(), strings.HasSuffix(file, "_test.go"),
			set.File(parsed.Pos()).LineCount(), parsed})
		return nil
	})
	return all, err
}

// graph is which packages of the production code each of them imports.
type graph map[string][]string

func graphOf(files []source) graph {
	g := graph{}
	for _, f := range files {
		if !f.production() {
			continue
		}
		if _, ok := g[f.dir]; !ok { // it may import nothing
			g[f.dir] = nil
		}
		for _, ours := range f.imports() {
			if !slices.Contains(g[f.dir], ours) {
				g[f.dir] = append(g[f.dir], ours)
			}
		}
	}
	return g
}

// rooms is the graph of the top-level folders.
func (g graph) rooms() graph {
	top := graph{}
	for p, imported := range g {
		from := topOf(p)
		if _, ok := top[from]; !ok {
			top[from] = nil
		}
		for _, i := range imported {
			if to := topOf(i); to != from && to != "test" && !slices.Contains(top[from], to) {
				top[from] = append(top[from], to)
			}
		}
	}
	return top
}

func (g graph) arrows() int {
	n := 0
	for _, to := range g {
		n += len(to)
	}
	return n
}

// chain is the longest way along imports, from the package that imports to the one that is
// imported. In a circle it is empty.
func (g graph) chain() []string {
	longest, open := map[string][]string{}, map[string]bool{}
	circle := false
	var walk func(p string) []string
	walk = func(p string) []string {
		if found, ok := longest[p]; ok {
			return found
		}
		if circle = circle || open[p]; circle {
			return nil
		}
		open[p] = true
		var best []string
		for _, i := range g[p] {
			if way := walk(i); len(way) > len(best) {
				best = way
			}
		}
		open[p] = false
		longest[p] = append([]string{p}, best...)
		return longest[p]
	}
	var best []string
	for p := range g {
		if way := walk(p); len(way) > len(best) || len(way) == len(best) && slices.Compare(way, best) < 0 {
			best = way
		}
	}
	if circle {
		return nil
	}
	return best
}
