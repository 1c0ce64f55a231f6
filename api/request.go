package api

import (
	"encoding/json"
	"time"

	"github.com/linesman/linesman/runs"
)

// DefaultAgent is the agent of a task that names none.
const DefaultAgent = "codex"

// Preview is a mode beside those of [runs.Mode]: the agent may read, and is
// asked for a plan only.
const Preview runs.Mode = "preview"

// Names of fields of a request, as errors have them: those that several packages name. See [Names].
const (
	FieldPrompt  = "prompt"
	FieldDir     = "workingDir"
	FieldThread  = "threadId"
	FieldResume  = "resume"
	FieldFork    = "fork"
	FieldWebhook = "webhook"
	FieldKey     = "idempotencyKey"
	FieldRun     = "run"
	FieldLabels  = "labels"
	FieldRef     = "ref"
	FieldAfter   = "after"
	FieldKinds   = "kinds"
	FieldWords   = "words"
)

// Submission is a request to carry out a task. Its limits are those of [runs.Task].
type Submission struct {
	// Run is the id of the run; "": a new one. A submission with the id of a
	// run that exists is answered with that run.
	Run string `json:"runId,omitempty"`

	// Some fields of the task may be left out. Agent: that of the thread, else [DefaultAgent]. Dir: that of the
	// thread, else the server's default. Mode: read-only; it may also be [Preview]. Title: the first line of
	// the prompt.
	runs.Task

	// The thread that the task continues, or of which its own begins as a copy: at most one of both. Thread, which
	// is Resume by id, is that thread if both are there. ForkedFrom is not for callers.
	Resume *ThreadRef `json:"resume,omitempty"`
	Fork   *ThreadRef `json:"fork,omitempty"`

	Confirm        bool `json:"confirm,omitempty"`             // required for modes that can write
	DestructiveGit bool `json:"allowDestructiveGit,omitempty"` // git commands that may lose work are allowed
	Force          bool `json:"force,omitempty"`               // continue a session that somebody else used just now
	// NonInteractive false lets the agent of a live run ask people; true denies what it asks. Other runs never ask.
	NonInteractive *bool `json:"nonInteractive,omitempty"`
	// Extensions are options by their ids in the Universal Agent API, at most 16 of together 128 KiB.
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
	Webhook    *Webhook                   `json:"webhook,omitempty"`
	Once       Once                       `json:"once,omitzero"`

	// Traceparent is the span of the caller (W3C Trace Context), which becomes the parent of
	// that of the run; "", or invalid: that of the request, else none.
	Traceparent string `json:"traceparent,omitempty"`

	// What only the settings of linesman say, of a task by a profile: its queue, "" for that of the service, and the
	// directory that it may not leave, see [runs.Task].
	Queue string `json:"-"`
	Below string `json:"-"`
}

// ThreadRef names an earlier thread of an agent.
type ThreadRef struct {
	Selector string `json:"selector"`     // last or id
	ID       string `json:"id,omitempty"` // of the thread, with the selector id
}

// The selectors. The last thread is the one whose newest run ended last, of those of the agent in the directory of
// the task that linesman knows.
const (
	SelectLast = "last"
	SelectID   = "id"
)

// Last reports whether r is the last thread.
func (r *ThreadRef) Last() bool { return r != nil && r.Selector == SelectLast }

// Once makes a request idempotent: the same key is carried out once for each
// caller, and later attempts get the first outcome.
type Once struct {
	Key  string `json:"key,omitempty"` // "": the request may be carried out each time
	Hash string `json:"-"`             // hash of the request; "": the service computes it
}

// Webhook is an address that is notified of a run, and how a receiver knows
// that linesman sent it. It travels towards linesman only.
type Webhook struct {
	URL         string          `json:"url"`
	OperationID string          `json:"operationId,omitempty"` // sent back with each notification
	Token       string          `json:"token,omitempty"`       // sent back with each notification
	Scheme      string          `json:"scheme,omitempty"`      // Bearer or HMAC-SHA256; "": signed by RFC 9421
	Credentials string          `json:"credentials,omitempty"`
	Operation   string          `json:"operation,omitempty"` // what the caller asked for, as its protocol names it
	Context     json.RawMessage `json:"context,omitempty"`   // an object of the caller, sent back byte for byte
}

