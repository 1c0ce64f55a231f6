package runs

import (
	"bytes"
	"slices"
)

// Limits of the test results in a record.
const (
	maxFailedTests = 10
	maxTestName    = 128 // bytes of JSON
)

// Tests is the result of the newest test run in the output of a command, as
// counted by the test tool. A plain `go test` does not print the number of passed
// tests: each package that is ok counts as one. If the middle of the output is
// missing, the counts of tools without totals are incomplete.
type Tests struct {
	Passed      int      `json:"passed"`
	Failed      int      `json:"failed"` // including errors
	Skipped     int      `json:"skipped"`
	FailedTests []string `json:"failed_tests"` // at most maxFailedTests names, redacted; never nil
}

// tool is a test tool, or one output format of it.
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
	mavenTotal // the total of a module
	toolCount
)

// testParser parses the output of test tools line by line. The last summary
// replaces earlier ones, so that the result is that of the newest test run.
type testParser struct {
	tool  tool
	tests Tests

	names  [toolCount][]string // of failed tests that are not in a summary yet
	groups []string            // node: names of groups of tests

	packages []string // go -json: packages with a failed test
	verbose  bool     // go: the tests of the current package are printed
	failing  bool     // go: the current package has a failed test
	ran      int      // unittest: number of executed tests
}

func (t *testParser) result() *Tests {
	if t.tool == noTool {
		return nil
	}
	tests := new(t.tests)
	if tests.FailedTests == nil {
		tests.FailedTests = []string{}
	}
	return tests
}

// begin starts a new summary of a tool.
func (t *testParser) begin(by tool) *Tests {
	t.tool, t.tests = by, Tests{FailedTests: t.names[by]}
	t.names[by] = nil
	return &t.tests
}

// extend continues the summary of a tool that prints it in parts.
func (t *testParser) extend(by tool) *Tests {
	if t.tool != by {
		return t.begin(by)
	}
	for _, name := range t.names[by] {
		t.tests.FailedTests = addName(t.tests.FailedTests, name)
	}
	t.names[by] = nil
	return &t.tests
}

// addFailed adds the name of a failed test.
func (t *testParser) addFailed(by tool, name []byte) {
	if len(t.names[by]) >= maxFailedTests {
		return
	}
	if s := truncateJSON(oneLine(string(prefix(trim(name), 512)), maxTestName), maxTestName); s != "" {
		t.names[by] = addName(t.names[by], s)
	}
}

// fail counts a failed test of a tool that prints no summary after it.
func (t *testParser) fail(by tool, name []byte) {
	if t.tool != by || len(t.tests.FailedTests) < maxFailedTests { // else no more names are listed
		t.addFailed(by, name)
	}
	t.extend(by).Failed++
}

