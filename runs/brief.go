package runs

import (
	"encoding/json"
	"strings"
)

// Limits of the texts of a [Brief].
const (
	maxBrief = 160  // characters
	maxNests = 3    // JSON documents in each other that are read for a message
	maxPlain = 4096 // bytes of a line that are read
)

// Brief is what came of a run that has ended, for a row of a list. Its texts are redacted lines of at most
// 160 characters.
type Brief struct {
	Answer string     `json:"answer,omitempty"` // first line of the answer of a completed run, without Markdown, redacted
	Cause  string     `json:"cause,omitempty"`  // why the run has failed, or timed out, in a redacted line
	Hint   string     `json:"hint,omitempty"`   // what to try then; absent only without a cause
	Tested *TestCount `json:"tests,omitempty"`  // the newest run of tests
	// Cost of the run with its sub-agents in US dollars, as the agent tells it; absent: unknown, or with that of
	// earlier runs, see [Record.Spent].
	Cost *float64 `json:"costUsd,omitempty"`
}

// TestCount counts the tests of the newest run of tests.
type TestCount struct {
	Passed int `json:"passed"`
	Failed int `json:"failed"`
}

// Brief returns what came of the run. It is zero before the end.
func (r *Record) Brief() (b Brief) {
	if !r.State.Final() {
		return b
	}
	if r.State == StateCompleted && r.FinalText != nil {
		b.Answer = oneLine(firstLine(*r.FinalText), maxBrief)
	}
	if c := r.ErrorContext(); c != nil {
		message := messageIn(c.Message)
		if r.State == StateTimeout {
			message = r.reasonText()
		}
		b.Cause, b.Hint = oneLine(message, maxBrief), oneLine(c.Suggestions[0], maxBrief)
	}
	if t := r.Tests; t != nil {
		b.Tested = &TestCount{t.Passed, t.Failed}
	}
	if s := r.Spent(); !s.Earlier {
		b.Cost = s.Cost
	}
	return b
}

// firstLine returns the first line of text that is not empty, without Markdown.
func firstLine(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimLeft(line, "#*->_` \t\r"))
		if line = strings.TrimRight(line[:min(len(line), maxPlain)], "*_` \t\r"); line != "" {
			return unmarked(line)
		}
	}
	return ""
}

// unmarked returns a line without the marks of bold text, of code and of links in Markdown.
func unmarked(line string) string {
	if strings.ContainsAny(line, "*`") {
		line = withoutPairs(withoutPairs(line, "**"), "`")
	}
	for from := 0; ; {
		i := strings.Index(line[from:], "](http")
		if i < 0 {
			return line
		}
		i += from
		open, end := strings.LastIndexByte(line[:i], '['), strings.IndexByte(line[i:], ')')
		if open < 0 || end < 0 {
			return line
		}
		line = line[:open] + line[open+1:i] + line[i+end+1:]
		from = i - 1
	}
}

// withoutPairs removes a mark where it stands around text, without a space inside or a letter before.
func withoutPairs(line, mark string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(line, mark)
		inside, after, closed := strings.Cut(rest, mark)
		if !found || !closed {
			b.WriteString(line)
			return b.String()
		}
		if inside == "" || strings.TrimSpace(inside) != inside ||
			before != "" && isWordChar(before[len(before)-1]) {
			b.WriteString(before + mark)
			line = rest
			continue
		}
		b.WriteString(before + inside)
		line = after
	}
}

// messageIn returns the message in an error that is JSON, or contains JSON behind other text; any other one as
// it is. The JSON may be cut off behind the message.
func messageIn(text string) string {
	for range maxNests {
		brace := strings.IndexByte(text, '{')
		if brace < 0 {
			break
		}
		message := ""
		for _, key := range []string{`"message"`, `"detail"`, `"error"`} {
			if message = memberText(text[brace:], key); message != "" {
				break
			}
		}
		if message == "" {
			break
		}
		text = strings.TrimSpace(text[:brace] + message) // in front of it may be a status
	}
	return text
}

// memberText returns the first member with a key that is a text, "" if there is none.
func memberText(object, key string) string {
	for {
		_, rest, found := strings.Cut(object, key)
		if !found {
			return ""
		}
		object = rest
		value, isMember := strings.CutPrefix(strings.TrimLeft(rest, " \n\t"), ":")
		if !isMember {
			continue
		}
		var text string
		if json.NewDecoder(strings.NewReader(value)).Decode(&text) == nil && text != "" {
			return text
		}
	}
}
