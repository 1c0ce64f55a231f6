// Package runs owns the life cycle of a run: the entries of its raw log, and the
// run record that is derived from them. It is pure: no clock, no I/O, no NATS.
//
//	raw log: queued? start (out | err | note | cancel)* exit ──▶ Record
//	         queued cancel
//	         start question (answer | cancel | exit)
//
// A [Record] is folded from the same entries and lines as the events, in the same
// order, so replaying the raw log recreates both.
package runs

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// State is the state of a run.
type State string

// The states. The last four are final.
const (
	StateQueued        State = "queued"
	StateWorking       State = "working"
	StateInputRequired State = "input-required" // awaiting external input, see [Record.Waits]
	StateCompleted     State = "completed"
	StateFailed        State = "failed"
	StateCancelled     State = "cancelled"
	StateTimeout       State = "timeout"
)

// Final reports whether a run in state s has ended.
func (s State) Final() bool {
	return s == StateCompleted || s == StateFailed || s == StateCancelled || s == StateTimeout
}

// Limits of a record.
const (
	maxRecord    = 64 << 10 // bytes of JSON
	maxFinalText = 16 << 10 // bytes of the stored final text
	maxOpenCalls = 24       // listed tool calls; more are only counted

	maxDir         = 4 << 10  // bytes of JSON of the working directory
	maxCallField   = 64       // bytes of JSON of each field of a listed call
	maxCallShown   = 32       // bytes of JSON of the name of a listed call for people
	maxFinalEscape = 17 << 10 // bytes of JSON of the final text
	maxQueue       = 4 << 10  // bytes of JSON of the messages that wait

	// A governance token with a longer JSON form shortens the final text.
	maxGovernanceSize = MaxGovernance + 2 // bytes of JSON
)