func addName(names []string, name string) []string {
	if len(names) >= maxFailedTests || slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// parseLine parses one line, which has no spaces at its ends.
func (t *testParser) parseLine(l []byte) {
	switch l[0] {
	case 'T':
		t.parseTotals(l)
	case 'F':
		t.parseGo(l)
		t.parseFailures(l)
	case '-', 'o':
		t.parseGo(l)
	case '{':
		t.parseGoJSON(l)
	case '=', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		if hasPrefix(l, "=== RUN ") {
			t.verbose = true
			return
		}
		t.parsePytest(l)
		t.parseMocha(l)
	case 't':
		t.parseCargo(l)
	case '[':
		t.parseMaven(l)
	case '#', 0xe2, 'n', 'f':
		t.parseNode(l)
		if name, ok := bytes.CutPrefix(l, []byte("● ")); ok {
			t.parseJest(trim(name))
		}
	case 'R', 'O', 'E':
		t.parseFailures(l)
	}
}

// parseTotals parses the totals of Jest and of Vitest.
//
//	Tests:       1 failed, 1 skipped, 1 todo, 3 passed, 6 total
//	Tests  1 failed | 2 passed | 1 skipped (4)
func (t *testParser) parseTotals(l []byte) {
	var tests *Tests
	switch {
	case hasPrefix(l, "Tests run:"):
		t.parseMaven(l)
		return
	case hasPrefix(l, "Test Suites:"): // a test file that cannot be loaded has no test counts
		t.begin(jest).Failed, _ = numberBefore(l, "failed")
		return
	case hasPrefix(l, "Test Files "):
		t.begin(vitest).Failed, _ = numberBefore(l, "failed")
		return
	case hasPrefix(l, "Tests:") && bytes.HasSuffix(l, []byte(" total")):
		tests = t.extend(jest)
	case hasPrefix(l, "Tests ") && bytes.HasSuffix(l, []byte(")")):
		tests = t.extend(vitest)
	default:
		return
	}
	passed, a := numberBefore(l, "passed")
	failed, b := numberBefore(l, "failed")
	skipped, c := numberBefore(l, "skipped")
	if !a && !b && !c {
		return
	}
	tests.Passed, tests.Skipped = passed, skipped
	if b { // else keep the number of files that cannot be loaded
		tests.Failed = failed
	}
}

// parseJest parses the heading of a Jest failure.
func (t *testParser) parseJest(name []byte) {
	if !slices.ContainsFunc([]string{
		"Console", "Test suite failed to run", "Cannot log after", "Deprecation", "Multiple", "Validation", "process.exit",
	}, func(other string) bool { return hasPrefix(name, other) }) {
		t.addFailed(jest, name)
	}
}

// parseFailures parses lines of several tools with the name of a failed test,
// and the last lines of Python's unittest.
func (t *testParser) parseFailures(l []byte) {
	switch {
	case hasPrefix(l, "FAIL "): // Vitest: FAIL  sum.test.mjs > parser > refuses junk
		if name := trim(l[len("FAIL "):]); bytes.Contains(name, []byte(" > ")) {
			t.addFailed(vitest, name)
		}
	case hasPrefix(l, "FAILED (") || string(l) == "OK" || hasPrefix(l, "OK ("):
		if t.ran > 0 {
			tests := t.begin(unittest)
			failures, _ := numberAfter(l, "failures=")
			broken, _ := numberAfter(l, "errors=")
			tests.Failed = failures + broken
			tests.Skipped, _ = numberAfter(l, "skipped=")
			tests.Passed = max(t.ran-tests.Failed-tests.Skipped, 0)
			t.ran = 0
		}
	case hasPrefix(l, "FAILED ") || hasPrefix(l, "ERROR "): // pytest: FAILED tests/test_a.py::test_b - assert 1 == 2
		_, name, _ := bytes.Cut(l, []byte(" "))
		if name, _, _ = bytes.Cut(name, []byte(" - ")); bytes.Contains(name, []byte(".py")) {
			t.addFailed(pytest, name)
		}
	case hasPrefix(l, "FAIL: ") || hasPrefix(l, "ERROR: "):
		_, name, _ := bytes.Cut(l, []byte(" "))
		t.addFailed(unittest, name)
	case hasPrefix(l, "Ran "):
		many, _ := numberBefore(l, "tests in")
		one, _ := numberBefore(l, "test in")
		t.ran = max(many, one)
	}
}

// parsePytest parses the last line of pytest, with or without "===".
//
//	=== 1 failed, 2 passed, 1 skipped in 0.03s ===
func (t *testParser) parsePytest(l []byte) {
	if !bytes.Contains(l, []byte(" in ")) { // faster than LastIndex
		return
	}
	l = trim(bytes.Trim(l, "="))
	i := bytes.LastIndex(l, []byte(" in "))
	if i < 0 || len(l) < i+6 || !isDigit(l[0]) || !isDigit(l[i+4]) || !bytes.Contains(l[i:], []byte("s")) {
		return
	}
	l = l[:i]
	passed, a := numberBefore(l, "passed")
	failed, b := numberBefore(l, "failed")
	broken, c := numberBefore(l, "errors")
	broke, d := numberBefore(l, "error")
	skipped, e := numberBefore(l, "skipped")
	if a || b || c || d || e {
		tests := t.begin(pytest)
		tests.Passed, tests.Failed, tests.Skipped = passed, failed+max(broken, broke), skipped
	}
}

// parseCargo parses `cargo test`, which prints a summary for each test program.
//
//	test tests::wrong ... FAILED
//	test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out
func (t *testParser) parseCargo(l []byte) {
	if hasPrefix(l, "test result: ") {
		passed, a := numberBefore(l, "passed")
		failed, b := numberBefore(l, "failed")
		ignored, _ := numberBefore(l, "ignored")
		if a && b {
			tests := t.extend(cargo)
			tests.Passed += passed
			tests.Failed += failed
			tests.Skipped += ignored
		}
		return
	}
	if name, ok := bytes.CutSuffix(l, []byte(" ... FAILED")); ok {
		t.addFailed(cargo, bytes.TrimPrefix(name, []byte("test ")))
	}
}

// parseMaven parses the output of Surefire and Failsafe in Maven.
//
//	[ERROR] com.example.AppTest.adds -- Time elapsed: 0.004 s <<< FAILURE!
//	[ERROR] Tests run: 3, Failures: 1, Errors: 0, Skipped: 1
func (t *testParser) parseMaven(l []byte) {
	level, text, _ := bytes.Cut(l, []byte("] "))
	if slices.Contains([]string{"[INFO", "[WARNING", "[ERROR"}, string(level)) {
		l = trim(text)
	}
	if hasPrefix(l, "Tests run:") {
		ran, a := numberAfter(l, "Tests run:")
		failures, b := numberAfter(l, "Failures:")
		broken, _ := numberAfter(l, "Errors:")
		skipped, _ := numberAfter(l, "Skipped:")
		by := mavenTotal
		if bytes.Contains(l, []byte("Time elapsed")) {
			by = mavenClass
		}
		if !a || !b || by == mavenClass && t.tool == mavenTotal { // the total of the module follows
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
		tests := t.extend(by)
		tests.Passed += max(ran-failures-broken-skipped, 0)
		tests.Failed += failures + broken
		tests.Skipped += skipped
		return
	}
	if bytes.HasSuffix(l, []byte("<<< FAILURE!")) || bytes.HasSuffix(l, []byte("<<< ERROR!")) {
		name, _, _ := bytes.Cut(l, []byte("Time elapsed"))
		t.addFailed(mavenClass, bytes.TrimRight(name, " -"))
	}
}

func hasPrefix(l []byte, s string) bool { return bytes.HasPrefix(l, []byte(s)) }
