package runs

import "strings"

// MaxSummary and MaxActivity are the most characters of a summary, and of
// what a run does now.
const (
	MaxSummary  = 200
	MaxActivity = 200

	maxActivityRead = 4096 // bytes of it that are looked at
)

// Summary is one line for people about where the run stands: the beginning of
// its answer, why it failed, or what it does. It is redacted, and has at most
// MaxSummary characters.
func (r *Record) Summary() string {
	s := ""
	switch r.State {
	case StateCompleted:
		if r.FinalText != nil {
			s = firstSentence(*r.FinalText)
		}
		if s == "" {
			s = "Completed"
		}
	case StateFailed:
		message := r.ErrorContext().Message
		s = "Failed: " + message
		if _, how, found := strings.Cut(r.Outcome(), " ("); found && message != r.why() {
			s = "Failed: " + strings.TrimSuffix(how, ")") + ": " + message
		}
	case StateTimeout:
		s = "Timed out: " + r.why()
	case StateCancelled:
		s = "Cancelled"
	case StateQueued:
		s = "Queued"
	case StateInputRequired:
		s = "Waits for an answer from outside"
		if r.Waits() {
			s = "Waits for an agent's answer, to be started again with it"
		}
	default:
		s = "Working"
		if r.Activity != "" {
			s += ": " + r.Activity
		}
	}
	if s = oneLine(s, MaxSummary); s == "" {
		return string(r.State)
	}
	return s
}

// firstSentence is the first sentence of the first line of text that says
// something, without the marks of a heading or a list.
func firstSentence(text string) string {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(strings.TrimLeft(line, "#*->_` \t\r"))
		if line == "" {
			continue
		}
		for _, end := range []string{". ", "! ", "? "} {
			if i := strings.Index(line, end); i >= 0 {
				line = line[:i+1]
			}
		}
		return strings.TrimRight(line, "*_` \t\r")
	}
	return ""
}

// CacheHitRate is which part of the thread's input tokens came from a cache,
// 0 to 1; false where no input is counted.
func (r *Record) CacheHitRate() (float64, bool) {
	if r.Usage == nil || r.Usage.Input <= 0 {
		return 0, false
	}
	rate := float64(r.Usage.CachedInput) / float64(r.Usage.Input)
	return min(max(rate, 0), 1), true
}
