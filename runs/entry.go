package runs

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Kind says what an [Entry] of a run's raw log records.
type Kind string

// The kinds of raw log entries. On the wire they are the values of the
// Linesman-Record header.
const (
	Queued    Kind = "queued" // a submission was accepted; body [Start]
	Started   Kind = "start"  // a worker took the run; body [Start]
	Out       Kind = "out"    // bytes of the agent's stdout at Offset
	ErrOut    Kind = "err"    // bytes of the agent's stderr at Offset
	Note      Kind = "note"   // a remark of the worker; body [Remark]
	Cancelled Kind = "cancel" // somebody asked for the end; body [Remark]
	Exited    Kind = "exit"   // the run ended; body [Exit]; nothing follows it
)

// Known reports whether k is a kind that this version of linesman reads.
func (k Kind) Known() bool {
	switch k {
	case Queued, Started, Out, ErrOut, Note, Cancelled, Exited:
		return true
	}
	return false
}

// MaxChunk is the most bytes of output that one entry carries. A longer line
// comes in several entries; their borders mean nothing.
const MaxChunk = 64 << 10

// Entry is one entry of a run's raw log: the only truth about the run.
type Entry struct {
	Kind   Kind
	Time   int64  // when it was captured, Unix milliseconds
	Offset int64  // Out and ErrOut: position of the first byte in that stream
	Body   []byte // Out and ErrOut: the bytes as written; else a JSON object
}

// Start is the body of a queued and of a start entry.
type Start struct {
	Source string            `json:"source"`             // run, tail, pipe, queue, cloud or external
	Argv   []string          `json:"argv,omitempty"`     // what is run; absent where there is no process
	Dir    string            `json:"dir,omitempty"`      // its working directory
	Labels map[string]string `json:"labels,omitempty"`   // see [CheckLabels]
	Worker string            `json:"worker,omitempty"`   // who took it; at most MaxWorker bytes
	Queue  string            `json:"queue,omitempty"`    // the work queue that it came by
	Work   uint64            `json:"work_seq,omitempty"` // its place there: what is smaller comes first
	Thread string            `json:"thread,omitempty"`   // that it is to go on with; at most MaxThread bytes

	Due int64 `json:"due,omitempty"` // Unix ms; with SourceExternal: when nobody waits for the answer any more, 0: never

	Governance string `json:"governance_context,omitempty"` // see [CheckGovernance]
}

// Remark is the body of a note and of a cancel entry.
type Remark struct {
	Reason string `json:"reason,omitempty"` // at most MaxReason bytes
}

// MaxWorker bounds the name of a worker, in bytes.
const MaxWorker = 128

// MaxReason bounds the free text of a [Remark], in bytes.
const MaxReason = 1024

// Reason says why a run ended. It is what decides the run's final state.
type Reason string

// The reasons of an [Exit].
const (
	ReasonExited    Reason = "exited"    // the agent ended by itself, or by a signal that linesman did not send
	ReasonEOF       Reason = "eof"       // input without a process came to its end
	ReasonCancelled Reason = "cancelled" // ended because somebody asked
	ReasonIdle      Reason = "idle"      // silent for longer than the idle limit
	ReasonHard      Reason = "hard"      // ran for longer than the hard limit
	ReasonSpool     Reason = "spool"     // its output passed the cap of the spool
	ReasonSpawn     Reason = "spawn"     // could not be started
	ReasonLost      Reason = "lost"      // nobody knows how it ended
)

// What kept an agent from starting, in [Exit.Spawn].
const (
	SpawnNotFound      = "not_found"
	SpawnNotExecutable = "not_executable"
	SpawnRefused       = "refused"      // the worker's rules do not allow it
	SpawnNoDir         = "no_directory" // the working directory does not exist, or is not in work.roots
	SpawnOther         = "other"
)

// Exit is the body of an exit entry, and of exit.json in a run directory.
type Exit struct {
	Reason Reason `json:"reason"`
	Code   *int   `json:"code,omitempty"`   // exit status; absent when ended by a signal, or unknown
	Signal int    `json:"signal,omitempty"` // number of the signal that ended it, or 0
	Spawn  string `json:"spawn,omitempty"`  // with ReasonSpawn: one of the Spawn constants
	Torn   bool   `json:"torn,omitempty"`   // the output ended in the middle of a line
}

// Encode renders the body of an entry as JSON.
func Encode(body any) []byte {
	b, err := json.Marshal(body)
	if err != nil { // none of the body types can fail
		panic(fmt.Sprintf("runs: encode %T: %v", body, err))
	}
	return b
}

// Mark is how far a run's raw log is known to reach. A worker keeps it in the
// run directory, so that after a restart it reads no more than what came later.
type Mark struct {
	Seq       uint64 // stream sequence of the last entry; 0: none yet
	At        int64  // when that was captured, if it is known: tells it from another one there
	Out       int64  // bytes of stdout stored
	Err       int64  // bytes of stderr stored
	Started   bool   // has a start entry
	Cancelled bool   // has a cancel entry
	Exited    bool   // has an exit entry: nothing more may follow
	By        string // worker of the first start entry, as far as it can be told
	Work      uint64 // place in the queue, as the first entry has it
	Gone      bool   `json:",omitempty"` // RAW was lost: the log is empty, and all else is what the run's record remembers
}

// After returns the mark once e is stored at sequence seq.
func (m Mark) After(e Entry, seq uint64) Mark {
	m.Seq, m.At, m.Gone = seq, e.Time, false
	end := e.Offset + int64(len(e.Body))
	switch e.Kind {
	case Queued:
		_, work := starter(e.Body)
		m.Work = max(m.Work, work)
	case Started:
		if !m.Started {
			by, work := starter(e.Body)
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

// starter is the worker that a start entry names, and the place in the queue.
// Of a name that is no plain word of at most MaxWorker bytes only this is told.
func starter(body []byte) (by string, work uint64) {
	var s Start
	if json.Unmarshal(body, &s) != nil {
		return "?", 0
	}
	plain := len(s.Worker) <= MaxWorker
	for i := 0; plain && i < len(s.Worker); i++ {
		c := s.Worker[i]
		plain = c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	if !plain {
		return "?", s.Work
	}
	return s.Worker, s.Work
}

// ErrMoved reports that somebody else wrote to the raw log of the run: the
// entry was not stored. The log's [Mark] tells what it holds now.
var ErrMoved = errors.New("the run's log was written by somebody else")

// DecodeExit reads the body of an exit entry. What cannot be read means that
// nobody knows how the run ended.
func DecodeExit(body []byte) Exit {
	var x Exit
	if json.Unmarshal(body, &x) != nil {
		return Exit{Reason: ReasonLost}
	}
	switch x.Reason {
	case ReasonExited, ReasonEOF, ReasonCancelled, ReasonIdle, ReasonHard, ReasonSpool, ReasonSpawn, ReasonLost:
	default:
		x.Reason = ReasonLost
	}
	switch x.Spawn {
	case "", SpawnNotFound, SpawnNotExecutable, SpawnRefused, SpawnNoDir:
	default:
		x.Spawn = SpawnOther
	}
	return x
}
