package runs

import "bytes"

// MaxOutput is how many bytes of a command's output are worth reading: a
// quarter of them from its beginning, the rest from its end.
const MaxOutput = 64 << 10

// Findings is what the output of one command tells about its run.
type Findings struct {
	Tests        *Tests // nil: it shows no tests
	LinesChanged *int64 // nil: it shows no diff stat, or several

	// The rest is of a command that failed.
	Failed    bool
	Line      string     // the line that says best what went wrong, or ""
	ErrorType string     // such as TypeError, or ""
	Locations []Location // at most MaxLocations
}

// telling are the words without which an output says nothing of tests and
// changed lines, as they stand in a text and in a JSON string.
var telling = newSieve(false,
	" passed", " failed", " skipped", " passing", " error in ", " errors in ", "# pass ", "ℹ pass ", "test result: ",
	"--- PASS: ", "--- FAIL: ", "--- SKIP: ", "ok  \t", `ok  \t`, "FAIL\t", `FAIL\t`, `Action":"`, `Action\":\"`,
	"Ran ", "Tests run:", "<testcase", " insertion", " deletion",
)

// Telling reports whether an output may say anything about tests or changed
// lines. It is quick, and takes a JSON string as written as well.
func Telling(output []byte) bool { return index(telling, output) >= 0 }

// ReadOutput reads what a command printed, and whether it failed. It writes
// over output, and keeps nothing of it. What it takes is bounded, whatever the
// output holds; the time is linear, so give it at most MaxOutput bytes.
func ReadOutput(output []byte, failed bool) Findings {
	f := Findings{Failed: failed}
	text := strip(output)
	if Telling(text) {
		f.summaries(text)
	}
	if failed {
		f.Line = oneLine(string(bound(errorLine(text), 1<<10)), maxErrorLine)
		f.ErrorType = errorType(text)
		f.Locations = locations(text)
	}
	return f
}

// summaries reads the lines of text that count something.
func (f *Findings) summaries(text []byte) {
	var t tally
	stats, changed := 0, int64(0)
	for rest := text; len(rest) > 0; {
		line := rest
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			line, rest = rest[:i], rest[i+1:]
		} else {
			rest = nil
		}
		line = trim(line)
		if len(line) < 2 {
			continue
		}
		t.line(line)
		if n, ok := diffStat(line); ok {
			stats++
			changed = n
		}
	}
	f.Tests = t.result()
	if f.Tests == nil {
		f.Tests = testCases(text)
	}
	if stats == 1 { // several are a history
		n := changed
		f.LinesChanged = &n
	}
}

// diffStat reads the last line of a diff stat:
//
//	3 files changed, 12 insertions(+), 4 deletions(-)
func diffStat(line []byte) (int64, bool) {
	if c := line[0]; c < '0' || c > '9' || !bytes.HasSuffix(line, []byte(")")) {
		return 0, false
	}
	var n int64
	found := false
	for _, word := range []string{"insertions(+)", "insertion(+)", "deletions(-)", "deletion(-)"} {
		if k, ok := count(line, word); ok {
			n += int64(k)
			found = true
		}
	}
	return n, found
}

// strip removes terminal escapes and makes each carriage return a line break, in place.
func strip(b []byte) []byte {
	i := bytes.IndexAny(b, "\x1b\r")
	if i < 0 {
		return b
	}
	out := b[:i]
	for i < len(b) {
		switch c := b[i]; c {
		case '\x1b':
			i += escape(b[i:])
			continue
		case '\r':
			out = append(out, '\n')
		default:
			out = append(out, c)
		}
		i++
	}
	return out
}

// escape is the length of the terminal escape that b begins with.
func escape(b []byte) int {
	if len(b) < 2 {
		return len(b)
	}
	switch b[1] {
	case '[': // parameters, then one letter
		i := 2
		for i < len(b) && i < 64 && b[i] >= ' ' && b[i] < '@' {
			i++
		}
		if i < len(b) && b[i] >= '@' && b[i] <= '~' {
			i++
		}
		return i
	case ']': // a title or a link, up to BEL or ESC \
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

// trim is bytes.TrimSpace for ASCII.
func trim(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t') {
		b = b[1:]
	}
	for len(b) > 0 && (b[len(b)-1] == ' ' || b[len(b)-1] == '\t') {
		b = b[:len(b)-1]
	}
	return b
}

// bound is the first n bytes of b.
func bound(b []byte, n int) []byte { return b[:min(n, len(b))] }

// count is the number that stands before word: "3 failed" for "failed".
func count(line []byte, word string) (int, bool) {
	for from := 0; ; {
		i := bytes.Index(line[from:], []byte(word))
		if i < 0 {
			return 0, false
		}
		i += from
		from = i + len(word)
		if from < len(line) && letter(line[from]) {
			continue
		}
		end := i
		for end > 0 && line[end-1] == ' ' {
			end--
		}
		start := end
		for start > 0 && digit(line[start-1]) {
			start--
		}
		if end < i && start < end && (start == 0 || !letter(line[start-1])) {
			return number(line[start:end]), true
		}
	}
}

// after is the number that stands behind key: `"failures=1"` for "failures=".
func after(line []byte, key string) (int, bool) {
	_, rest, found := bytes.Cut(line, []byte(key))
	if !found {
		return 0, false
	}
	rest = trim(rest)
	end := 0
	for end < len(rest) && digit(rest[end]) {
		end++
	}
	return number(rest[:end]), end > 0
}

// number is the value of digits, which is not taken beyond a billion.
func number(digits []byte) int {
	n := 0
	for _, c := range digits {
		n = min(n*10+int(c-'0'), 1_000_000_000)
	}
	return n
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// letter reports whether c is a character of a word.
func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || digit(c) || c == '_'
}
