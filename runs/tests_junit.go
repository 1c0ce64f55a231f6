package runs

import (
	"bytes"
	"strings"
)

// testCases reads a report in the form of JUnit: it counts <testcase> elements.
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
	var t tally
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
		case has(element, "testcase "):
			end()
			state = passed
			name = member(element, ` name="`)
		case state == passed && (has(element, "failure") || has(element, "error")):
			state = failed
			t.failed(noTool, []byte(xmlText.Replace(string(bound(name, 1<<10)))))
		case state == passed && has(element, "skipped"):
			state = skipped
		case has(element, "/testcase"):
			end()
		}
	}
	end()
	tests.FailedTests = append(tests.FailedTests, t.names[noTool]...)
	return &tests
}

// xmlText decodes the entities of XML.
var xmlText = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&quot;", `"`, "&apos;", "'", "&#39;", "'", "&amp;", "&")
