package runs

import "bytes"

// MaxOutput is the maximum number of bytes of a command's output that a backend
// should pass to [ReadParts]: a quarter from its beginning, the rest from its end.
const MaxOutput = 64 << 10

// Findings is the information about a run in the output of one command.
type Findings struct {
	Tests        *Tests // nil: no test results
	LinesChanged *int64 // nil: no diff stat, or several

	// The other fields describe a failed command.
	Failed    bool
	Line      string     // the best error message, or ""
	ErrorType string     // such as TypeError, or ""
	Locations []Location // at most maxLocations
}

// findingWords are the words that indicate test results and changed lines, both
// in plain text and in a JSON string.
var findingWords = newMatcher(false,
	" passed", " failed", " skipped", " passing", " error in ", " errors in ", "# pass ", "ℹ pass ", "test result: ",
	"--- PASS: ", "--- FAIL: ", "--- SKIP: ", "ok  \t", `ok  \t`, "FAIL\t", `FAIL\t`, `Action":"`, `Action\":\"`,
	"Ran ", "Tests run:", "<testcase", " insertion", " deletion",
)

// MayHaveFindings reports whether output may contain test results or changed
// lines. It is fast. Output is plain text or the inside of a JSON string.
func MayHaveFindings(output []byte) bool { return index(findingWords, output) >= 0 }

// MayHaveDiffStat reports whether output may contain changed lines. It is faster than
// [MayHaveFindings]. The parentheses of "insertions(+)" must not be written as escapes.
func MayHaveDiffStat(output []byte) bool {
	for i := 0; ; i++ {
		k := bytes.IndexByte(output[i:], ')')
		if k < 0 {
			return false
		}
		i += k
		if i >= 2 && output[i-2] == '(' && (output[i-1] == '+' || output[i-1] == '-') {
			return true
		}
	}
}

// Parts says what [ReadParts] reads.
type Parts struct {
	Failed    bool // the command failed: Locations are read
	Summaries bool // Tests and LinesChanged
	Message   bool // Line and ErrorType
	Totals    bool // with Summaries: also a line of totals alone, see [RunsTests]
}

// ReadParts parses the output of a command. It overwrites output and keeps no
// reference to it. The size of the result is limited for any output. The time is
// linear, so output should have at most [MaxOutput] bytes.
func ReadParts(output []byte, parts Parts) Findings {
	f := Findings{Failed: parts.Failed}
	text := stripEscapes(output)
	if parts.Summaries && MayHaveFindings(text) {
		f.readSummaries(text)
		if f.Tests == nil && parts.Totals {
			f.Tests = totals(text)
		}
	}
	if parts.Message {
		f.Line = errorLine(text)
		f.ErrorType = errorType(text)
	}
	if parts.Failed {
		f.Locations = locations(text)
	}
	return f
}

// readSummaries reads test summaries and diff stats in text.
func (f *Findings) readSummaries(text []byte) {
	var t testParser
	stats, changed := 0, int64(0)
	for rest, more := text, true; more; { // not bytes.SplitSeq: text would escape to the heap
		var line []byte
		line, rest, more = bytes.Cut(rest, []byte{'\n'})
		if line = trim(line); len(line) < 2 {
			continue
		}
		t.parseLine(line)
		if n, ok := diffStat(line); ok {
			stats++
			changed = n
		}
	}
	f.Tests = t.result()
	if f.Tests == nil {
		f.Tests = testCases(text)
	}
	if stats == 1 { // several diff stats are a history of commits
		f.LinesChanged = new(changed)
	}
}

// diffStat parses the last line of a diff stat:
//
//	3 files changed, 12 insertions(+), 4 deletions(-)
func diffStat(line []byte) (int64, bool) {
	if c := line[0]; c < '0' || c > '9' || !bytes.HasSuffix(line, []byte(")")) {
		return 0, false
	}
	var n int64
	found := false
	for _, word := range []string{"insertions(+)", "insertion(+)", "deletions(-)", "deletion(-)"} {
		if k, ok := numberBefore(line, word); ok {
			n += int64(k)
			found = true
		}
	}
	return n, found
}

// stripEscapes removes terminal escapes and replaces each carriage return by a
// newline, in place.
func stripEscapes(b []byte) []byte {
	i := bytes.IndexByte(b, '\x1b')
	if i >= 0 {
		out := b[:i]
		for i < len(b) {
			i += escapeLength(b[i:])
			n := bytes.IndexByte(b[i:], '\x1b')
			if n < 0 {
				n = len(b) - i
			}
			out = append(out, b[i:i+n]...)
			i += n
		}
		b = out
	}
	for rest := b; ; {
		i := bytes.IndexByte(rest, '\r')
		if i < 0 {
			return b
		}
		rest[i] = '\n'
		rest = rest[i+1:]
	}
}

// escapeLength returns the length of the terminal escape at the beginning of b.
func escapeLength(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[': // parameters, then one final character
		i := 2
		for i < len(b) && i < 64 && b[i] >= ' ' && b[i] < '@' {
			i++
		}
		if i < len(b) && b[i] >= '@' && b[i] <= '~' {
			i++
		}
		return i
	case ']': // a title or a link, terminated by BEL or ESC \
		for i := 2; i < len(b) && i < 4<<10 && b[i] != '\n'; i++ {
			if b[i] == '\a' {
				return i + 1
			}
			if b[i] == '\x1b' {
				return min(i+2, len(b))
			}
		}
	}
	return 2
}

// trim removes spaces and tabs from both ends of b.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// prefix returns the first n bytes of b, or all of b.
func prefix(b []byte, n int) []byte { return b[:min(n, len(b))] }

// numberBefore returns the number before word in line: 3 for "failed" in
// "3 failed".
func numberBefore(line []byte, word string) (int, bool) {
	for from := 0; ; {
		i := bytes.Index(line[from:], []byte(word))
		if i < 0 {
			return 0, false
		}
		i += from
		from = i + len(word)
		if from < len(line) && isWordChar(line[from]) {
			continue
		}
		end := i
		for end > 0 && line[end-1] == ' ' {
			end--
		}
		start := end
		for start > 0 && isDigit(line[start-1]) {
			start--
		}
		if end < i && start < end && (start == 0 || !isWordChar(line[start-1])) {
			return parseNumber(line[start:end]), true
		}
	}
}

// numberAfter returns the number after key in line: 1 for "failures=" in
// "failures=1".
func numberAfter(line []byte, key string) (int, bool) {
	_, rest, found := bytes.Cut(line, []byte(key))
	if !found {
		return 0, false
	}
	rest = trim(rest)
	n := countDigits(rest)
	return parseNumber(rest[:n]), n > 0
}

// parseNumber returns the value of digits, at most one billion.
func parseNumber(digits []byte) int {
	n := 0
	for _, c := range digits {
		n = min(n*10+int(c-'0'), 1_000_000_000)
	}
	return n
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isWordChar reports whether c is an ASCII letter, a digit or '_'.
func isWordChar(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || isDigit(c) || c == '_'
}
