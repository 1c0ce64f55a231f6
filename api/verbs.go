package api

import (
	"encoding/json"
	"fmt"

	"github.com/linesman/linesman/runs"
)

// Requests of the verbs that name a run, and answers that have no type elsewhere.

// RunRequest names a run.
type RunRequest struct {
	Run string `json:"run"`
}

// OverviewRequest is a request for the states of the runs of workers. Runs of
// Codex Cloud are not included.
type OverviewRequest struct {
	Limit int  `json:"limit,omitempty"`     // ended runs to list, 1 to 100; 0: 10
	Queue bool `json:"queueOnly,omitempty"` // only runs from the work queue

	Labels []string     `json:"labels,omitempty"` // KEY=VALUE: all of them
	Agent  string       `json:"agent,omitempty"`
	Dir    string       `json:"workingDir,omitempty"`
	States []runs.State `json:"states,omitempty"` // any of them; none: all
	Since  runs.Time    `json:"since,omitzero"`   // only runs that entered their state at that time or later
	Until  runs.Time    `json:"until,omitzero"`   // and before that time
	Unseen bool         `json:"unseen,omitempty"` // only runs that have ended and are unseen
}

// Overview is the state of the runs at one moment. Each list has as many runs as
// fit into one message, at most 1000.
type Overview struct {
	Working []*Run `json:"working"` // by their start; includes runs that wait for an answer
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

// WaitRequest is a request that is answered when a run has ended.
type WaitRequest struct {
	Run     string `json:"run"`
	Timeout int64  `json:"timeoutSec,omitempty"` // at most 3600; 0: 60. After that the error is [Timeout]
	// Until is what is waited for: end, the default, of the run; turn: no turn of a live run runs, and nothing waits
	// that is not held; input: the same, or a question is open.
	Until string `json:"until,omitempty"`
	After uint64 `json:"after,omitempty"` // not before the entry of [Sent]
}

// What a wait is for, in [WaitRequest].
const (
	UntilEnd   = "end"
	UntilTurn  = "turn"
	UntilInput = "input"
)

// ResultsRequest is a request for the outcome of a run.
type ResultsRequest struct {
	Run string `json:"run"`
	ResultRequest
}

// Result is the outcome of a run that has ended. Its JSON is that of the run with the
// members of the result beside those of the run.
type Result struct {
	*Run
	Output  Output        `json:"output"`
	Events  *RecentEvents `json:"recentEvents,omitempty"`
	Partial *Partial      `json:"partial,omitempty"` // of a run that timed out
	Basis   *Basis        `json:"stream,omitempty"`
}

// ResolveRequest names a run: by its id, by at least 3 characters that its id alone begins
// or ends with, with or without T-local- or T-cloud- before them, as "last", which is the
// newest run, or by a label KEY=VALUE, which is the newest run that has it.
type ResolveRequest struct {
	Ref string `json:"ref"`
}

// Resolved is the run that a reference names.
type Resolved struct {
	Run string `json:"run"`
}

// Seen reports that the owner of a run has opened it.
type Seen struct {
	Run    string     `json:"run"`
	State  runs.State `json:"state"`
	Unseen bool       `json:"unseen"` // always false
}

// EventsRequest asks for a page of events. All filters must fit.
type EventsRequest struct {
	Run string `json:"run"` // "": of all runs

	Agent  string   `json:"agent,omitempty"`
	Kinds  []string `json:"kinds,omitempty"`  // any of [EventKinds]; none: all
	Labels []string `json:"labels,omitempty"` // KEY=VALUE: all of them, of the run

	After uint64 `json:"after,omitempty"` // sequence; 0: from the first event
	Limit int    `json:"limit,omitempty"` // 1 to 1000; 0: 100
}

// QuestionsRequest asks for the questions that wait for an answer.
type QuestionsRequest struct {
	Request string `json:"request,omitempty"` // id of a run, or of a request; "": all
}

// Questions lists the questions that wait for an answer, the oldest first.
type Questions struct {
	Requests []Question `json:"requests"`
	Unlisted int        `json:"unlisted,omitempty"` // questions that do not fit into the message
	// Unread are runs that ask, too, but whose records are damaged: what they ask cannot be read. At most 100.
	Unread []string `json:"unread,omitempty"`
}

// AnswerRequest answers a run that waits. A text question takes a text or an error; a permission an option; a form a
// content, or the option decline or cancel.
type AnswerRequest struct {
	Request string  `json:"request"` // id of the run; of a text question, also of the request
	Text    *string `json:"text,omitempty"`
	Error   *string `json:"error,omitempty"`

	Question string `json:"question,omitempty"` // id; absent: the only one that is open
	// Option is the id of an option; or allow or deny, for the only one of kind allow_once or reject_once.
	Option  string          `json:"option,omitempty"`
	Content json.RawMessage `json:"content,omitempty"` // at most 16 KiB, as the schema in Fields says
	Digest  string          `json:"digest,omitempty"`  // of a question that is cut: see [Question]
}

// AskRequest creates a run that waits for an answer from outside, which ends it: [OpAnswer].
type AskRequest struct {
	Run    string      `json:"run"`    // its id; to ask again is no error
	Prompt string      `json:"prompt"` // what people see
	Model  string      `json:"model,omitempty"`
	Labels runs.Labels `json:"labels,omitempty"`

	Timeout int64 `json:"timeoutMs"` // how long an answer is accepted, 1 to 1,000,000,000 milliseconds
}

// LateAnswer is an answer from outside that the asking program has already.
type LateAnswer struct {
	Run    string `json:"run"`
	Status string `json:"status"` // success, error or timeout
	Text   string `json:"text,omitempty"`
	Error  string `json:"error,omitempty"`
}

// ReplyRequest asks for the reply of a run that has ended, in pieces.
type ReplyRequest struct {
	Run    string `json:"run"`
	Offset int    `json:"offset,omitempty"`
}

// Reply is a piece of what a run replied: its agent's last message, or what it was answered from outside.
type Reply struct {
	Status string `json:"status"`          // success or error
	Error  string `json:"error,omitempty"` // of an answer from outside
	Text   string `json:"text"`            // whole characters
	Offset int    `json:"offset"`
	Bytes  int    `json:"bytes"`          // of the whole text
	Next   int    `json:"next,omitempty"` // offset of the next piece; absent: this is the last one
}

// FieldReply is the field of a [NotFound] error of a run that has no reply.
const FieldReply = "reply"

// RequestRequest asks for the whole request of an open question, in pieces.
type RequestRequest struct {
	Run      string `json:"run"`
	Question string `json:"question"`
	Offset   int    `json:"offset,omitempty"`
}

// Request is a piece of the request of a question: JSON as the agent wrote it.
type Request struct {
	Text   string `json:"text"` // whole characters
	Offset int    `json:"offset"`
	Bytes  int    `json:"bytes"`          // of the whole request
	Next   int    `json:"next,omitempty"` // offset of the next piece; absent: this is the last one
	Digest string `json:"digest"`
}

// Workers are the workers that take tasks, and the agents that tasks can name.
type Workers struct {
	Workers []Worker `json:"workers"`
	// Agents that tasks can name; a worker may not have their programs.
	Agents []Agent `json:"agents"`
}

// Agent is a kind of agent.
type Agent struct {
	Kind  string `json:"kind"`            // as in `agent` of a run
	Short string `json:"short"`           // the name that people type
	Name  string `json:"name"`            // the name that people read
	Live  bool   `json:"live,omitempty"`  // its runs can be live
	Forks bool   `json:"forks,omitempty"` // a run can begin with a copy of a thread
}

// Nothing is a request without arguments, or an outcome that says no more than that there was no error.
type Nothing struct{}

// CleanupRequest is a request to end stuck runs and to remove old ones.
type CleanupRequest struct {
	StuckSec int64 `json:"stuckSec,omitempty"` // 60 and more; 0: 3600
	OldHours int64 `json:"oldHours,omitempty"` // 1 and more; 0: 24
	DryRun   bool  `json:"dryRun,omitempty"`   // change nothing
}

// Valid reports an age that is too small, or too large, as a [Validation] error.
func (q CleanupRequest) Valid() error {
	const year = 366 * 24 // hours
	switch {
	case q.StuckSec != 0 && (q.StuckSec < 60 || q.StuckSec > year*3600):
		return Invalid("stuckSec", fmt.Sprintf("must be 60 to %d", year*3600))
	case q.OldHours != 0 && (q.OldHours < 1 || q.OldHours > year):
		return Invalid("oldHours", fmt.Sprintf("must be 1 to %d", year))
	}
	return nil
}
