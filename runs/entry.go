package runs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of an [Entry] of a raw log.
type Kind string

// The kinds of raw log entries. They are the values of the NATS header
// Linesman-Record.
const (
	Queued    Kind = "queued" // a submission was accepted; body [Start]
	Started   Kind = "start"  // a worker took the run; body [Start]
	Out       Kind = "out"    // bytes of the agent's stdout at Offset
	ErrOut    Kind = "err"    // bytes of the agent's stderr at Offset
	Note      Kind = "note"   // a note of the worker; body [Remark]
	Cancelled Kind = "cancel" // a cancel was requested; body [Remark]
	Exited    Kind = "exit"   // the run ended; body [Exit]; always the last entry

	// Of a live run.
	Sent    Kind = "in"      // bytes for the agent's stdin, of the process that the log has last, at Offset over all
	Proc    Kind = "process" // a process started or ended; body [Process]
	Ordered Kind = "command" // what somebody asks of the run; body [Command]
)

// Unreadable replaces the kind of an entry that could not be decoded. No entry of a log has it.
const Unreadable Kind = "unreadable"

// Known reports whether this version of linesman can read entries of kind k.
func (k Kind) Known() bool {
	return slices.Contains([]Kind{Queued, Started, Out, ErrOut, Note, Cancelled, Exited, Sent, Proc, Ordered}, k)
}

// Streams reports whether an entry of kind k has bytes of a stream, at an offset.
func (k Kind) Streams() bool { return k == Out || k == ErrOut || k == Sent }

// MaxChunk is the maximum number of output bytes in one entry. A longer line is
// split into several entries; the boundaries of entries have no meaning.
const MaxChunk = 64 << 10

// Entry is one entry of the raw log of a run. All other data about the run is
// derived from its raw log.
type Entry struct {
	Kind   Kind
	Time   int64  // Unix milliseconds: when the last byte was written if that is known, else when it was read
	Offset int64  // Out, ErrOut and Sent: offset of the first byte in that stream
	Body   []byte // Out, ErrOut and Sent: the bytes, unchanged; else a JSON object
}

// Start is the body of a queued and of a start entry.
type Start struct {
	Source string `json:"source"` // run, tail, session, pipe, queue, cloud or external
	Attributes
	Argv    []string `json:"argv,omitempty"`     // command line; absent if there is no process
	Worker  string   `json:"worker,omitempty"`   // name of the worker; at most maxWorker bytes
	Queue   string   `json:"queue,omitempty"`    // name of the work queue
	Work    uint64   `json:"work_seq,omitempty"` // sequence number in the work queue
	Version string   `json:"version,omitempty"`  // version of the agent, if known; see [CheckVersion]

	// Prompt is the beginning of a prompt that the agent gets on stdin, at most DetailWindow bytes of
	// PromptBytes. Any other one is in Argv.
	Prompt      string `json:"prompt,omitempty"`
	PromptBytes int    `json:"prompt_bytes,omitempty"`

	Withheld *Withheld `json:"withheld,omitempty"` // nil: no credential

	// Before is what Thread had used when the run started, if its log tells it.
	Before *Account `json:"before,omitempty"`

	// Unboxed says that the agent relies on a sandbox around the worker, see [Task]. Flags are those of its command
	// line for what the caller asked for: a program that refuses one ends the run with [OptionRefused].
	Unboxed bool     `json:"externalSandbox,omitempty"`
	Flags   []string `json:"flags,omitempty"`

	Person bool `json:"person,omitempty"` // with SourceSession: a person sits at the agent

	Live *Terms `json:"live,omitempty"` // of a live run
	Keep bool   `json:"keep,omitempty"` // see [Task]
	// Always offers people the options of a live run that hold for longer than the call. It is that of its first worker.
	Always bool `json:"always,omitempty"`

	Due int64 `json:"due,omitempty"` // with SourceExternal: deadline of the answer, Unix ms; 0: none

	Governance string `json:"governanceContext,omitempty"` // see [CheckGovernance]
	Type       string `json:"taskType,omitempty"`          // see [Task]
}

