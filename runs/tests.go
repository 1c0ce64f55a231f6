package runs

import (
	"bytes"
	"slices"
)

// Limits of what a record tells of tests.
const (
	MaxFailedTests = 10
	maxTestName    = 128 // bytes of JSON
)

// Tests is the result of the newest run of tests that a command showed, as the
// tool counts them. A plain `go test` does not say how many tests passed: of
// it each package that is ok counts as one. Where the middle of an output is
// missing, tools that print no totals are counted as far as can be seen.
type Tests struct {
	Passed      int      `json:"passed"`
	Failed      int      `json:"failed"` // errors too
	Skipped     int      `json:"skipped"`
	FailedTests []string `json:"failed_tests"` // at most MaxFailedTests names, redacted; never nil
}

// tool is a program that runs tests, or one way in which it prints.
type tool uint8

const (
	noTool tool = iota
	jest
	vitest
	mocha
	pytest
	unittest
	nodeTest
	goTest
	goJSON
	cargo
	mavenClass // one class of tests
	mavenTotal // the sum of a module
	tools
)

// tally reads the output of test tools line by line. The summary that comes
// last wins: whoever runs tests again wants to know the newest result.
type tally struct {
	tool  tool
	tests Tests

	names  [tools][]string // of failed tests, not in a summary yet
	groups []string        // node: names that hold tests, and are none

	packages []string // go, JSON: packages with a test that failed
	verbose  bool     // go: the package shows its tests
	failing  bool     // go: the package has a test that failed
	ran      int      // unittest: tests that ran
}

func (t *tally) result() *Tests {
	if t.tool == noTool {
		return nil
	}
	tests := new(Tests)
	*tests = t.tests
	if tests.FailedTests == nil {
		tests.FailedTests = []string{}
	}
	return tests
}

// begin begins a summary of a tool.
func (t *tally) begin(by tool) *Tests {
	t.tool, t.tests = by, Tests{FailedTests: t.names[by]}
	t.names[by] = nil
	return &t.tests
}

// more goes on with the summary of a tool that prints one in pieces.
func (t *tally) more(by tool) *Tests {
	if t.tool != by {
		return t.begin(by)
	}
	for _, name := range t.names[by] {
		t.tests.FailedTests = addName(t.tests.FailedTests, name)
	}
	t.names[by] = nil
	return &t.tests
}

// failed notes the name of a test that failed.
func (t *tally) failed(by tool, name []byte) {
	if len(t.names[by]) >= MaxFailedTests {
		return
	}
	if s := fit(oneLine(string(bound(trim(name), 512)), maxTestName), maxTestName); s != "" {
		t.names[by] = addName(t.names[by], s)
	}
}

