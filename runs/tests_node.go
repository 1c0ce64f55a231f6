package runs

import (
	"bytes"
	"slices"
)

// mocha reads the sums of Mocha, each on its own line, and the names it numbers.
//
//	2 passing (3ms)
//	1 pending
//	2 failing
func (t *tally) mocha(l []byte) {
	word := l
	for len(word) > 0 && digit(word[0]) {
		word = word[1:]
	}
	n := number(l[:len(l)-len(word)])
	switch {
	case len(word) == len(l):
	case has(word, " passing ("):
		t.begin(mocha).Passed = n
	case string(word) == " pending" && t.tool == mocha:
		t.tests.Skipped = n
	case string(word) == " failing" && t.tool == mocha:
		t.tests.Failed = n
	case has(word, ") "):
		t.failed(mocha, word[2:])
	}
}

// node reads what Node's own runner prints, in both of its forms.
//
//	ℹ tests 4        # tests 4
//	✖ name (1.2ms)   not ok 2 - name
func (t *tally) node(l []byte) {
	sum, ok := bytes.CutPrefix(l, []byte("ℹ "))
	if !ok {
		sum, ok = bytes.CutPrefix(l, []byte("# "))
	}
	if ok {
		t.nodeSum(sum)
		return
	}
	if name, ok := bytes.CutPrefix(l, []byte("▶ ")); ok && len(t.groups) < 256 {
		t.groups = append(t.groups, string(bound(untimed(name), 256)))
		return
	}
	if string(l) == "failureType: 'subtestsFailed'" { // what was named last holds tests, and is none
		if n := len(t.names[nodeTest]); n > 0 {
			t.names[nodeTest] = t.names[nodeTest][:n-1]
		}
		return
	}
	if name, ok := bytes.CutPrefix(l, []byte("✖ ")); ok {
		name = untimed(name)
		if !slices.Contains(t.groups, string(bound(name, 256))) && string(name) != "failing tests:" {
			t.failed(nodeTest, name)
		}
	} else if rest, ok := bytes.CutPrefix(l, []byte("not ok ")); ok {
		if _, name, ok := bytes.Cut(rest, []byte(" - ")); ok {
			t.failed(nodeTest, name)
		}
	}
}

func (t *tally) nodeSum(l []byte) {
	n, ok := after(l, " ")
	switch {
	case !ok:
	case has(l, "tests "):
		t.begin(nodeTest)
	case t.tool != nodeTest:
	case has(l, "pass "):
		t.tests.Passed = n
	case has(l, "fail "):
		t.tests.Failed += n
	case has(l, "cancelled "):
		t.tests.Failed += n
	case has(l, "skipped "):
		t.tests.Skipped = n
	}
}

// untimed is a name without the time behind it: name (1.2ms).
func untimed(name []byte) []byte {
	if i := bytes.LastIndex(name, []byte(" (")); i > 0 && bytes.HasSuffix(name, []byte("ms)")) {
		return name[:i]
	}
	return name
}
