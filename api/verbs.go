package api

// Requests of the verbs that name a run, and answers that have no type elsewhere.

// RunRequest names a run.
type RunRequest struct {
	Run string `json:"run"`
}

// OverviewRequest asks how the runs of workers stand, those of Codex Cloud left
// out.
type OverviewRequest struct {
	Limit int  `json:"limit,omitempty"`     // ended runs to list, 1 to 100; 0: 10
	Queue bool `json:"queueOnly,omitempty"` // only runs that came by the work queue
}

// Overview is how runs stand at one moment. Each list has as many runs as fit, at
// most 1000.
type Overview struct {
	Working []*Run `json:"working"` // by their start; those that wait for an answer, too
	Queued  []*Run `json:"queued"`  // by their position
	Ended   []*Run `json:"ended"`   // the latest first
	Counts  Counts `json:"counts"`
}

// Counts are numbers of runs, listed or not.
type Counts struct {
	Working int `json:"working"`
	Queued  int `json:"queued"`
	Ended   int `json:"ended"`
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
