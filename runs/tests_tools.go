package runs

import (
	"bytes"
	"slices"
	"strings"
)

// parseMocha parses the totals of Mocha, one per line, and the numbered names.
//
//	2 passing (3ms)
//	1 pending
//	2 failing
func (t *testParser) parseMocha(l []byte) {
	word := l
	for len(word) > 0 && isDigit(word[0]) {
		word = word[1:]
	}
	n := parseNumber(l[:len(l)-len(word)])
	switch {
	case len(word) == len(l):
	case hasPrefix(word, " passing ("):
		t.begin(mocha).Passed = n
	case string(word) == " pending" && t.tool == mocha:
		t.tests.Skipped = n
	case string(word) == " failing" && t.tool == mocha:
		t.tests.Failed = n
	case hasPrefix(word, ") "):
		t.addFailed(mocha, word[2:])
	}
}

// parseNode parses both output formats of the test runner of Node.
//
//	ℹ tests 4        # tests 4
//	✖ name (1.2ms)   not ok 2 - name
func (t *testParser) parseNode(l []byte) {
	total, ok := bytes.CutPrefix(l, []byte("ℹ "))
	if !ok {
		total, ok = bytes.CutPrefix(l, []byte("# "))
	}
	if ok {
		t.parseNodeTotal(total)
		return
	}
	if name, ok := bytes.CutPrefix(l, []byte("▶ ")); ok && len(t.groups) < 256 {
		t.groups = append(t.groups, string(prefix(withoutTime(name), 256)))
		return
	}
	if string(l) == "failureType: 'subtestsFailed'" { // the last name is a group of tests
		if n := len(t.names[nodeTest]); n > 0 {
			t.names[nodeTest] = t.names[nodeTest][:n-1]
		}
		return
	}
	if name, ok := bytes.CutPrefix(l, []byte("✖ ")); ok {
		name = withoutTime(name)
		if !slices.Contains(t.groups, string(prefix(name, 256))) && string(name) != "failing tests:" {
			t.addFailed(nodeTest, name)
		}
	} else if rest, ok := bytes.CutPrefix(l, []byte("not ok ")); ok {
		if _, name, ok := bytes.Cut(rest, []byte(" - ")); ok {
			t.addFailed(nodeTest, name)
		}
	}
}

func (t *testParser) parseNodeTotal(l []byte) {
	n, ok := numberAfter(l, " ")
	switch {
	case !ok:
	case hasPrefix(l, "tests "):
		t.begin(nodeTest)
	case t.tool != nodeTest:
	case hasPrefix(l, "pass "):
		t.tests.Passed = n
	case hasPrefix(l, "fail "):
		t.tests.Failed += n
	case hasPrefix(l, "cancelled "):
		t.tests.Failed += n
	case hasPrefix(l, "skipped "):
		t.tests.Skipped = n
	}
}

// withoutTime removes the time after a name: name (1.2ms).
func withoutTime(name []byte) []byte {
	if i := bytes.LastIndex(name, []byte(" (")); i > 0 && bytes.HasSuffix(name, []byte("ms)")) {
		return name[:i]
	}
	return name
}

// parseGo parses `go test`, plain and with -v.
//
//	--- FAIL: TestTable/two_words (0.00s)
//	ok  	example.com/shop/b	0.002s
//	FAIL	example.com/shop/c [build failed]
func (t *testParser) parseGo(l []byte) {
	switch {
	case hasPrefix(l, "--- PASS: "):
		t.extend(goTest).Passed++
		t.verbose = true
	case hasPrefix(l, "--- SKIP: "):
		t.extend(goTest).Skipped++
		t.verbose = true
	case hasPrefix(l, "--- FAIL: "):
		name, _, _ := bytes.Cut(l[len("--- FAIL: "):], []byte(" ("))
		t.fail(goTest, name)
		t.failing = true
	case hasPrefix(l, "ok  \t"):
		tests := t.extend(goTest)
		if !t.verbose && !bytes.HasSuffix(l, []byte("]")) { // [no tests to run]
			tests.Passed++
		}
		t.verbose, t.failing = false, false
	case hasPrefix(l, "FAIL\t"):
		if !t.failing { // a build error or a crash
			name, _, _ := bytes.Cut(l[len("FAIL\t"):], []byte("\t"))
			t.fail(goTest, name)
		}
		t.verbose, t.failing = false, false
	}
}

// parseGoJSON parses `go test -json`.
func (t *testParser) parseGoJSON(l []byte) {
	action := member(l, `"Action":"`)
	test := member(l, `"Test":"`)
	switch string(action) {
	case "pass":
		if test != nil {
			t.extend(goJSON).Passed++
		}
	case "skip":
		if test != nil {
			t.extend(goJSON).Skipped++
		}
	case "fail":
		name := member(l, `"Package":"`)
		if test != nil {
			if len(t.packages) < 256 {
				t.packages = append(t.packages, string(prefix(name, 256)))
			}
			name = test
		} else if slices.Contains(t.packages, string(prefix(name, 256))) {
			return // its failed tests are counted
		}
		t.fail(goJSON, name)
	}
}

// member returns the value of a string member of a JSON object, without
// decoding it. `go test` writes no spaces and no escapes in names.
func member(l []byte, key string) []byte {
	_, rest, found := bytes.Cut(l, []byte(key))
	if !found {
		return nil
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return text
}

// testCases counts the <testcase> elements of a JUnit report.
func testCases(text []byte) *Tests {
	if !bytes.Contains(text, []byte("<testsuite")) {
		return nil
	}
	start := []byte("<testcase")
	_, rest, found := bytes.Cut(text, start)
	if !found {
		return nil
	}
	var t testParser
	tests := Tests{FailedTests: []string{}}
	for found {
		var element []byte
		element, rest, found = bytes.Cut(rest, start)
		element, _, _ = bytes.Cut(element, []byte("</testcase"))
		switch {
		case bytes.Contains(element, []byte("<failure")), bytes.Contains(element, []byte("<error")):
			tests.Failed++
			name := prefix(member(element, ` name="`), 1<<10)
			t.addFailed(noTool, []byte(xmlEntities.Replace(string(name))))
		case bytes.Contains(element, []byte("<skipped")):
			tests.Skipped++
		default:
			tests.Passed++
		}
	}
	tests.FailedTests = append(tests.FailedTests, t.names[noTool]...)
	return &tests
}

// xmlEntities decodes XML entities.
var xmlEntities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'",
	"&#39;", "'", "&amp;", "&")