func addName(names []string, name string) []string {
	if len(names) >= MaxFailedTests || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// line reads one line, which has no space around it.
func (t *tally) line(l []byte) {
	switch c := l[0]; {
	case c == 'T':
		t.totals(l)
	case c == '-' || c == 'o' || c == 'F':
		t.golang(l)
		if c == 'F' {
			t.failures(l)
		}
	case c == '{':
		t.golangJSON(l)
	case c == '=' && has(l, "=== RUN "):
		t.verbose = true
	case c == '=' || digit(c):
		t.python(l)
		t.mocha(l)
	case c == 't':
		t.cargo(l)
	case c == '[':
		t.maven(l)
	case c == '#' || c == 0xe2 || c == 'n' || c == 'f':
		t.node(l)
		if name, ok := bytes.CutPrefix(l, []byte("● ")); ok {
			t.jest(trim(name))
		}
	case c == 'R' || c == 'O' || c == 'E':
		t.failures(l)
	}
}

// totals reads the line of sums of Jest and of Vitest.
//
//	Tests:       1 failed, 1 skipped, 1 todo, 3 passed, 6 total
//	Tests  1 failed | 2 passed | 1 skipped (4)
func (t *tally) totals(l []byte) {
	var tests *Tests
	switch {
	case has(l, "Tests run:"):
		t.maven(l)
		return
	case has(l, "Test Suites:"), has(l, "Test Files "):
		// A file of tests that cannot even be loaded has no tests to count.
		by := jest
		if has(l, "Test Files ") {
			by = vitest
		}
		tests = t.begin(by)
		tests.Failed, _ = count(l, "failed")
		return
	case has(l, "Tests:") && bytes.HasSuffix(l, []byte(" total")):
		tests = t.more(jest)
	case has(l, "Tests ") && bytes.HasSuffix(l, []byte(")")):
		tests = t.more(vitest)
	default:
		return
	}
	passed, a := count(l, "passed")
	failed, b := count(l, "failed")
	skipped, c := count(l, "skipped")
	if !a && !b && !c {
		return
	}
	tests.Passed, tests.Skipped = passed, skipped
	if b { // else the files that cannot be loaded stay
		tests.Failed = failed
	}
}

// jest reads the heading of a failure.
func (t *tally) jest(name []byte) {
	for _, other := range []string{"Console", "Test suite failed to run", "Cannot log after", "Deprecation", "Multiple", "Validation", "process.exit"} {
		if has(name, other) {
			return
		}
	}
	t.failed(jest, name)
}

// failures reads the lines of several tools that name a failed test, and the
// last lines of Python's unittest.
func (t *tally) failures(l []byte) {
	switch {
	case has(l, "FAIL "): // Vitest: FAIL  sum.test.mjs > parser > refuses junk
		if name := trim(l[len("FAIL "):]); bytes.Contains(name, []byte(" > ")) {
			t.failed(vitest, name)
		}
	case has(l, "FAILED (") || string(l) == "OK" || has(l, "OK ("):
		if t.ran > 0 {
			tests := t.begin(unittest)
			failures, _ := after(l, "failures=")
			broken, _ := after(l, "errors=")
			tests.Failed = failures + broken
			tests.Skipped, _ = after(l, "skipped=")
			tests.Passed = max(t.ran-tests.Failed-tests.Skipped, 0)
			t.ran = 0
		}
	case has(l, "FAILED ") || has(l, "ERROR "): // pytest: FAILED tests/test_a.py::test_b - assert 1 == 2
		_, name, _ := bytes.Cut(l, []byte(" "))
		if name, _, _ = bytes.Cut(name, []byte(" - ")); bytes.Contains(name, []byte(".py")) {
			t.failed(pytest, name)
		}
	case has(l, "FAIL: ") || has(l, "ERROR: "):
		_, name, _ := bytes.Cut(l, []byte(" "))
		t.failed(unittest, name)
	case has(l, "Ran "):
		t.ran, _ = count(l, "tests in")
		if t.ran == 0 {
			t.ran, _ = count(l, "test in")
		}
	}
}

// python reads the last line of pytest, with or without its rules.
//
//	=== 1 failed, 2 passed, 1 skipped in 0.03s ===
func (t *tally) python(l []byte) {
	l = trim(bytes.Trim(l, "="))
	i := bytes.LastIndex(l, []byte(" in "))
	if i < 0 || len(l) < i+6 || !digit(l[0]) || !digit(l[i+4]) || !bytes.Contains(l[i:], []byte("s")) {
		return
	}
	l = l[:i]
	passed, a := count(l, "passed")
	failed, b := count(l, "failed")
	broken, c := count(l, "errors")
	if !c {
		broken, c = count(l, "error")
	}
	skipped, d := count(l, "skipped")
	if a || b || c || d {
		tests := t.begin(pytest)
		tests.Passed, tests.Failed, tests.Skipped = passed, failed+broken, skipped
	}
}

// cargo reads `cargo test`, which sums up each of its programs alone.
//
//	test tests::wrong ... FAILED
//	test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out
func (t *tally) cargo(l []byte) {
	if has(l, "test result: ") {
		passed, a := count(l, "passed")
		failed, b := count(l, "failed")
		ignored, _ := count(l, "ignored")
		if a && b {
			tests := t.more(cargo)
			tests.Passed += passed
			tests.Failed += failed
			tests.Skipped += ignored
		}
		return
	}
	if name, ok := bytes.CutSuffix(l, []byte(" ... FAILED")); ok {
		t.failed(cargo, bytes.TrimPrefix(name, []byte("test ")))
	}
}

// maven reads what Surefire and Failsafe say by way of Maven.
//
//	[ERROR] com.example.AppTest.adds -- Time elapsed: 0.004 s <<< FAILURE!
//	[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1
func (t *tally) maven(l []byte) {
	for _, level := range []string{"[INFO] ", "[WARNING] ", "[ERROR] "} {
		if has(l, level) {
			l = trim(l[len(level):])
			break
		}
	}
	if has(l, "Tests run:") {
		ran, a := after(l, "Tests run:")
		failures, b := after(l, "Failures:")
		broken, _ := after(l, "Errors:")
		skipped, _ := after(l, "Skipped:")
		by := mavenTotal
		if bytes.Contains(l, []byte("Time elapsed")) {
			by = mavenClass
		}
		if !a || !b || by == mavenClass && t.tool == mavenTotal { // the module's sum will follow
			return
		}
		if by == mavenTotal {
			if t.tool == mavenClass {
				t.names[mavenTotal] = t.tests.FailedTests
			}
			for _, name := range t.names[mavenClass] {
				t.names[mavenTotal] = addName(t.names[mavenTotal], name)
			}
			t.names[mavenClass] = nil
		}
		tests := t.more(by)
		tests.Passed += max(ran-failures-broken-skipped, 0)
		tests.Failed += failures + broken
		tests.Skipped += skipped
		return
	}
	if bytes.HasSuffix(l, []byte("<<< FAILURE!")) || bytes.HasSuffix(l, []byte("<<< ERROR!")) {
		name, _, _ := bytes.Cut(l, []byte("Time elapsed"))
		t.failed(mavenClass, bytes.TrimRight(name, " -"))
	}
}

func has(l []byte, prefix string) bool {
	return len(l) >= len(prefix) && string(l[:len(prefix)]) == prefix
}
