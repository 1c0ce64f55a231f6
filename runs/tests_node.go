package runs

import (
	"bytes"
	"slices"
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