// Record is the state of a run. Times are those of its entries, in Unix milliseconds;
// 0 means not yet. The JSON of a record has at most [maxRecord] bytes.
type Record struct {
	ID string `json:"id"`
	// Of Attributes, Dir is omitted if its JSON has more than maxDir bytes, Model is the newest one that is known, and
	// Thread is the one that the agent has reported, at most 1024 bytes of JSON.
	Attributes
	Version string `json:"version,omitempty"` // version of the agent, if known
	State   State  `json:"state"`
	Source  string `json:"source,omitempty"` // run, tail, session, pipe, queue, cloud or external
	Worker  string `json:"worker,omitempty"` // worker that owns or owned the run
	Queue   string `json:"queue,omitempty"`  // name of the work queue
	Work    uint64 `json:"work_seq,omitempty"`

	QueuedAt  int64 `json:"queued_at,omitempty"`
	StartedAt int64 `json:"started_at,omitempty"`
	ActiveAt  int64 `json:"active_at,omitempty"` // time of the last output
	EndedAt   int64 `json:"ended_at,omitempty"`  // see [Record.End]
	Due       int64 `json:"due_at,omitempty"`    // see [Start]

	Withheld *Withheld `json:"withheld,omitempty"` // nil: no credential

	Unboxed bool   `json:"external_sandbox,omitempty"` // see [Start]
	Options *flags `json:"flags,omitempty"`            // of the command line for what the caller asked for; nil: none

	Reason string `json:"reason,omitempty"` // reason for the final state; see [Record.End]
	Exit   *Exit  `json:"exit,omitempty"`

	Continues string `json:"continues,omitempty"` // id of the task that this run resumes, see [LabelContinues]

	Cancel   bool  `json:"cancel_requested,omitempty"`
	CancelAt int64 `json:"cancel_at,omitempty"` // time of the first request

	Resumes   string `json:"resumes,omitempty"` // thread that the run was started to resume, or to fork
	TurnsDone int64  `json:"turns_completed"`
	TurnsBad  int64  `json:"turns_failed"`
	LastTurn  Turn   `json:"last_turn,omitempty"` // last terminal state change; 0: none
	InTurn    bool   `json:"in_turn,omitempty"`   // a turn has started that a line must end, and has not; false at the end

	Begun bool `json:"turn_begun,omitempty"` // a turn has begun since LastTurn
	// The turn has completed, unless a line follows that says otherwise; false at the end.
	Answered bool `json:"answered,omitempty"`

	Tasks int `json:"background_tasks,omitempty"` // that go on after a result; 0 at the end

	Lines     int64            `json:"lines"` // blank lines included
	Blank     int64            `json:"blank_lines"`
	Bytes     int64            `json:"bytes"` // of stdout
	ErrBytes  int64            `json:"stderr_bytes"`
	Events    map[string]int64 `json:"events,omitempty"` // number of events by kind token
	Dropped   int64            `json:"dropped"`          // events with dropped data
	Unknown   int64            `json:"unknown"`          // lines of an unknown type
	Malformed int64            `json:"malformed"`        // lines that could not be parsed
	Drift     *Drift           `json:"drift,omitempty"`  // nil: the dialect knows all of the output
	Gaps      int64            `json:"gaps"`             // gaps in the output
	Bad       int64            `json:"unreadable_records"`

	// What the agent tells about tokens and costs; [Record.Spent] is what the run has used.
	// Usage, Cost and Models are the [Account] of the thread, or where it tells no total, of the
	// run; Before is that when the run started. Own is what its lines tell of the run without
	// its sub-agents, All with them, and Logged what its logs tell.
	Usage     *Usage   `json:"usage,omitempty"`
	Counts    counts   `json:"usage_counts,omitempty"`
	Before    *Account `json:"usage_before,omitempty"`
	Own       *Usage   `json:"usage_own,omitempty"`
	All       *Usage   `json:"usage_all,omitempty"`
	Logged    *Logged  `json:"usage_logged,omitempty"`
	Delegates bool     `json:"delegates,omitempty"` // it has started sub-agents
	Untold    bool     `json:"untold,omitempty"`    // it makes requests to the model that no line tells
	Cost      *float64 `json:"cost_usd,omitempty"`
	Models    []Model  `json:"models,omitempty"`

	Progress *Progress `json:"progress,omitempty"`
	Activity string    `json:"activity,omitempty"` // current activity, for people, redacted; "" after the end
	Doing    Doing     `json:"doing,omitzero"`     // what the agent is doing; zero after the end, or if unknown
	Steps    steps     `json:"steps,omitzero"`

	Files       *Files       `json:"file_operations,omitempty"` // nil: no file changes
	Changes     *Changes     `json:"changes,omitempty"`         // nil: the directory is in no git work tree
	Tests       *Tests       `json:"test_results,omitempty"`    // nil: no test results
	Diagnostics *diagnostics `json:"trouble,omitempty"`         // see [Record.ErrorContext]

	Cloud *Cloud `json:"cloud,omitempty"` // state of a cloud task, or nil
	Live  *live  `json:"live,omitempty"`  // state of the conversation; nil: the run is none

	Governance string `json:"governance_context,omitempty"` // see [CheckGovernance]
	Type       string `json:"task_type,omitempty"`          // name of the request that submitted the run, see [Task]

	OpenCalls []Call `json:"open_calls,omitempty"` // at most maxOpenCalls
	OldCalls  int    `json:"old_calls,omitempty"`  // the first of OpenCalls, which an earlier turn left open
	MoreCalls int64  `json:"open_calls_unlisted,omitempty"`
	ToolCalls int64  `json:"tool_calls"` // tool calls that started or ended

	FinalText      *string `json:"final_text,omitempty"` // beginning of the final text; the completion has more
	FinalTextBytes int64   `json:"final_text_bytes,omitempty"`

	// Link is the id of the run that the facts are from, if it is another run:
	// see [Record.ForTask]. It is not stored.
	Link string `json:"-"`

	// Log reports that the output is the log of a session, which has a person's prompts.
	// Person is that of its [Start]. Unasked is set if the agent asks for no permissions.
	// Presence is what it tells beside the log, nil if it tells nothing.
	Log      bool      `json:"session_log,omitempty"`
	Person   bool      `json:"person,omitempty"`
	Unasked  bool      `json:"unasked,omitempty"`
	Presence *Presence `json:"presence,omitempty"`

	// WrittenAt is the time in the newest line of a session log that has one. If it is not
	// 0, the times of the run are those in the log: when it began, was last written, and
	// ended.
	WrittenAt int64 `json:"written_at,omitempty"`

	// Seq is the sequence number in RAW of the last folded entry.
	Seq uint64 `json:"raw_seq"`
}

// Comparable returns a copy of the record without what depends on runs that a raw log may no longer
// have, and without what earlier versions have not stored.
func (r *Record) Comparable() *Record {
	c := *r
	c.Before, c.Own, c.All, c.CancelAt, c.Begun, c.Delegates, c.Untold = nil, nil, nil, 0, false, false, false
	c.Tasks = 0
	if c.Thread != "" {
		c.Resumes = ""
	}
	if c.Counts != countsOwn || c.Usage != nil && *c.Usage == (Usage{}) {
		c.Usage, c.Counts = nil, countsOwn
	}
	return &c
}

