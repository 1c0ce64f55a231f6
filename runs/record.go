// Package runs is the life of a run: what its raw log is made of, and the one
// record that says how it is doing. It is pure: no clock, no I/O, no NATS.
//
//	raw log: queued? start (out | err | note | cancel)* exit ──▶ Record
//	         queued cancel
//	         start question (answer | cancel | exit)
//
// A [Record] is folded from the same entries and lines as the events are, in
// the same order, so both can be made again from the raw log.
package runs

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/linesman/linesman/bounds"
)

// State is where a run stands.
type State string

// The states. The last four are final.
const (
	StateQueued        State = "queued"
	StateWorking       State = "working"
	StateInputRequired State = "input-required" // nobody works: it waits for somebody outside, see [Record.Waits]
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
	MaxRecord    = 64 << 10 // bytes of JSON
	MaxFinalText = 16 << 10 // bytes of the final text that it keeps
	MaxOpenCalls = 32       // tool calls that it lists; more are only counted

	maxDir         = 4 << 10  // bytes of JSON of the working directory
	maxCallField   = 64       // bytes of JSON of each field of a listed call
	maxFinalEscape = 20 << 10 // bytes of JSON of the final text

	// What a governance token takes beyond that is taken from the final text.
	maxGovernanceSize = MaxGovernance + 2 // bytes of JSON
)

// Record says how a run is doing. Times are Unix milliseconds as captured;
// 0 means not yet. It never takes more than [MaxRecord] bytes of JSON.
type Record struct {
	ID     string            `json:"id"`
	Agent  string            `json:"agent"`
	State  State             `json:"state"`
	Source string            `json:"source,omitempty"` // run, tail, pipe, queue, cloud or external
	Labels map[string]string `json:"labels,omitempty"`
	Dir    string            `json:"dir,omitempty"`    // its working directory, if its JSON takes at most maxDir bytes
	Worker string            `json:"worker,omitempty"` // who has it, or had it
	Queue  string            `json:"queue,omitempty"`  // the work queue that it came by
	Work   uint64            `json:"work_seq,omitempty"`

	QueuedAt  int64 `json:"queued_at,omitempty"`
	StartedAt int64 `json:"started_at,omitempty"`
	ActiveAt  int64 `json:"active_at,omitempty"` // the last output
	EndedAt   int64 `json:"ended_at,omitempty"`
	Due       int64 `json:"due_at,omitempty"` // see [Start]

	Reason string `json:"reason,omitempty"` // why it ended as it did; see [Record.End]
	Exit   *Exit  `json:"exit,omitempty"`

	Continues string `json:"continues,omitempty"` // the run that it goes on with as the same task, see [LabelContinues]

	Cancel bool `json:"cancel_requested,omitempty"`

	Thread    string `json:"thread_id,omitempty"` // at most 1024 bytes; a longer one is left out
	Resumes   string `json:"resumes,omitempty"`   // the thread that it is to go on with, until it names one
	TurnsDone int64  `json:"turns_completed"`
	TurnsBad  int64  `json:"turns_failed"`
	LastTurn  Turn   `json:"last_turn,omitempty"` // the last terminal line, 0: none yet

	Lines     int64            `json:"lines"` // blank ones too
	Blank     int64            `json:"blank_lines"`
	Bytes     int64            `json:"bytes"` // of stdout
	ErrBytes  int64            `json:"stderr_bytes"`
	Events    map[string]int64 `json:"events,omitempty"` // by kind token
	Dropped   int64            `json:"dropped"`          // events whose data was too large
	Unknown   int64            `json:"unknown"`          // lines of a kind that has no meaning here
	Malformed int64            `json:"malformed"`        // lines that could not be read
	Gaps      int64            `json:"gaps"`             // holes in the output
	Bad       int64            `json:"unreadable_records"`

	// Usage is the total of the thread, as the agent reports it; Own is what
	// this run added to Before, the total of the thread when the run began.
	Usage  *Usage `json:"usage,omitempty"`
	Before *Usage `json:"usage_before,omitempty"`
	Own    *Usage `json:"usage_own,omitempty"`

	Progress *Progress `json:"progress,omitempty"`
	Activity string    `json:"activity,omitempty"` // what it does now, for people, redacted; "" once it has ended
	Steps    Steps     `json:"steps,omitzero"`

	Files   *Files   `json:"file_operations,omitempty"` // nil: none is known
	Tests   *Tests   `json:"test_results,omitempty"`    // nil: none was seen
	Trouble *Trouble `json:"trouble,omitempty"`         // see [Record.ErrorContext]

	Cloud *Cloud `json:"cloud,omitempty"` // of a run in the cloud

	Governance string `json:"governance_context,omitempty"` // see [CheckGovernance]

	OpenCalls []Call `json:"open_calls,omitempty"` // at most MaxOpenCalls
	MoreCalls int64  `json:"open_calls_unlisted,omitempty"`
	ToolCalls int64  `json:"tool_calls"` // that began or ended

	FinalText      *string `json:"final_text,omitempty"` // its beginning; all of it is in the completion
	FinalTextBytes int64   `json:"final_text_bytes,omitempty"`

	// Link is the run whose facts these are, where that is another: see
	// [Record.StandsFor]. It is not stored.
	Link string `json:"-"`

	// Seq is the sequence in RAW that the record is based on.
	Seq uint64 `json:"raw_seq"`
}

