package runs

import "strings"

// The maximum lengths of a summary and of an activity, in characters.
const (
	maxSummary  = 200
	maxActivity = 200

	maxActivityRead = 4096 // bytes of an activity that are read
)

// Summary describes the state of the run in one line for people: the beginning
// of the answer, the reason of the failure, or the current activity. It is
// redacted and has at most maxSummary characters.
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
		if _, reason, found := strings.Cut(r.Outcome(), " ("); found && message != r.reasonText() {
			s = "Failed: " + strings.TrimSuffix(reason, ")") + ": " + message
		}
	case StateTimeout:
		s = "Timed out: " + r.reasonText()
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
	if s = oneLine(s, maxSummary); s == "" {
		return string(r.State)
	}
	return s
}

// firstSentence returns the first sentence of the first non-empty line of text,
// without the Markdown of a heading or a list.
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

// CacheHitRate returns the fraction of the thread's input tokens that came from a
// cache, 0 to 1. It returns false if the number of input tokens is unknown.
func (r *Record) CacheHitRate() (float64, bool) {
	if r.Usage == nil || r.Usage.Input <= 0 {
		return 0, false
	}
	rate := float64(r.Usage.CachedInput) / float64(r.Usage.Input)
	return min(max(rate, 0), 1), true
}