// NewRecord returns the record of a run without entries.
func NewRecord(id, agent string) *Record {
	return &Record{ID: id, Attributes: Attributes{Agent: agent}, State: StateQueued, Events: map[string]int64{}}
}

// Entry folds the header and body of an entry, but not the lines of its output.
// A body that is not valid counts as empty. It reports whether the record has a process of which the
// entry is: that is folded once.
func (r *Record) Entry(e Entry) (known bool) {
	switch e.Kind {
	case Queued:
		r.QueuedAt = e.Time
		r.foldStart(e)
	case Started:
		r.setWorking(e.Time)
		r.foldStart(e)
		// Else the agent runs already: linesman did not start it, or a lost log is filled again.
		if r.State == StateWorking && (r.Source == SourceRun || r.Source == SourceQueue) && r.Lines == 0 && r.Live == nil {
			r.setDoing(Doing{Phase: starting}, e.Time)
		}
	case Out:
		r.setWorking(e.Time)
		if r.WrittenAt == 0 {
			r.ActiveAt = max(r.ActiveAt, e.Time)
		}
	case ErrOut, Sent:
		r.setWorking(e.Time)
		if e.Kind == ErrOut && r.Options != nil {
			r.Options.read(e.Body)
		}
	case Proc:
		r.setWorking(e.Time)
		return r.foldProcess(e)
	case Note:
		r.foldNote(e)
	case Cancelled:
		if r.Cancel = true; r.CancelAt == 0 {
			r.CancelAt = e.Time
		}
	}
	return false
}

// setWorking ends the state queued. Output without a start entry does this, too.
func (r *Record) setWorking(at int64) {
	if r.State == StateQueued {
		r.State = StateWorking
		r.StartedAt = at
	}
}

func (r *Record) foldStart(e Entry) {
	start, err := DecodeStart(e.Body)
	if err != nil {
		return
	}
	switch start.Source {
	case SourceRun, SourceTail, SourcePipe, SourceQueue, sourceCloud, SourceSession:
		r.Source = start.Source
	case SourceExternal:
		r.Source, r.Due = start.Source, max(start.Due, 0)
		if e.Kind == Started && r.State == StateWorking {
			r.State = StateInputRequired
		}
	}
	r.foldAttributes(start.Attributes)
	if start.Worker != "" && bounds.StringSize(start.Worker) <= maxWorker+2 {
		r.Worker = start.Worker
	}
	if start.Work != 0 && CheckID(start.Queue) == nil {
		r.Queue, r.Work = start.Queue, start.Work
	}
	r.setVersion(start.Version)
	if start.Before != nil {
		r.Resumed(*start.Before)
	}
	if start.Withheld != nil && start.Withheld.valid() {
		r.Withheld = start.Withheld
	}
	r.Person = r.Person || start.Person
	r.Unboxed = r.Unboxed || start.Unboxed
	if r.Options == nil {
		r.Options = flagsOf(start.Flags)
	}
	if (start.Keep || start.Always) && r.Live == nil {
		r.Live = &live{}
	}
	if r.Live != nil {
		r.Live.Keep, r.Live.Always = r.Live.Keep || start.Keep, r.Live.Always || start.Always
	}
	if consists(start.Type, maxType, func(c byte) bool { return isWordChar(c) || c == '-' }) {
		r.Type = start.Type
	}
	if CheckGovernance(start.Governance) == nil {
		r.Governance = start.Governance
	}
}

func (r *Record) setDir(dir string) {
	if dir != "" && bounds.StringSize(dir) <= maxDir {
		r.Dir = strings.Clone(dir)
	}
}

func (r *Record) setModel(model string) {
	if model != "" && model != r.Model && bounds.StringSize(model) <= MaxModel {
		r.Model = strings.Clone(model)
	}
}

func (r *Record) setVersion(v string) {
	if v != "" && v != r.Version && CheckVersion(v) == nil {
		r.Version = strings.Clone(v)
	}
}

// Line folds the facts of one line of output; at is the time of its entry. It returns the
// unknown things that are in the record since this line; the result is valid until the
// next call.
func (r *Record) Line(f Facts, at int64) (first []Thing) { return r.Fold(&f, at) }

