package api

import (
	"time"

	"github.com/linesman/linesman/runs"
)

// Run is a run and what is known of it: a run that was submitted a moment ago has no details yet. Lists leave Detail
// out.
type Run struct {
	runs.Summary
	*Detail
}

// Need returns whether the run needs a person at now.
func (r *Run) Need(now time.Time) runs.Need { return r.Summary.Need(now.UnixMilli()) }

// Detail is the part of a run that only its record has.
type Detail struct {
	Sentence string `json:"summary"` // what came of the run, in a sentence
	Exit     *Exit  `json:"exit,omitempty"`
	Turns    Turns  `json:"turns"`

	Conversation *Conversation `json:"conversation,omitempty"` // of a live run that is kept

	Lines       int64            `json:"lines"` // of stdout
	StdoutBytes int64            `json:"stdoutBytes"`
	StderrBytes int64            `json:"stderrBytes"`
	Events      map[string]int64 `json:"events,omitempty"` // number of events of each kind
	Dropped     int64            `json:"droppedEvents"`    // events whose data was too large
	Unknown     int64            `json:"unknownLines"`
	Drift       *runs.Drift      `json:"drift,omitempty"` // what linesman does not know in the output; absent: nothing
	Malformed   int64            `json:"malformedLines"`
	Gaps        int64            `json:"gaps"` // holes in the output
	ToolCalls   int64            `json:"toolCalls"`
	OpenCalls   []OpenCall       `json:"openCalls,omitempty"`
	Usage       *RunUsage        `json:"usage,omitempty"`         // what this run has used; absent: unknown
	ThreadUsage *Usage           `json:"threadUsage,omitempty"`   // of all runs of the thread, as the agent tells it
	ThreadCost  *float64         `json:"threadCostUsd,omitempty"` // in US dollars, of all runs of the thread: by the agent
	Models      []ModelUsage     `json:"models,omitempty"`        // what each model used for the run, at most 8
	Files       *Files           `json:"fileOperations,omitempty"`
	Changes     *Changes         `json:"changes,omitempty"` // in the directory of the run; absent: no git work tree
	Tests       *Tests           `json:"testResults,omitempty"`
	Error       *ErrorContext    `json:"errorContext,omitempty"`
	FinalText   *string          `json:"finalText,omitempty"`      // beginning of the agent's last message, at most 16 KiB
	FinalBytes  int64            `json:"finalTextBytes,omitempty"` // of the whole last message
	Cloud       *Cloud           `json:"cloud,omitempty"`
}

// Exit is how the agent's process ended.
type Exit struct {
	Reason runs.Reason `json:"reason"`
	Code   *int        `json:"code,omitempty"`
	Signal int         `json:"signal,omitempty"`
	Spawn  string      `json:"spawn,omitempty"`
	Why    string      `json:"why,omitempty"` // of a refused task: the rule, for people
}

// Turns counts the turns that ended.
type Turns struct {
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
}

// OpenCall is a tool call that has not ended.
type OpenCall struct {
	ID   string    `json:"id"`
	Kind string    `json:"kind"`
	Name string    `json:"name,omitempty"`
	At   runs.Time `json:"at"`
}

// RunUsage is what a run has used: what the model served for it. Lists of runs, budgets, metrics
// and sums of days count the total.
type RunUsage struct {
	Own       *Usage `json:"own,omitempty"`       // of the run without its sub-agents; absent: unknown
	Subagents *Usage `json:"subagents,omitempty"` // of its sub-agents; absent: there were none, or unknown
	Total     *Usage `json:"total,omitempty"`     // of both; absent: unknown
	Partial   bool   `json:"partial,omitempty"`   // requests are missing in the total: it is a lower bound
	// The total may count what the thread used before this run: it is an upper bound. It is in no list, budget or
	// metric.
	Earlier bool `json:"earlier,omitempty"`
}

