package api

import "fmt"

// Requests of the verbs that name a run, and answers that have no type elsewhere.

// RunRequest names a run.
type RunRequest struct {
	Run string `json:"run"`
}

// WaitRequest asks for a run once it has ended.
type WaitRequest struct {
	Run     string `json:"run"`
	Timeout int64  `json:"timeoutSec,omitempty"` // at most 3600; 0: 60. Then the error is [Timeout]
}

// ResultsRequest asks what came of a run.
type ResultsRequest struct {
	Run string `json:"run"`
	ResultRequest
}

// Result is what came of a run that has ended.
type Result struct {
	Run     *Run          `json:"run"`
	Output  Output        `json:"output"`
	Events  *RecentEvents `json:"events,omitempty"`
	Partial *Partial      `json:"partial,omitempty"` // of a run that timed out
	Basis   *Basis        `json:"stream,omitempty"`
}

// EventsRequest asks for a page of events.
type EventsRequest struct {
	Run   string `json:"run"`
	After uint64 `json:"after,omitempty"` // sequence; 0: from the first event
	Limit int    `json:"limit,omitempty"` // 1 to 1000; 0: 100
}

// QuestionsRequest asks for the runs that wait for an answer.
type QuestionsRequest struct {
	Request string `json:"request,omitempty"` // id of a request, or of its run; "": all
}

// Questions are runs that wait for an answer, the oldest first.
type Questions struct {
	Requests []Question `json:"requests"`
	Unlisted int        `json:"unlisted,omitempty"` // that do not fit one message
}

// AnswerRequest answers a run that waits: by a text, or by an error.
type AnswerRequest struct {
	Request string  `json:"request"` // id of the request, or of its run
	Text    *string `json:"text,omitempty"`
	Error   *string `json:"error,omitempty"`
}

// Workers are the workers that take tasks.
type Workers struct {
	Workers []Worker `json:"workers"`
}

// Nothing is a request without arguments.
type Nothing struct{}

// CleanupRequest asks for stuck runs to be ended and for old ones to be removed.
type CleanupRequest struct {
	StuckSec int64 `json:"stuckSec,omitempty"` // 60 and more; 0: 3600
	OldHours int64 `json:"oldHours,omitempty"` // 1 and more; 0: 24
	DryRun   bool  `json:"dryRun,omitempty"`   // change nothing
}

// Check reports an age that is too small, or too large, as a [Validation] error.
func (q CleanupRequest) Check() error {
	const year = 366 * 24 // hours
	switch {
	case q.StuckSec != 0 && (q.StuckSec < 60 || q.StuckSec > year*3600):
		return Invalid("stuckSec", fmt.Sprintf("must be 60 to %d", year*3600))
	case q.OldHours != 0 && (q.OldHours < 1 || q.OldHours > year):
		return Invalid("oldHours", fmt.Sprintf("must be 1 to %d", year))
	}
	return nil
}