// CloudSubmission asks Codex Cloud for a task.
type CloudSubmission struct {
	Prompt         string   `json:"prompt"`
	Environment    string   `json:"environment"`        // its id or its unique label
	Attempts       int      `json:"attempts,omitempty"` // 0: one
	DestructiveGit bool     `json:"allowDestructiveGit,omitempty"`
	Governance     string   `json:"governanceContext,omitempty"`
	Webhook        *Webhook `json:"webhook,omitempty"`
	Once           Once     `json:"once,omitzero"`
}

// Submitted is the outcome of a task that was accepted.
type Submitted struct {
	Run        string `json:"run"`
	At         int64  `json:"at"`                 // Unix milliseconds
	Position   int    `json:"position,omitempty"` // tasks before it in the queue
	Thread     string `json:"threadId,omitempty"`
	CloudID    string `json:"cloudId,omitempty"`
	WebURL     string `json:"webUrl,omitempty"`
	Basis      *Basis `json:"stream,omitempty"`
	Governance string `json:"governanceContext,omitempty"`
	Context    string `json:"-"` // the caller's own name of its context

	// Replayed reports that this is the stored outcome of an earlier request
	// with the same key.
	Replayed bool `json:"replayed,omitempty"`
}

// Cancel is a request to end a run.
type Cancel struct {
	Run    string `json:"run"`
	Reason string `json:"reason,omitempty"` // for the run's log
	Once   Once   `json:"once,omitzero"`
}

// Cancelled is the outcome of a cancel.
type Cancelled struct {
	Run    string     `json:"run"`
	At     int64      `json:"at"`               // Unix milliseconds
	State  runs.State `json:"state,omitempty"`  // cancelled, or working while the agent is being ended
	Before runs.State `json:"before,omitempty"` // the state that the run had
	Basis  *Basis     `json:"stream,omitempty"`

	Replayed bool `json:"replayed,omitempty"` // see [Submitted]
}

// Order is the order of a list of runs, the newest first. "" is by when a run was queued or, without a queue,
// started, which never changes.
type Order string

// ByChange is by when a run entered its state: a run that changes moves to the front.
const ByChange Order = "changed"

// List asks for a page of runs.
type List struct {
	States  []runs.State `json:"states,omitempty"` // any of them; none: all
	Agent   string       `json:"agent,omitempty"`
	Dir     string       `json:"workingDir,omitempty"`
	Thread  string       `json:"threadId,omitempty"`
	Context string       `json:"context,omitempty"` // a thread, or any run of it
	Labels  []string     `json:"labels,omitempty"`  // KEY=VALUE: all of them
	Words   []string     `json:"words,omitempty"`   // that a text of the run has, all of them; capitals do not count
	Unseen  bool         `json:"unseen,omitempty"`  // only runs that have ended and are unseen
	Since   runs.Time    `json:"since,omitzero"`    // only runs that entered their state at that time or later
	Until   runs.Time    `json:"until,omitzero"`    // and before that time
	Order   Order        `json:"order,omitempty"`
	Recent  int          `json:"-"`                // of a stream: begins with so many ended runs, the newest; 0: all
	Limit   int          `json:"limit,omitempty"`  // 0: 20
	Cursor  string       `json:"cursor,omitempty"` // Next of a page of the same list
	Covers  bool         `json:"covers,omitempty"` // the page also has its Covers
}

// ResultRequest is a request for the outcome of a run that has ended.
type ResultRequest struct {
	// add what the agent printed; always added for a run that failed or timed out
	Output   bool `json:"output,omitempty"`
	NoOutput bool `json:"-"`                        // leave the output out in any case
	MaxBytes int  `json:"maxOutputBytes,omitempty"` // bytes of output, half of them for each stream; 0: 64 KiB
	Events   bool `json:"events,omitempty"`         // add the newest events
	Count    bool `json:"-"`                        // count the events, even if none is added
	Work     bool `json:"-"`                        // add what the agent did, from the details of the run
}

// Cleanup is a request to end stuck runs and to remove old ones.
type Cleanup struct {
	Stuck  time.Duration `json:"stuck"` // a run without a worker and without a message for this long is ended
	Old    time.Duration `json:"old"`   // the record of a run that ended this long ago is removed
	DryRun bool          `json:"dryRun,omitempty"`
}