// DecodeStart reads the body of a queued or start entry, with the names that some fields had in the first raw logs.
func DecodeStart(body []byte) (s Start, err error) {
	first := struct {
		*Start
		Dir        *string `json:"dir"`
		Thread     *string `json:"thread"`
		Governance *string `json:"governance_context"`
	}{&s, &s.Dir, &s.Thread, &s.Governance}
	err = json.Unmarshal(body, &first)
	return s, err
}

// Remark is the body of a note and of a cancel entry.
type Remark struct {
	Reason string    `json:"reason,omitempty"` // at most MaxReason bytes
	Diff   *diffPart `json:"diff,omitempty"`   // of a note with the reason NoteDiff

	Presence *Presence `json:"presence,omitempty"` // of a note with the reason NotePresence
	Logged   *Logged   `json:"logged,omitempty"`   // of a note with the reason NoteUsage
}

// maxWorker is the maximum length of a worker name, in bytes.
const maxWorker = 128

// MaxReason is the maximum length of the text of a [Remark], in bytes.
const MaxReason = 1024

// Reason is the reason why a run ended. It determines the final state.
type Reason string

// The reasons of an [Exit].
const (
	ReasonExited    Reason = "exited"    // the agent exited, or was ended by a signal that linesman did not send
	ReasonEOF       Reason = "eof"       // end of an input without a process
	ReasonCancelled Reason = "cancelled" // cancelled on request
	ReasonIdle      Reason = "idle"      // no output for longer than the idle limit
	ReasonHard      Reason = "hard"      // ran for longer than the hard limit
	ReasonSpool     Reason = "spool"     // the output exceeded the spool limit
	ReasonFinished  Reason = "finished"  // ended some time after its final result, because it did not exit
	ReasonSpawn     Reason = "spawn"     // the agent could not be started
	ReasonSession   Reason = "session"   // an agent of a live run could not begin a session, or not in the mode of the run
	ReasonLost      Reason = "lost"      // the exit status is unknown
)

var reasons = []Reason{
	ReasonExited, ReasonEOF, ReasonCancelled, ReasonIdle, ReasonHard, ReasonSpool, ReasonSpawn, ReasonLost,
	ReasonFinished, ReasonSession,
}

// The reasons why an agent could not be started, in [Exit.Spawn].
const (
	SpawnNotFound      = "not_found"
	SpawnNotExecutable = "not_executable"
	SpawnRefused       = "refused"      // forbidden by the rules of the worker
	SpawnNoDir         = "no_directory" // the working directory does not exist, or is not in work.roots
	SpawnNoSession     = "no_session"   // the thread to resume has no session of the agent on the worker's machine
	SpawnOther         = "other"
)

// Exit is the body of an exit entry, and of exit.json in a run directory.
type Exit struct {
	Reason Reason `json:"reason"`
	Code   *int   `json:"code,omitempty"`   // exit status; absent after a signal, or if unknown
	Signal int    `json:"signal,omitempty"` // number of the signal that ended the agent, or 0
	Spawn  string `json:"spawn,omitempty"`  // with ReasonSpawn: one of the Spawn constants
	Torn   bool   `json:"torn,omitempty"`   // the output ended in the middle of a line
	Why    string `json:"why,omitempty"`    // with SpawnRefused, SpawnNoDir and ReasonSession: the rule, for people; at most 1000 characters

	// At is when the agent ended, or when it could not be started, Unix milliseconds. 0: at
	// the time of the entry. [EncodeExit] writes it. It is not in the JSON of a record, which
	// has EndedAt: see [Record.End].
	At int64 `json:"-"`

	// Out is how many bytes of stdout there were when the agent ended; nil: not known. What
	// follows is of processes that it left. It is in no entry.
	Out *int64 `json:"-"`

	// Failed says with ReasonFinished, in what a worker returns, that the run is not completed: its
	// turn had failed. It is in no entry, because they have the output.
	Failed bool `json:"-"`
}

