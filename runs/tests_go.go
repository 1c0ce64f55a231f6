package runs

import (
	"bytes"
	"slices"
)

// golang reads `go test`, plain and with -v.
//
//	--- FAIL: TestTable/two_words (0.00s)
//	ok  	example.com/shop/b	0.002s
//	FAIL	example.com/shop/c [build failed]
func (t *tally) golang(l []byte) {
	switch {
	case has(l, "--- PASS: "):
		t.more(goTest).Passed++
		t.verbose = true
	case has(l, "--- SKIP: "):
		t.more(goTest).Skipped++
		t.verbose = true
	case has(l, "--- FAIL: "):
		name, _, _ := bytes.Cut(l[len("--- FAIL: "):], []byte(" ("))
		t.failed(goTest, name)
		t.more(goTest).Failed++
		t.failing = true
	case has(l, "ok  \t"):
		tests := t.more(goTest)
		if !t.verbose && !bytes.HasSuffix(l, []byte("]")) { // [no tests to run]
			tests.Passed++
		}
		t.verbose, t.failing = false, false
	case has(l, "FAIL\t"):
		if !t.failing { // it does not build, or it died
			name, _, _ := bytes.Cut(l[len("FAIL\t"):], []byte("\t"))
			t.failed(goTest, name)
			t.more(goTest).Failed++
		}
		t.verbose, t.failing = false, false
	}
}

// golangJSON reads `go test -json`.
func (t *tally) golangJSON(l []byte) {
	action := member(l, `"Action":"`)
	test := member(l, `"Test":"`)
	switch string(action) {
	case "pass":
		if test != nil {
			t.more(goJSON).Passed++
		}
	case "skip":
		if test != nil {
			t.more(goJSON).Skipped++
		}
	case "fail":
		name := member(l, `"Package":"`)
		if test != nil {
			if len(t.packages) < 256 {
				t.packages = append(t.packages, string(bound(name, 256)))
			}
			name = test
		} else if slices.Contains(t.packages, string(bound(name, 256))) {
			return // because of tests that were counted
		}
		t.failed(goJSON, name)
		t.more(goJSON).Failed++
	}
}

// member is the text of a member of a JSON object that `go test` writes: it
// has no spaces, and names have no escapes.
func member(l []byte, key string) []byte {
	_, rest, found := bytes.Cut(l, []byte(key))
	if !found {
		return nil
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	return text
}