// CleanedUp is the outcome of a cleanup.
type CleanedUp struct {
	Stuck   []string      `json:"stuck"`   // runs found stuck
	Ended   []string      `json:"ended"`   // stuck runs that were ended, with the reason lost
	Old     int           `json:"old"`     // runs found old
	Oldest  time.Duration `json:"oldest"`  // age of the oldest, nanoseconds
	Removed int           `json:"removed"` // old runs whose record was removed
}

// Environment is one environment of Codex Cloud.
type Environment struct {
	ID          string    `json:"id"`
	Name        string    `json:"name"`
	Repository  string    `json:"repository,omitempty"`
	Stack       string    `json:"techStack,omitempty"`
	Description string    `json:"description,omitempty"`
	Created     runs.Time `json:"createdAt,omitzero"`
}

// Environments are the environments that a local file lists.
type Environments struct {
	File string        `json:"file"`
	All  []Environment `json:"environments"`
}

// Question is what a run asks: the program of a file bridge, or the agent of a live run. All of its texts are as they
// were asked, not redacted; all but Prompt have control and direction characters as ⟨U+202E⟩.
type Question struct {
	Run      string    `json:"run"`
	ID       string    `json:"id"`   // of a live run q1, q2, …; else q1, for its prompt
	Kind     string    `json:"kind"` // text, permission or form
	Request  string    `json:"requestId,omitempty"`
	Agent    string    `json:"agentName,omitempty"` // that is asked, as the request names it; of a live run, that asks
	Phase    string    `json:"phase,omitempty"`
	RunTitle string    `json:"runTitle,omitempty"`
	Asked    runs.Time `json:"askedAt,omitzero"`
	Due      runs.Time `json:"dueAt,omitzero"`   // 0: never
	Prompt   string    `json:"prompt,omitempty"` // of a text, unchanged: who shows it makes its characters visible
	Model    string    `json:"model,omitempty"`

	// What a permission is for, as the agent tells it.

	Title   string           `json:"title,omitempty"`      // of the tool call; of a form, what it is for
	Tool    string           `json:"tool,omitempty"`       // kind: execute, edit, read, …
	Dir     string           `json:"workingDir,omitempty"` // of the run
	Command string           `json:"command,omitempty"`
	Input   string           `json:"input,omitempty"` // of the tool, as JSON, if it is no command
	Text    string           `json:"text,omitempty"`  // what else the agent says
	Files   []QuestionFile   `json:"files,omitempty"`
	Options []QuestionOption `json:"options,omitempty"`

	Fields json.RawMessage `json:"fields,omitempty"` // of a form: the JSON Schema of its content, an object

	// Cut says that something is left out or shortened here: it is allowed only with the digest, the SHA-256 of the
	// whole request in hex.
	Cut    bool   `json:"cut,omitempty"`
	Digest string `json:"digest,omitempty"`
}

// The kinds of questions.
const (
	KindText       = "text" // of a file bridge
	KindPermission = runs.WaitsPermission
	KindForm       = "form"
)

// QuestionFile is a file that a tool is to change.
type QuestionFile struct {
	Path string `json:"path"`
	Diff string `json:"diff,omitempty"` // in unified form, without a header; absent: the agent names only the path
}

// QuestionOption is an answer that the agent offers.
type QuestionOption struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // allow_once, allow_always, reject_once, reject_always, or another
	Name string `json:"name"`
}

// Answered is the state of a run after an answer, and the decision.
type Answered struct {
	Run   string     `json:"run"`
	State runs.State `json:"state"`

	// Of a question of a live run.

	Question string `json:"question,omitempty"`
	Outcome  string `json:"outcome,omitempty"` // allow, deny, submitted, declined or cancelled
	Option   string `json:"option,omitempty"`  // id
	By       string `json:"by,omitempty"`      // who decided: the name of a token, owner, operator, policy, timeout
	Via      string `json:"via,omitempty"`     // the surface
	// Delivered says that the agent has the answer. Else the worker gives it to the agent when it is back.
	Delivered bool `json:"delivered,omitempty"`
}