// NewRecord is the record of a run of which nothing is known yet.
func NewRecord(id, agent string) *Record {
	return &Record{ID: id, Agent: agent, State: StateQueued, Events: map[string]int64{}}
}

// Entry folds what an entry says that is not output. An unreadable body
// counts as one without fields.
func (r *Record) Entry(e Entry) {
	switch e.Kind {
	case Queued:
		r.QueuedAt = e.Time
		r.begin(e)
	case Started:
		r.work(e.Time)
		r.begin(e)
	case Out:
		r.work(e.Time)
		r.ActiveAt = max(r.ActiveAt, e.Time)
	case ErrOut:
		r.work(e.Time)
	case Cancelled:
		r.Cancel = true
	}
}

// work notes that somebody works on the run; output without a start entry shows it too.
func (r *Record) work(at int64) {
	if r.State == StateQueued {
		r.State = StateWorking
		r.StartedAt = at
	}
}

func (r *Record) begin(e Entry) {
	var start Start
	if json.Unmarshal(e.Body, &start) != nil {
		return
	}
	switch start.Source {
	case sourceRun, "tail", "pipe", "queue", "cloud":
		r.Source = start.Source
	case SourceExternal:
		r.Source, r.Due = start.Source, max(start.Due, 0)
		if e.Kind == Started && r.State == StateWorking {
			r.State = StateInputRequired
		}
	}
	if start.Dir != "" && bounds.StringSize(start.Dir) <= maxDir {
		r.Dir = start.Dir
	}
	if start.Worker != "" && bounds.StringSize(start.Worker) <= MaxWorker+2 {
		r.Worker = start.Worker
	}
	if start.Work != 0 && CheckID(start.Queue) == nil {
		r.Queue, r.Work = start.Queue, start.Work
	}
	if len(start.Labels) > 0 && CheckLabels(start.Labels) == nil {
		r.Labels = start.Labels
		if task := start.Labels[LabelContinues]; isLink(r.ID, task) {
			r.Continues = task
		}
	}
	if r.Thread == "" && start.Thread != "" && len(start.Thread) <= MaxThread {
		r.Resumes = start.Thread
	}
	if CheckGovernance(start.Governance) == nil {
		r.Governance = start.Governance
	}
}

// Line folds one line of output.
func (r *Record) Line(f Facts, at int64) {
	r.Lines++
	if f.Malformed {
		r.Malformed++
	}
	if f.Unknown {
		r.Unknown++
	}
	if f.Thread != "" && len(f.Thread) <= maxThread {
		r.Thread, r.Resumes = f.Thread, ""
	}
	switch f.Turn {
	case TurnCompleted:
		r.TurnsDone++
		r.LastTurn = TurnCompleted
	case TurnFailed:
		r.TurnsBad++
		r.LastTurn = TurnFailed
	}
	r.Cloud = r.Cloud.Then(f.Cloud)
	if f.Usage != nil {
		usage := *f.Usage
		r.Usage = &usage
		r.own()
	}
	if f.Opened.ID != "" {
		r.open(f.Opened, at)
	}
	if f.Closed != "" {
		r.close(f.Closed)
	}
	r.tell(&f)
}

// tell folds what a line says of the work itself.
func (r *Record) tell(f *Facts) {
	r.step(f)
	for _, e := range f.Edits {
		r.files().edit(e)
	}
	if f.MoreEdits > 0 {
		r.files().Unlisted += f.MoreEdits
	}
	if f.Command != nil {
		r.command(f.Command)
	}
	r.complain(f)
}

const maxThread = 1024

// Context is the thread that the run belongs to: its own, or, until it has
// named one, that which it is to go on with; "": none is known.
func (r *Record) Context() string { return cmp.Or(r.Thread, r.Resumes) }

// Resumed says what the thread had used when the run began. It counts from
// the next usage on.
func (r *Record) Resumed(before Usage) {
	r.Before = &before
	r.own()
}

func (r *Record) own() {
	if r.Usage == nil {
		return
	}
	own := *r.Usage
	if r.Before != nil {
		own = own.Minus(*r.Before)
	}
	r.Own = &own
}

func (r *Record) open(c Call, at int64) {
	for i := range r.OpenCalls {
		if r.OpenCalls[i].ID == c.ID { // started twice, or updated
			return
		}
	}
	r.ToolCalls++
	if len(r.OpenCalls) >= MaxOpenCalls || bounds.StringSize(c.ID) > maxCallField {
		r.MoreCalls++
		return
	}
	c.At = at
	if bounds.StringSize(c.Kind) > maxCallField {
		c.Kind = ""
	}
	if bounds.StringSize(c.Name) > maxCallField {
		c.Name = ""
	}
	r.OpenCalls = append(r.OpenCalls, c)
}

