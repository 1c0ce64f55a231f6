package runs

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
)

// Limits of what a record tells of a failure's place.
const (
	MaxLocations    = 5
	maxLocationFile = 160 // bytes of JSON
)

// Location is a place in a source file.
type Location struct {
	File   string `json:"file"`
	Line   int    `json:"line"`             // from 1
	Column int    `json:"column,omitempty"` // from 1; 0: not known
}

// place is a location, and where the output names it.
type place struct {
	Location
	at int
}

// locations are the first places in source files of the project that an
// output names, each once.
//
//	src/cart.ts:42:15   src/cart.ts(42,15): error   --> src/lib.rs:3:5
//	File "cart.py", line 12                         at com.example.Cart.add(Cart.java:12)
func locations(text []byte) []Location {
	found := append(find(text, ":"), find(text, pythonMark)...)
	slices.SortStableFunc(found, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	var list []Location
	for _, p := range found {
		list = addLocation(list, p.Location)
	}
	return list
}

// addLocation adds a place that is not listed yet. One line of a file is one
// place, whatever its column.
func addLocation(list []Location, l Location) []Location {
	for i := range list {
		if list[i].File == l.File && list[i].Line == l.Line {
			list[i].Column = cmp.Or(list[i].Column, l.Column)
			return list
		}
	}
	if len(list) >= MaxLocations {
		return list
	}
	return append(list, l)
}

// pythonMark stands between the file and the line that Python prints.
const pythonMark = `", line `

// find reads the places of one form, wherever text has its mark.
func find(text []byte, mark string) []place {
	var found []place
	for at := 0; len(found) < MaxLocations; at += len(mark) {
		i := bytes.Index(text[at:], []byte(mark))
		if i < 0 {
			break
		}
		at += i
		var l Location
		var ok bool
		if mark == pythonMark {
			l, ok = quoted(text, at)
		} else {
			l, ok = colon(text, at)
		}
		if ok && !slices.ContainsFunc(found, func(p place) bool { return p.Location == l }) {
			found = append(found, place{l, at})
		}
	}
	return found
}

// colon reads the place whose colon is at: PATH:LINE, PATH:LINE:COLUMN or
// PATH(LINE,COLUMN):.
func colon(text []byte, at int) (Location, bool) {
	var l Location
	end := at
	if behind := text[at+1:]; len(behind) > 0 && digit(behind[0]) {
		n := digits(behind)
		l.Line = number(behind[:n])
		if rest := behind[n:]; len(rest) > 1 && rest[0] == ':' && digit(rest[1]) {
			l.Column = number(rest[1 : 1+digits(rest[1:])])
		}
	} else if at > 0 && text[at-1] == ')' {
		open := at - 1
		for open > 0 && at-open < 24 && text[open] != '(' {
			open--
		}
		if text[open] != '(' {
			return l, false
		}
		inside := text[open+1 : at-1]
		n := digits(inside)
		if n == 0 {
			return l, false
		}
		l.Line = number(inside[:n])
		if rest := inside[n:]; len(rest) > 1 && rest[0] == ',' && digits(rest[1:]) == len(rest)-1 {
			l.Column = number(rest[1:])
		} else if len(rest) > 0 {
			return l, false
		}
		end = open
	}
	if l.Line == 0 {
		return l, false
	}
	start := end
	for start > 0 && end-start <= maxLocationFile {
		r, n := utf8.DecodeLastRune(text[:start])
		if !ofPath(r) {
			break
		}
		start -= n
	}
	if start > 0 && text[start-1] == '(' && ofLibrary(text[:start-1]) {
		return l, false
	}
	l.File = file(text[start:end])
	return l, l.File != ""
}

// quoted reads the place whose `", line ` is at, as Python prints it.
func quoted(text []byte, at int) (Location, bool) {
	start := bytes.LastIndexByte(text[max(at-maxLocationFile, 0):at], '"')
	if start < 0 {
		return Location{}, false
	}
	path := text[max(at-maxLocationFile, 0)+start+1 : at]
	behind := text[at+len(pythonMark):]
	l := Location{File: file(path), Line: number(behind[:digits(behind)])}
	return l, l.File != "" && l.Line > 0
}

// ofLibrary reports whether the method that text ends with, in a stack trace
// of Java, is not the project's own.
func ofLibrary(text []byte) bool {
	text = text[max(len(text)-256, 0):]
	text = text[bytes.LastIndexAny(text, " \t\n")+1:]
	for _, name := range []string{"java.", "javax.", "jdk.", "sun.", "org.junit.", "org.opentest4j.", "org.testng.", "org.apache.maven."} {
		if has(text, name) {
			return true
		}
	}
	return false
}

func ofPath(r rune) bool {
	switch r {
	case '/', '\\', '.', '_', '-', '+', '@', '~', '$':
		return true
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// foreign are parts of paths of code that is not the project's own.
var foreign = []string{
	"node_modules/", "site-packages/", "dist-packages/", "/lib/python", "/usr/local/go/src/", "/pkg/mod/", "/rustc/", ".cargo/registry/", ".rustup/",
}

// file is the path of a source file of the project, or "" where it is none.
func file(path []byte) string {
	dot := bytes.LastIndexByte(path, '.')
	if dot <= 0 || path[dot-1] == '/' || !source(path[dot+1:]) {
		return ""
	}
	if has(path, "//") { // of file:///path
		path = bytes.TrimLeft(path, "/")
		path = append([]byte{'/'}, path...)
	}
	s := strings.TrimPrefix(strings.ToValidUTF8(string(path), ""), "./")
	for _, part := range foreign {
		if strings.Contains(s, part) {
			return ""
		}
	}
	if bounds.StringSize(s) > maxLocationFile {
		return ""
	}
	return s
}

// source reports whether a name that ends with this is a source file's.
func source(ending []byte) bool {
	switch string(ending) {
	case "ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs", "vue", "svelte", "py", "pyi", "go", "rs", "java", "kt", "kts", "scala", "groovy",
		"c", "cc", "cpp", "cxx", "h", "hh", "hpp", "m", "mm", "cs", "fs", "swift", "rb", "php", "ex", "exs", "erl", "hs", "ml", "lua", "pl", "dart",
		"zig", "sh", "bash", "sql", "css", "scss", "html", "proto":
		return true
	}
	return false
}

// digits is how many digits b begins with.
func digits(b []byte) int {
	n := 0
	for n < len(b) && digit(b[n]) {
		n++
	}
	return n
}
