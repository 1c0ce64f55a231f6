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

// Limits of the source locations in a record.
const (
	maxLocations    = 5
	maxLocationFile = 160 // bytes of JSON
)

// Location is a position in a source file.
type Location struct {
	File   string `json:"file"`
	Line   int    `json:"line"`             // from 1
	Column int    `json:"column,omitempty"` // from 1; absent: unknown
}

// match is a location that was found in the output.
type match struct {
	Location
	at int // offset in the output
}

// locations returns the first locations in text that are in source files of the
// project, without duplicates.
//
//	src/cart.ts:42:15   src/cart.ts(42,15): error   --> src/lib.rs:3:5
//	File "cart.py", line 12                         at com.example.Cart.add(Cart.java:12)
func locations(text []byte) []Location {
	found := append(findLocations(text, ":"), findLocations(text, pythonMark)...)
	slices.SortStableFunc(found, func(a, b match) int { return cmp.Compare(a.at, b.at) })
	var list []Location
	for _, m := range found {
		list = addLocation(list, m.Location)
	}
	return list
}

// addLocation adds l to list if it is new. Locations with the same file and line
// are duplicates, even if the columns differ.
func addLocation(list []Location, l Location) []Location {
	for i := range list {
		if list[i].File == l.File && list[i].Line == l.Line {
			list[i].Column = cmp.Or(list[i].Column, l.Column)
			return list
		}
	}
	if len(list) >= maxLocations {
		return list
	}
	return append(list, l)
}

// pythonMark is the text between file and line in a Python stack trace.
const pythonMark = `", line `

// findLocations returns the locations of one format, which has a mark in it.
func findLocations(text []byte, mark string) []match {
	var found []match
	for at := 0; len(found) < maxLocations; at += len(mark) {
		i := bytes.Index(text[at:], []byte(mark))
		if i < 0 {
			break
		}
		at += i
		var l Location
		var ok bool
		if mark == pythonMark {
			l, ok = pythonLocation(text, at)
		} else {
			l, ok = colonLocation(text, at)
		}
		if ok && !slices.ContainsFunc(found, func(m match) bool { return m.Location == l }) {
			found = append(found, match{l, at})
		}
	}
	return found
}

// colonLocation parses the location whose colon is text[at]: PATH:LINE,
// PATH:LINE:COLUMN or PATH(LINE,COLUMN):.
func colonLocation(text []byte, at int) (Location, bool) {
	var l Location
	end := at
	if tail := text[at+1:]; len(tail) > 0 && isDigit(tail[0]) {
		n := countDigits(tail)
		l.Line = parseNumber(tail[:n])
		if rest := tail[n:]; len(rest) > 1 && rest[0] == ':' {
			l.Column = parseNumber(rest[1 : 1+countDigits(rest[1:])])
		}
	} else if at > 0 && text[at-1] == ')' {
		from := max(at-24, 0)
		if end = from + bytes.LastIndexByte(text[from:at], '('); end < from {
			return l, false
		}
		line, column, found := bytes.Cut(text[end+1:at-1], []byte(","))
		if countDigits(line) < len(line) || countDigits(column) < len(column) || found && len(column) == 0 {
			return l, false
		}
		l.Line, l.Column = parseNumber(line), parseNumber(column)
	}
	if l.Line == 0 {
		return l, false
	}
	start := end
	for start > 0 && end-start <= maxLocationFile {
		r, n := rune(text[start-1]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeLastRune(text[:start])
		}
		if !isPathRune(r) {
			break
		}
		start -= n
	}
	if start > 0 && text[start-1] == '(' && isLibraryMethod(text[:start-1]) {
		return l, false
	}
	l.File = sourcePath(text[start:end])
	return l, l.File != ""
}

// pythonLocation parses the location whose [pythonMark] begins at text[at].
func pythonLocation(text []byte, at int) (Location, bool) {
	start := bytes.LastIndexByte(text[max(at-maxLocationFile, 0):at], '"')
	if start < 0 {
		return Location{}, false
	}
	path := text[max(at-maxLocationFile, 0)+start+1 : at]
	tail := text[at+len(pythonMark):]
	l := Location{File: sourcePath(path), Line: parseNumber(tail[:countDigits(tail)])}
	return l, l.File != "" && l.Line > 0
}

// isLibraryMethod reports whether text, in a Java stack trace, ends with the
// name of a library method.
func isLibraryMethod(text []byte) bool {
	text = text[max(len(text)-256, 0):]
	text = text[bytes.LastIndexAny(text, " \t\n")+1:]
	for _, name := range []string{"java.", "javax.", "jdk.", "sun.", "org.junit.", "org.opentest4j.", "org.testng.",
		"org.apache.maven."} {
		if hasPrefix(text, name) {
			return true
		}
	}
	return false
}

func isPathRune(r rune) bool {
	if r < utf8.RuneSelf && isWordChar(byte(r)) { // often
		return true
	}
	switch r {
	case '/', '\\', '.', '_', '-', '+', '@', '~', '$':
		return true
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// libraryPaths are parts of the paths of library code.
var libraryPaths = []string{
	"node_modules/", "site-packages/", "dist-packages/", "/lib/python", "/usr/local/go/src/", "/pkg/mod/", "/rustc/",
	".cargo/registry/", ".rustup/",
}

// sourcePath returns path if it is a source file of the project, else "".
func sourcePath(path []byte) string {
	dot := bytes.LastIndexByte(path, '.')
	if dot <= 0 || path[dot-1] == '/' || !isSourceExtension(path[dot+1:]) {
		return ""
	}
	if hasPrefix(path, "//") { // from file:///path
		path = bytes.TrimLeft(path, "/")
		path = append([]byte{'/'}, path...)
	}
	s := strings.TrimPrefix(strings.ToValidUTF8(string(path), ""), "./")
	for _, part := range libraryPaths {
		if strings.Contains(s, part) {
			return ""
		}
	}
	if bounds.StringSize(s) > maxLocationFile {
		return ""
	}
	return s
}

// isSourceExtension reports whether files with this extension are source files.
func isSourceExtension(extension []byte) bool {
	switch string(extension) {
	case "ts", "tsx", "mts", "cts", "js", "jsx", "mjs", "cjs", "vue", "svelte", "py", "pyi", "go", "rs", "java", "kt",
		"kts", "scala", "groovy", "c", "cc", "cpp", "cxx", "h", "hh", "hpp", "m", "mm", "cs",
		"fs", "swift", "rb", "php",
		"ex", "exs", "erl", "hs", "ml", "lua", "pl", "dart", "zig", "sh", "bash", "sql", "css", "scss", "html", "proto":
		return true
	}
	return false
}

// countDigits returns the number of digits at the beginning of b.
func countDigits(b []byte) int {
	n := 0
	for n < len(b) && isDigit(b[n]) {
		n++
	}
	return n
}
