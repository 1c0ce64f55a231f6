package runs

import (
	"bytes"
	"slices"
)

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
		t.addFailed(goTest, name)
		t.extend(goTest).Failed++
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
			t.addFailed(goTest, name)
			t.extend(goTest).Failed++
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
		t.addFailed(goJSON, name)
		t.extend(goJSON).Failed++
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