// NoteLeft is the reason of a note before output of processes that an agent left when it ended.
const NoteLeft = "left"

// Encode returns the body of an entry as JSON.
func Encode(body any) []byte {
	b, err := json.Marshal(body)
	if err != nil { // impossible for the body types
		panic(fmt.Sprintf("runs: encode %T: %v", body, err))
	}
	return b
}

// timedExit is the JSON of an exit with its time.
type timedExit struct {
	Exit
	At int64 `json:"at,omitempty"`
}

// EncodeExit returns the body of an exit entry.
func EncodeExit(x Exit) []byte { return Encode(timedExit{x, x.At}) }

// Mark is a checkpoint of the raw log of a run. A worker stores it in the run
// directory, so that after a restart it reads only newer entries.
type Mark struct {
	Seq       uint64 // stream sequence of the last known entry; 0: none
	At        int64  // time of that entry, if known; detects a different entry at Seq
	Out       int64  // bytes of stdout stored
	Err       int64  // bytes of stderr stored
	Started   bool   // has a start entry
	Cancelled bool   // has a cancel entry
	Exited    bool   // has an exit entry: the log is complete
	By        string // worker of the first start entry, or "?"
	Work      uint64 // sequence number in the work queue
	Gone      bool   `json:",omitempty"` // the log was lost; the other fields are from the run record
}

// After returns the mark after entry e was stored at sequence seq.
func (m Mark) After(e Entry, seq uint64) Mark {
	m.Seq, m.At, m.Gone = seq, e.Time, false
	end := e.Offset + int64(len(e.Body))
	switch e.Kind {
	case Queued:
		_, work := parseStart(e.Body)
		m.Work = max(m.Work, work)
	case Started:
		if !m.Started {
			by, work := parseStart(e.Body)
			m.By, m.Work = by, max(m.Work, work)
		}
		m.Started = true
	case Out:
		m.Out = max(m.Out, end)
	case ErrOut:
		m.Err = max(m.Err, end)
	case Cancelled:
		m.Cancelled = true
	case Exited:
		m.Exited = true
	}
	return m
}

// parseStart returns the worker that a start entry names, and the sequence
// number in the work queue. A worker name that is longer than maxWorker bytes or
// has other characters than printable ASCII without white space becomes "?".
func parseStart(body []byte) (by string, work uint64) {
	var s Start
	if json.Unmarshal(body, &s) != nil {
		return "?", 0
	}
	graphic := func(c byte) bool { return c > ' ' && c < 0x7f && strings.IndexByte(`"\<>&`, c) < 0 }
	if s.Worker != "" && !consists(s.Worker, maxWorker, graphic) {
		return "?", s.Work
	}
	return s.Worker, s.Work
}

// ErrMoved reports that another writer appended to the raw log of the run: the
// entry was not stored. The current [Mark] of the log describes its new content.
var ErrMoved = errors.New("the run's log was written by another writer")

// maxWhy is the maximum length of the reason of a refusal, in characters.
const maxWhy = 1000

// DecodeExit decodes the body of an exit entry. If the body is not valid, the
// reason is [ReasonLost].
func DecodeExit(body []byte) Exit {
	var timed timedExit
	if json.Unmarshal(body, &timed) != nil {
		return Exit{Reason: ReasonLost}
	}
	x := timed.Exit
	x.At = timed.At
	if !slices.Contains(reasons, x.Reason) {
		x.Reason = ReasonLost
	}
	if x.Spawn != "" && spawnTexts[x.Spawn] == "" {
		x.Spawn = SpawnOther
	}
	if x.Why = oneLine(x.Why, maxWhy); x.Spawn != SpawnRefused && x.Spawn != SpawnNoDir && x.Reason != ReasonSession {
		x.Why = ""
	}
	return x
}
