package runs

// NotePresence is the reason of a note with a [Presence].
const NotePresence = "presence"

// Presence is what the agent of a followed session does, as it tells beside its log: in a
// file of its own, or through a hook. It is the body of a note.
type Presence struct {
	Does  Does  `json:"does"`
	Since int64 `json:"since,omitempty"` // Unix milliseconds; 0: since the note
}

// Does is what an agent does.
type Does string

// What an agent does. Others, of a later version, count as [Works].
const (
	Works Does = "works"
	Waits Does = "asks"  // it waits for a permission, or for the answer to a question
	Rests Does = "rests" // it waits for the next prompt
)

// foldPresence folds a note. A line that was written later can tell something else.
func (r *Record) foldPresence(p Presence, at int64) {
	if p.Since <= 0 || p.Since > at {
		p.Since = at
	}
	p.Since = max(p.Since, r.StartedAt)
	if p.Does != Waits && p.Does != Rests {
		p.Does = Works
	}
	r.Presence = &p
	switch {
	case r.State != StateWorking, Time(p.Since) < r.Doing.Since: // a line has told something newer
	case p.Does != Works:
		r.foldDoing(&Facts{}, p.Since)
	case r.Doing.Phase == YourTurn:
		r.setDoing(Doing{Phase: Thinking}, p.Since)
	case r.Doing.Phase == AwaitingInput, r.Doing.Phase == RunningOrAsking:
		r.backToCall(p.Since)
	}
}

// told returns what the agent has told that it does, if a line of the time at was written before
// that. It is nothing while the agent works.
func (r *Record) told(at int64) Phase {
	switch p := r.Presence; {
	case p == nil || at > p.Since:
	case p.Does == Waits:
		return AwaitingInput
	case p.Does == Rests:
		return YourTurn
	}
	return ""
}