func (r *Record) close(id string) {
	for i := range r.OpenCalls {
		if r.OpenCalls[i].ID == id {
			r.OpenCalls = append(r.OpenCalls[:i], r.OpenCalls[i+1:]...)
			return
		}
	}
	if r.MoreCalls > 0 {
		r.MoreCalls--
		return
	}
	r.ToolCalls++ // it was announced by its end alone
}

// Final notes the run's final text so far.
func (r *Record) Final(text string) {
	r.FinalTextBytes = int64(len(text))
	text = text[:bounds.Cut(text, MaxFinalText)]
	most := maxFinalEscape
	if n := bounds.StringSize(r.Governance) - maxGovernanceSize; n > 0 { // a token full of quotes takes twice its bytes
		most -= n
	}
	for bounds.StringSize(text) > most { // control characters take six bytes
		text = text[:bounds.Cut(text, len(text)*3/4)]
	}
	if int64(len(text)) < r.FinalTextBytes {
		text = strings.Clone(text) // do not hold a large text for its first bytes
	}
	r.FinalText = &text
}

// NeedsAgent is the reason of a run whose program wants an agent's answer
// before it can go on: it ended with the status 42, and is to be started again
// once it has the answer. One that somebody started by hand is open till then,
// in the state input-required; nobody starts one again that came by a queue.
const NeedsAgent = "needs agent"

// ExitNeedsAgent is the exit status that says so.
const ExitNeedsAgent = 42

// End folds the exit entry: its reason decides the state. Reason is, for a
// run that failed, "spawn", "lost", "spool", "signal", "exit status", "turn
// failed", "silent", "no terminal event" or [NeedsAgent]; "idle" or "hard" for a timeout;
// [NeedsAgent] for one that is open.
// A cancel that was asked for wins over every end but one that nobody knows,
// and over what was never started. Tool calls that are still open stay listed:
// they never ended.
func (r *Record) End(x Exit, at int64) {
	r.Exit = &x
	r.EndedAt = at
	r.State, r.Reason = r.outcome(x)
	r.arrive()
}

func (r *Record) outcome(x Exit) (State, string) {
	switch x.Reason {
	case ReasonSpawn:
		return StateFailed, string(x.Reason)
	case ReasonCancelled:
		return StateCancelled, ""
	case ReasonIdle, ReasonHard, ReasonSpool, ReasonEOF:
	case ReasonExited:
		if x.Code == nil && x.Signal == 0 {
			return StateFailed, string(ReasonLost)
		}
	default:
		return StateFailed, string(ReasonLost)
	}
	if r.Cancel { // it wins a tie
		return StateCancelled, ""
	}
	switch {
	case x.Reason == ReasonIdle, x.Reason == ReasonHard:
		return StateTimeout, string(x.Reason)
	case x.Reason == ReasonSpool:
		return StateFailed, string(x.Reason)
	case x.Reason == ReasonExited && x.Signal != 0:
		return StateFailed, "signal"
	case x.Reason == ReasonExited && *x.Code == ExitNeedsAgent && r.Source == sourceRun:
		return StateInputRequired, NeedsAgent
	case x.Reason == ReasonExited && *x.Code == ExitNeedsAgent:
		return StateFailed, NeedsAgent
	case x.Reason == ReasonExited && *x.Code != 0:
		return StateFailed, "exit status"
	case x.Reason == ReasonEOF && r.LastTurn == TurnNone:
		return StateFailed, "no terminal event"
	case r.LastTurn == TurnFailed:
		return StateFailed, "turn failed"
	case r.Lines == r.Blank:
		return StateFailed, "silent"
	}
	return StateCompleted, ""
}

// Unowned reports whether nobody has the run who could end it: it waits in a
// queue, or for an answer from outside. A cancel then is its end.
func (r *Record) Unowned() bool {
	return r.State == StateQueued && r.QueuedAt != 0 || r.State == StateInputRequired
}

// Outcome is a word for people: the state, and behind it why.
func (r *Record) Outcome() string {
	s := string(r.State)
	switch {
	case r.Reason == "signal" && r.Exit != nil:
		s += " (signal " + strconv.Itoa(r.Exit.Signal) + ")"
	case r.Reason == "exit status" && r.Exit != nil && r.Exit.Code != nil:
		s += " (exit status " + strconv.Itoa(*r.Exit.Code) + ")"
	case r.Reason != "":
		s += " (" + r.Reason + ")"
	}
	return s
}

// JSON encodes the record.
func (r *Record) JSON() []byte {
	b, err := bounds.Encode(r)
	if err != nil { // no field of it can fail
		panic("runs: encode a record: " + err.Error())
	}
	return b
}
