package runs

import "strings"

// MaxTitle is the maximum length of a title, in characters.
const MaxTitle = 120

// Title returns the title of a run from the text of a prompt, or from a title: its first
// line that is not blank, redacted, without control characters, at most [MaxTitle]
// characters. The title of a title is itself.
func Title(text string) string {
	for line := range strings.Lines(text) {
		if title := oneLine(line[:min(len(line), maxTitleRead)], MaxTitle); title != "" {
			return title
		}
	}
	return ""
}

// maxTitleRead is how much of a line is read for a title, in bytes.
const maxTitleRead = 4096