// Usage counts tokens.
type Usage struct {
	Input      int64 `json:"inputTokens"`
	Cached     int64 `json:"cachedInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
	Output     int64 `json:"outputTokens"`
	Reasoning  int64 `json:"reasoningOutputTokens"`
}

// ModelUsage is what one model has used, as the agent tells it.
type ModelUsage struct {
	Name string `json:"name"`
	Usage
	Cost *float64 `json:"costUsd,omitempty"` // in US dollars
}

// Files are the files that a run changed.
type Files struct {
	Modified     []string `json:"modified"`
	Added        []string `json:"added"`
	Deleted      []string `json:"deleted"`
	Unlisted     int      `json:"unlisted,omitempty"`
	LinesChanged *int64   `json:"linesChanged,omitempty"`
}

// Tests is the result of the newest run of tests.
type Tests struct {
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Names   []string `json:"failedTests"`
}

// ErrorContext is why a run failed, as far as its output shows.
type ErrorContext struct {
	Message     string          `json:"message"`
	Type        string          `json:"type,omitempty"`
	FailedFiles []string        `json:"failedFiles"`
	Locations   []runs.Location `json:"locations"`
	Suggestions []string        `json:"suggestions"`
}

// Cloud is the state of a task in a cloud service.
type Cloud struct {
	ID           string `json:"id,omitempty"`
	URL          string `json:"url,omitempty"`
	Environment  string `json:"environment,omitempty"`
	Status       string `json:"status,omitempty"`
	Attempts     int    `json:"attempts,omitempty"`
	Applied      bool   `json:"applied,omitempty"`
	FilesChanged int    `json:"filesChanged,omitempty"`
	Added        int    `json:"linesAdded,omitempty"`
	Removed      int    `json:"linesRemoved,omitempty"`
}

// RunPage is a page of runs.
type RunPage struct {
	Runs []*Run `json:"runs"`
	Next string `json:"next,omitempty"` // cursor of the next page; absent: this is the last page
	// Covers is the sequence up to which all events are of runs that lists have, or whose records are removed; absent:
	// not known, or not asked for.
	Covers uint64 `json:"covers,omitempty"`
}

// Sessions is a page of threads that tasks can continue.
type Sessions struct {
	Sessions []Session `json:"sessions"`
	Next     string    `json:"next,omitempty"` // cursor of the next page; absent: this is the last page
}

// Session is a thread.
type Session struct {
	Newest  runs.Summary `json:"newest"`            // run of the thread
	Refused string       `json:"refused,omitempty"` // why it cannot be continued now; absent: it can
}

// RunChange is an element of a stream of runs; one of Run, Gone and Synced is set.
type RunChange struct {
	ID     string  // a reader that begins again after it misses nothing; "": there is no such point
	Run    *Run    // a run as in lists, whole
	Gone   string  // id of a run that was removed, or does not fit the filter; the reader may not have it
	Synced *Synced // from now on there are only changes
}

// Synced reports that a reader of a stream of runs has all of them.
type Synced struct {
	// Resumed: the reader has what it had before, with the changes since then. Otherwise it has
	// only the runs that it got before this.
	Resumed bool `json:"resumed"`
	// Next is the cursor of the pages with the runs that the stream has left out, by the order
	// [ByChange]; "": there are none, or it was resumed.
	Next string `json:"next,omitempty"`
}

// Worker is a worker process that takes tasks.
type Worker struct {
	ID       string    `json:"id"` // of the process: a worker may be several
	Name     string    `json:"name"`
	Version  string    `json:"version,omitempty"`
	Queue    string    `json:"queue"`
	Slots    int       `json:"slots"`
	Busy     int       `json:"busy"`
	Agents   []string  `json:"agents"` // kinds of agents whose programs it finds
	LastSeen runs.Time `json:"lastSeenAt"`

	AgentVersions map[string]string `json:"agentVersions,omitempty"` // of the programs by kind, as far as they are known

	// Capabilities of its tasks by the kind of their agent, sorted: ids of the Universal Agent API.
	Capabilities map[string][]string `json:"capabilities,omitempty"`

	Roots []string `json:"roots,omitempty"` // directories in and below which its tasks may work; absent: unknown
	Modes []string `json:"modes,omitempty"` // what its tasks may do; absent: unknown
}
