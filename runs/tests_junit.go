package runs

import (
	"bytes"
	"strings"
)

// testCases counts the <testcase> elements of a JUnit report.
func testCases(text []byte) *Tests {
	if !bytes.Contains(text, []byte("<testcase")) || !bytes.Contains(text, []byte("<testsuite")) {
		return nil
	}
	const (
		none = iota
		passed
		failed
		skipped
	)
	var t testParser
	var name []byte
	tests := Tests{FailedTests: []string{}}
	state := none
	end := func() {
		switch state {
		case passed:
			tests.Passed++
		case failed:
			tests.Failed++
		case skipped:
			tests.Skipped++
		}
		state = none
	}
	for rest := text; ; {
		i := bytes.IndexByte(rest, '<')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		element := rest
		if n := bytes.IndexByte(rest, '<'); n >= 0 {
			element = rest[:n]
		}
		switch {
		case hasPrefix(element, "testcase "):
			end()
			state = passed
			name = member(element, ` name="`)
		case state == passed && (hasPrefix(element, "failure") || hasPrefix(element, "error")):
			state = failed
			t.addFailed(noTool, []byte(xmlEntities.Replace(string(prefix(name, 1<<10)))))
		case state == passed && hasPrefix(element, "skipped"):
			state = skipped
		case hasPrefix(element, "/testcase"):
			end()
		}
	}
	end()
	tests.FailedTests = append(tests.FailedTests, t.names[noTool]...)
	return &tests
}

// xmlEntities decodes XML entities.
var xmlEntities = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'",
	"&#39;", "'", "&amp;", "&")
