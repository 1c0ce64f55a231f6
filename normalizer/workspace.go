package normalizer

import "github.com/linesman/linesman/normalizer/scan"

// Workspace is memory that the folds of one goroutine share, see [Fold.Use]. Nothing of a
// run is in it between two calls of [Fold.Apply]. The zero value is ready to use. It keeps at
// most about 2 MiB.
type Workspace struct {
	// Reuse says that the body of a message is valid only during the call that gets it.
	Reuse bool

	out    Out
	bodies []byte // the rest of an array is for more bodies; it is never written again
	spare  []byte // for an unfinished line
	text   []byte // decoded output of a command, at most runs.MaxOutput bytes and one

	// Of the current entry, see [Fold.settle]:
	outputs []Output   // of commands
	final   scan.Value // final text, if it is of kind String
	doing   Activity   // newest one, if it is not empty
	failure failure    // error message, if it is not empty
	counts  [len(kinds)]int64
}

const (
	maxShared = 16 << 10 // bytes of an array of bodies
	maxBody   = 4 << 10  // of a body in an array with others
	minSpare  = 32 << 10 // of a line that takes the spare memory
	maxSpare  = 1 << 20  // of spare memory

	// maxSurplus bounds the spare memory that a line takes, in lengths of the line: the limit
	// of unfinished lines counts their lengths.
	maxSurplus = 8
)

// Use makes the fold work in memory that it shares with others, which must belong to the same
// goroutine. A fold that was not given any has its own.
func (f *Fold) Use(w *Workspace) { f.work = w }

// body returns the JSON of e. Bodies share arrays of at most maxShared bytes, so that one that
// is kept keeps no more than that.
func (w *Workspace) body(e *Event, agent string) []byte {
	if w.Reuse && e.body != nil {
		return e.body
	}
	if w.Reuse {
		w.bodies = e.appendJSON(w.bodies[:0], agent)
		return w.bodies
	}
	n := e.size()
	if n > maxBody {
		b := e.appendJSON(make([]byte, 0, n), agent)
		return b[:len(b):len(b)]
	}
	if cap(w.bodies)-len(w.bodies) < n {
		w.bodies = make([]byte, 0, maxShared)
	}
	from := len(w.bodies)
	b := e.appendJSON(w.bodies[from:from:cap(w.bodies)], agent)
	if from+len(b) <= cap(w.bodies) { // else append has moved it
		w.bodies = w.bodies[:from+len(b)]
	}
	return b[:len(b):len(b)]
}

// extend appends b to an unfinished line. A long line is copied once, but for its beginning, as
// far as there is memory of a line before.
func (w *Workspace) extend(line, b []byte) []byte {
	n := len(line) + len(b)
	if n <= cap(line) || n < minSpare {
		return append(line, b...)
	}
	longer := w.spare
	if cap(longer) < n || cap(longer) > maxSurplus*n {
		longer = make([]byte, 0, 2*n)
	} else {
		w.spare = nil
	}
	longer = append(append(longer, line...), b...)
	w.giveBack(line)
	return longer
}

// giveBack keeps the memory of a line for other lines.
func (w *Workspace) giveBack(line []byte) {
	if cap(line) <= maxSpare && cap(line) > max(cap(w.spare), minSpare) {
		w.spare = line[:0]
	}
}
