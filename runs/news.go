package runs

import "errors"

// Change is news of the record of one run.
type Change struct {
	Row      Row
	Revision uint64 // of the record; it grows with every change of any run
	Removed  bool   // there is no record any more; only Row.ID is set
	Last     bool   // no other news is known at the moment
	Anew     bool   // all that was told before counts no more: the run table was made anew
	Waits    string // why there is no news yet, in words for a person; then nothing else is set
}

// Excerpt is what an agent wrote to one of its streams: all of it, or its
// beginning and its end.
type Excerpt struct {
	Head, Tail []byte
	Size       int64 // of the whole stream
}

// Whole reports whether nothing is left out.
func (e Excerpt) Whole() bool { return e.Size == int64(len(e.Head)) }

// Beat is what a worker says of itself, again and again.
type Beat struct {
	ID      string   `json:"id"`   // of who says it: a worker may be several processes
	Name    string   `json:"name"` // of the worker, as in start entries
	Version string   `json:"version,omitempty"`
	Queue   string   `json:"queue,omitempty"` // "": it takes no tasks
	Slots   int      `json:"slots"`
	Busy    int      `json:"busy"` // tasks that it runs
	Agents  []string `json:"agents,omitempty"`
}

// Why a request about a run cannot be done.
var (
	ErrNoRun     = errors.New("there is no such run")
	ErrKnownRun  = errors.New("there is a run of this id already")
	ErrQueueFull = errors.New("the work queue is full")
	ErrNoOwner   = errors.New("no worker has the run")
)
