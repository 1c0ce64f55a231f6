package runs

import (
	"bytes"
	"path"
	"slices"
)

// runners are programs that run the tests of a project by way of other programs, and may print a
// summary of their own.
var runners = []string{"make", "just", "task", "tox", "nox", "npm", "yarn", "pnpm", "mvn", "gradlew"}

// totalsWindow is how many lines at the end of an output [Parts.Totals] considers.
const totalsWindow = 200

// RunsTests reports whether a command line runs tests by way of another program: one of runners,
// with a word test or check behind it in the same command. The time is linear.
func RunsTests(command []byte) bool {
	if !bytes.Contains(command, []byte("test")) && !bytes.Contains(command, []byte("check")) {
		return false
	}
	runner := false
	for len(command) > 0 {
		n := 0
		for n < len(command) && isNameChar(command[n]) {
			n++
		}
		switch word := command[:n]; {
		case n == 0:
			if bytes.IndexByte([]byte(";|&\n"), command[0]) >= 0 { // another command
				runner = false
			}
			n = 1
		case runner && hasTestWord(word):
			return true
		case slices.Contains(runners, path.Base(string(word))):
			runner = true
		}
		command = command[n:]
	}
	return false
}

func isNameChar(c byte) bool { return isWordChar(c) || c == '-' || c == '.' || c == '/' || c == ':' }

// hasTestWord reports whether test or check is a word in a name such as test-unit or unit:check.
func hasTestWord(name []byte) bool {
	words := bytes.FieldsFunc(name, func(r rune) bool { return r < 'A' || r > 'Z' && r < 'a' || r > 'z' })
	return slices.ContainsFunc(words, func(word []byte) bool { return string(word) == "test" || string(word) == "check" })
}

// totals returns the last line of text that is nothing but totals: "12 passed, 1 failed, 2 skipped",
// of which the last two may be missing. Nil: there is none in the last lines.
func totals(text []byte) *Tests {
	text = bytes.TrimSuffix(text, []byte{'\n'})
	for range totalsWindow {
		i := bytes.LastIndexByte(text, '\n')
		if t := totalsOf(trim(text[i+1:])); t != nil {
			return t
		}
		if i < 0 {
			return nil
		}
		text = text[:i]
	}
	return nil
}

func totalsOf(line []byte) *Tests {
	t := Tests{FailedTests: []string{}}
	least := 0
	for first := true; ; first = false {
		n := countDigits(line)
		if n == 0 {
			return nil
		}
		value, rest := parseNumber(line[:n]), line[n:]
		word, more, another := bytes.Cut(rest, []byte(", "))
		at := slices.Index([]string{" passed", " failed", " skipped"}, string(word))
		if at < least || first && at != 0 {
			return nil
		}
		*[]*int{&t.Passed, &t.Failed, &t.Skipped}[at] = value
		if !another {
			return &t
		}
		line, least = more, at+1
	}
}
