package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"
)

// parseAll reads a command line. The error reports all mistakes at once. The context then has
// what could be read nevertheless, if anything; whole reports that it has all but what the
// mistakes name. It ends once helped is set, which the parser does when it has printed help.
// A parser keeps what it has parsed, so newParser is called for each attempt.
func parseAll(
	args []string, newParser func() (*kong.Kong, error), helped *bool,
) (kctx *kong.Context, whole bool, err error) {
	// kong stops at the first mistake. Remove the argument that it names and parse
	// again, to find the next one.
	var mistakes []error
	for {
		k, err := newParser()
		if err != nil {
			return nil, false, err
		}
		kctx, err := k.Parse(args)
		if err == nil || *helped {
			return kctx, err == nil, errors.Join(mistakes...)
		}
		var trace *kong.ParseError
		if !errors.As(err, &trace) {
			return nil, false, errors.Join(append(mistakes, err)...)
		}
		// Some are consequences of another mistake: an argument that was the value of
		// an unknown flag, and a missing command.
		follows := isUnexpected(err) || strings.HasPrefix(err.Error(), "expected one of")
		if len(mistakes) == 0 || !follows {
			mistakes = append(mistakes, closer(err))
		}
		rest := without(args, trace)
		if noCommand := trace.Context.Selected() == nil; len(rest) == len(args) || noCommand && isUnexpected(err) {
			return trace.Context, false, errors.Join(mistakes...)
		}
		args = rest
	}
}

// closer is a parse error of kong whose suggestions are close to the word that was typed.
func closer(err error) error {
	const before, several = ", did you mean ", "one of "
	text := err.Error()
	at := strings.LastIndex(text, before)
	if at < 0 {
		return err
	}
	text, list := text[:at], strings.TrimPrefix(strings.TrimSuffix(text[at+len(before):], "?"), several)
	words := strings.Split(strings.ReplaceAll(list, `"`, ""), ", ")
	var quoted []string
	for _, word := range nearest(text[strings.LastIndexByte(text, ' ')+1:], words) {
		quoted = append(quoted, strconv.Quote(word))
	}
	switch len(quoted) {
	case 0:
		return errors.New(text)
	case 1:
		return errors.New(text + before + quoted[0] + "?")
	}
	return errors.New(text + before + several + strings.Join(quoted, ", ") + "?")
}

// isUnexpected reports whether a parse error is about an argument that no command takes.
func isUnexpected(err error) bool { return strings.HasPrefix(err.Error(), "unexpected argument ") }

// without is args without what a parse error is about: an argument with those that follow it, or a flag with its
// value, if the grammar has a flag of that name that takes one.
func without(args []string, err *kong.ParseError) []string {
	c := err.Context
	at := len(args) - len(c.Path[len(c.Path)-1].Remainder()) // behind what could be read
	if c.Error == nil {                                      // all could be read: the error names a flag
		named, _, _ := strings.Cut(strings.ReplaceAll(err.Error(), ":", " "), " ")
		at = slices.IndexFunc(args, func(arg string) bool {
			name, _, _ := strings.Cut(arg, "=")
			return arg == "--" || name == named
		})
		if at < 0 || args[at] == "--" {
			return args
		}
	} else if at < len(args) && args[at] == "--" { // what follows is unexpected
		at++
	}
	if at >= len(args) {
		return args
	}
	end := at + 1
	switch {
	case isUnexpected(err): // and so is what follows: a parse for each of many would take seconds
		for end < len(args) && (at > 0 && args[at-1] == "--" || continues(c.Selected(), args[end])) {
			end++
		}
	case takesValue(c.Model.Node, args[at]):
		end = min(end+1, len(args))
	}
	return slices.Delete(slices.Clone(args), at, end)
}

// continues reports whether an argument behind an unexpected one of a command is unexpected, too.
func continues(command *kong.Node, arg string) bool {
	return !strings.HasPrefix(arg, "-") &&
		(command == nil || !slices.ContainsFunc(command.Children, func(n *kong.Node) bool { return n.Name == arg }))
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

// nearest returns those of candidates that a person may have meant by word: one or two letters
// are wrong, missing, too many or exchanged, or it is the beginning of one. Of a short word
// less may be wrong.
func nearest(word string, candidates []string) (close []string) {
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