// Fold is Line without a copy of the facts. Dir, Version, Model, the ID and the Name of Opened,
// Closed, ForkedFrom, and Edits with their paths may be in memory that is used again after the call.
func (r *Record) Fold(f *Facts, at int64) (first []Thing) {
	r.Lines++
	r.Log = r.Log || f.Log
	if f.Asks != asksUnknown {
		r.Unasked = f.Asks == AsksNever
	}
	if r.Dir == "" {
		r.setDir(f.Dir)
	}
	if f.Title != "" && (r.Title == "" || f.Named) {
		r.Title = cmp.Or(Title(f.Title), r.Title)
	}
	r.setModel(f.Model)
	if f.Malformed {
		r.Malformed++
	}
	if f.Unknown {
		r.Unknown++
	}
	if f.Thread != "" && bounds.StringSize(f.Thread) <= maxThread+len(`""`) {
		r.Thread = f.Thread
	}
	if f.ForkedFrom != "" && r.ForkedFrom == "" && bounds.StringSize(f.ForkedFrom) <= MaxThread+len(`""`) {
		r.ForkedFrom = strings.Clone(f.ForkedFrom)
	}
	if f.Turn != TurnNone {
		r.InTurn, r.Begun = f.MustEnd, f.Turn == TurnStarted
	}
	if f.Answered || f.Turn != TurnNone || f.Opened.ID != "" {
		r.Answered = f.Answered
	}
	switch f.Turn {
	case TurnCompleted:
		r.TurnsDone++
		r.LastTurn = TurnCompleted
	case TurnFailed:
		r.TurnsBad++
		r.LastTurn = TurnFailed
	}
	if f.Turn != TurnNone && r.Live != nil {
		r.Live.Idle = f.Turn != TurnStarted && (r.Live.Awake || r.Live.Asleep)
		r.setWaits()
	}
	if f.Cloud != nil {
		r.Cloud = r.Cloud.Merge(f.Cloud)
	}
	if r.Tasks = max(r.Tasks+f.TasksBegun, 0); f.Tasks != nil {
		r.Tasks = *f.Tasks
	}
	r.foldUsage(f)
	for _, c := range f.opened {
		c.Name = strings.Clone(c.Name)
		r.openCall(c, at)
	}
	if f.Opened.ID != "" {
		f.Opened.Name = strings.Clone(f.Opened.Name)
		r.openCall(f.Opened, at)
	}
	for _, id := range f.closed {
		r.closeCall(id)
	}
	if f.Closed != "" {
		r.closeCall(f.Closed)
	}
	if f.Live != nil {
		r.foldTold(f.Live, at)
	}
	r.foldWork(f)
	r.foldDoing(f, at)
	r.setVersion(f.Version)
	return r.foldDrift(f.Drift)
}

func (r *Record) foldDrift(unknown []Unknown) (first []Thing) {
	if len(unknown) == 0 {
		return nil
	}
	if r.Drift == nil {
		r.Drift = new(Drift)
	}
	listed := len(r.Drift.Things)
	for _, u := range unknown {
		r.Drift.add(u, r.Lines)
	}
	return r.Drift.Things[listed:]
}

// foldWork folds the facts about steps, files, commands and errors.
func (r *Record) foldWork(f *Facts) {
	r.foldSteps(f)
	for _, e := range f.Edits {
		r.files().apply(e)
	}
	if f.MoreEdits > 0 {
		r.files().Unlisted += f.MoreEdits
	}
	if f.Command != nil {
		r.Command(f.Command)
	}
	r.foldError(f)
}

const maxThread = 1024

// Context returns the thread of the run: the thread that the agent reported or,
// before that, the thread to resume. It is "" if neither is known.
func (r *Record) Context() string {
	if r.ForkedFrom != "" {
		return r.Thread
	}
	return cmp.Or(r.Thread, r.Resumes)
}

// Final sets the final text of the run so far.
func (r *Record) Final(text string) {
	r.FinalTextBytes = int64(len(text))
	text = text[:bounds.Cut(text, maxFinalText)]
	limit := maxFinalEscape
	if n := bounds.StringSize(r.Governance) - maxGovernanceSize; n > 0 { // escaping can double the size of a token
		limit -= n
	}
	if r.Live != nil && r.Live.Keep {
		limit -= maxQueue
	}
	for bounds.StringSize(text) > limit { // escaping can increase the size of a text six times
		text = text[:bounds.Cut(text, len(text)*15/16)]
	}
	if int64(len(text)) < r.FinalTextBytes {
		text = strings.Clone(text) // do not keep the memory of the large text
	}
	r.FinalText = &text
}

// JSON returns the record as JSON.
func (r *Record) JSON() []byte { return encode(r) }

// encode returns v, whose fields can always be encoded, as JSON.
func encode(v any) []byte {
	b, err := bounds.Encode(v)
	if err != nil {
		panic(fmt.Sprintf("runs: encode %T: %v", v, err))
	}
	return b
}
