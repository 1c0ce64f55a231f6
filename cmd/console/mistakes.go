package console

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// suggestion is a parse error with what kong takes for the intended word.
var suggestion = regexp.MustCompile(`^(.* (\S+)), did you mean (?:one of )?(.*)\?$`)

// closer is a parse error of kong whose suggestions are close to the word that was typed.
func closer(err error) error {
	m := suggestion.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	var quoted []string
	for _, word := range Close(m[2], strings.Split(strings.ReplaceAll(m[3], `"`, ""), ", ")) {
		quoted = append(quoted, strconv.Quote(word))
	}
	switch len(quoted) {
	case 0:
		return errors.New(m[1])
	case 1:
		return errors.New(m[1] + ", did you mean " + quoted[0] + "?")
	}
	return errors.New(m[1] + ", did you mean one of " + strings.Join(quoted, ", ") + "?")
}

// What a parse error of kong names.
var (
	namedFlag  = regexp.MustCompile(`^(?:unknown flag )?(--?[A-Za-z0-9][A-Za-z0-9-]*)`)
	unexpected = regexp.MustCompile(`(?s)^unexpected argument (.*?)(?:, did you mean .*)?$`)
)

// isUnexpected reports whether a parse error is about an argument that no command takes.
func isUnexpected(err error) bool { return unexpected.MatchString(err.Error()) }

// without is args without what a parse error names: an argument, or a flag
// with its value, if the grammar has a flag of that name that takes one.
func without(args []string, model *kong.Application, err error) []string {
	if m := unexpected.FindStringSubmatch(err.Error()); m != nil {
		for i, arg := range args {
			if arg == m[1] && (i == 0 || !takesValue(model.Node, args[i-1])) { // else it is a value
				return slices.Delete(slices.Clone(args), i, i+1)
			}
		}
		return args
	}
	m := namedFlag.FindStringSubmatch(err.Error())
	if m == nil {
		return args
	}
	for i, arg := range args {
		name, _, joined := strings.Cut(arg, "=")
		switch {
		case arg == "--":
			return args
		case name != m[1]:
		case joined, !takesValue(model.Node, name):
			return slices.Delete(slices.Clone(args), i, i+1)
		default:
			return slices.Delete(slices.Clone(args), i, min(i+2, len(args)))
		}
	}
	return args
}

// takesValue reports whether any command has a flag of this name that wants a
// value.
func takesValue(node *kong.Node, name string) bool {
	for _, f := range node.Flags {
		if "--"+f.Name == name && !f.IsBool() {
			return true
		}
	}
	return slices.ContainsFunc(node.Children, func(n *kong.Node) bool { return takesValue(n, name) })
}

// Close returns those of candidates that a person may have meant by word: one or two letters
// are wrong, missing, too many or exchanged, or it is the beginning of one. Of a short word
// less may be wrong.
func Close(word string, candidates []string) (close []string) {
	most := min((len(word)-1)/2, 2)
	for _, c := range candidates {
		if distance(word, c) <= most || len(word) > 2 && len(c) > len(word) && c[:len(word)] == word {
			close = append(close, c)
		}
	}
	return close
}

// distance is the number of bytes to insert, remove, replace or exchange with the next one,
// to make b of a (optimal string alignment).
func distance(a, b string) int {
	before, last := []int(nil), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := []int{i + 1}
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			d := min(row[j]+1, last[j+1]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				d = min(d, before[j-1]+1)
			}
			row = append(row, d)
		}
		before, last = last, row
	}
	return last[len(b)]
}
