package codex

import (
	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/normalizer/wire"
)

// The log of a fork, or of a sub-agent that knows what its parent knows, can begin with a copy
// of lines of the other thread:
//
//	session_meta of this thread, with forked_from_id
//	session_meta of the other one    (not in all versions)
//	task_started, messages, token_count, …: the copy, with the times of the fork
//	task_started: the first turn of this thread
//
// No line says that it is a copy. What it describes is in the log of the other thread.

// fork is what is known about such a copy.
type fork struct {
	Copy  bool  `json:"copy,omitempty"`  // the next line may be of it
	At    int64 `json:"at,omitempty"`    // when the log was begun, Unix milliseconds
	First int64 `json:"first,omitempty"` // number of the first line that is not of it; 0: not told
}

// copying is the longest time that the copy takes, in milliseconds.
const copying = 1000

// copied reports whether a line is a copy of one in the log of another thread.
func (d *dialect) copied(p *payload) bool {
	l := &d.line
	if l.typ.Equal("session_meta") {
		if d.Thread == "" {
			d.Fork = fork{Copy: p.forkedFrom.IsString(), At: wire.Time(l.timestamp)}
			d.Fork.First, _ = p.historyStart.Int()
			d.Counted = !d.Fork.Copy // the thread has used nothing before
			return false
		}
		other := d.another(wire.ID(p.id))
		if other && !d.Answered {
			d.Fork.Copy, d.Counted = true, false
		}
		return other
	}
	if d.Fork.Copy && d.begins(p) {
		d.Fork.Copy = false
	}
	return d.Fork.Copy
}

// another reports whether an id is not that of this thread. Those that are too long count as one.
func (d *dialect) another(id string) bool {
	var thread wire.Thread
	thread.Set(id)
	return thread != d.Thread
}

// begins reports whether a line is the first one that is not a copy.
func (d *dialect) begins(p *payload) bool {
	l := &d.line
	if n, ok := l.ordinal.Int(); ok && d.Fork.First > 0 {
		return n >= d.Fork.First
	}
	if thread := wire.ID(p.threadID); thread != "" {
		return !d.another(thread)
	}
	at := wire.Time(l.timestamp)
	if at < d.Fork.At || !isOneOf(p.typ, []string{"task_started", "turn_started"}) {
		return false
	}
	if turn := wire.ID(p.turnID); agent.IsUUID(turn) && agent.IsUUID(string(d.Thread)) {
		return turn > string(d.Thread) // both begin with their time
	}
	return at > d.Fork.At+copying
}
