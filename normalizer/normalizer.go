// Package normalizer turns the raw log of an agent's run into bounded events.
// It is pure: the same log always gives the same events, however its bytes
// are cut into entries, and no function here reads a clock, opens a file or
// talks to NATS.
//
//	entries ─▶ Fold: lines ─▶ Dialect.Line ─▶ bounds ─▶ Messages, Record
//
// A [Fold] is what one run needs; its state is small and can be saved at any
// point, so that after a crash a run goes on from there. What an agent's
// lines mean is known by its [Backend] alone, which copies by allow-list:
// what it does not name never leaves the raw log.
package normalizer

import (
	"bytes"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// DefaultMaxLine is the longest line, in bytes, that is read unless said otherwise.
const DefaultMaxLine = 8 << 20

// Pos is where a message comes from. Raw, Line and Part together are unique
// within a stream. Messages come in the order of Raw; those of one entry in
// the order of their lines, the one of a hole before them, those of the run's
// end behind them.
type Pos struct {
	Raw  uint64 // sequence of the entry in which the line ends
	Line uint64 // from 1; 0 when no line made it
	Part int    // from 1, counts the messages of that line, or of that entry where Line is 0
	Time int64  // when it was captured, Unix milliseconds
}

// Message is one event, or the completion, ready to be published.
type Message struct {
	Pos
	Token string // of the kind, for the subject
	Body  []byte // never written to again
}

// Fold folds the raw log of one run.
type Fold struct {
	Record *runs.Record // how the run is doing, as of the last entry

	agent   string
	dialect Dialect
	maxLine int

	next    int64  // offset in stdout of the first byte not seen
	errNext int64  // the same for stderr
	partial []byte // the unfinished line, unless it is too long
	long    int64  // bytes of an unfinished line that is too long
	cr      bool   // with long: the last of them was a carriage return
	torn    bool   // a hole ended just before the unfinished line: it may lack its beginning
	missing int64  // bytes of holes that no event has told yet
	last    bool   // the line that was folded last is the run's end
	done    bool   // has its completion

	handled bool   // the session handle was published, or left out
	session string // the session handle's id, for the completion
	final   *string

	seen  uint64 // sequence of the last entry that was folded
	pos   Pos
	loose int // messages of this entry that no line made
	out   Out
	emit  func(Message)
}

// NewFold begins a run. A maxLine of 0 is [DefaultMaxLine].
func NewFold(b Backend, run string, maxLine int) *Fold {
	if maxLine == 0 {
		maxLine = DefaultMaxLine
	}
	return &Fold{Record: runs.NewRecord(run, b.Agent()), agent: b.Agent(), dialect: b.Dialect(), maxLine: maxLine}
}

// Done reports whether the run has its completion: nothing is read after it.
func (f *Fold) Done() bool { return f.done }

// Seen is the sequence of the last entry that was folded.
func (f *Fold) Seen() uint64 { return f.seen }

// Pending is how many bytes of an unfinished line are held. They are not in
// the saved state: to go on from it, feed again what came since [Fold.State]'s
// offset.
func (f *Fold) Pending() int { return len(f.partial) }

// Drop forgets the bytes of the unfinished line, to save memory. Before the
// next entry is folded those that hold them must be fed again, as after a
// restart.
func (f *Fold) Drop() {
	f.next -= int64(len(f.partial))
	f.partial = nil
}

// Apply folds the entry at sequence seq of the raw log, and calls emit for
// every message that it makes. An entry whose sequence was seen gives nothing
// new: of its bytes only those of an unfinished line are taken.
func (f *Fold) Apply(seq uint64, e runs.Entry, emit func(Message)) {
	if f.done {
		return
	}
	again := seq <= f.seen
	f.seen = max(f.seen, seq)
	output := e.Kind == runs.Out && e.Offset >= 0 && e.Offset <= math.MaxInt64-int64(len(e.Body))
	if again && !output {
		return
	}
	f.emit, f.loose = emit, 0
	f.pos = Pos{Raw: seq, Time: e.Time}
	f.Record.Seq = f.seen
	unowned := f.Record.Unowned()
	if !again {
		f.gap()
		f.Record.Entry(e)
	}
	switch e.Kind {
	case runs.Queued, runs.Started, runs.Note: // the record has it
	case runs.Cancelled:
		if unowned {
			f.end(runs.Exit{Reason: runs.ReasonCancelled})
		}
	case runs.Out:
		if output {
			f.output(e.Offset, e.Body, again)
		} else {
			f.unreadable("bad offset")
		}
	case runs.ErrOut:
		f.errNext = max(f.errNext, e.Offset+int64(len(e.Body)))
		f.Record.ErrBytes = f.errNext
	case runs.Exited:
		f.exit(e.Body)
	default:
		f.unreadable("unknown kind")
	}
	f.emit = nil
}

// gap says that bytes are missing. A hole that shows when entries are read
// again, because the raw log has lost the beginning of an unfinished line, is
// told with the next entry that is new: what is made of older ones counts as
// published.
func (f *Fold) gap() {
	if f.missing == 0 {
		return
	}
	f.message(ErrorMessage(f.agent + " stream gap (redacted): missing_bytes=" + strconv.FormatInt(f.missing, 10)))
	f.missing = 0
}

func (f *Fold) unreadable(what string) {
	f.Record.Bad++
	f.message(ErrorMessage(f.agent + " raw record error (redacted): " + what))
}

// Unreadable folds an entry that cannot be read at all: it is one Error event.
func (f *Fold) Unreadable(seq uint64, at int64, emit func(Message)) {
	f.Apply(seq, runs.Entry{Kind: "unreadable", Time: at}, emit)
}

// output folds bytes of stdout. What was seen is cut off; what is missing
// becomes one Error event.
func (f *Fold) output(offset int64, b []byte, again bool) {
	switch {
	case offset+int64(len(b)) <= f.next:
		return
	case offset < f.next:
		b = b[f.next-offset:]
	case offset > f.next:
		f.missing += offset - f.next
		f.partial, f.long, f.torn = f.partial[:0], 0, true
		f.next = offset
		f.Record.Gaps++
		if !again {
			f.gap()
		}
	}
	f.next += int64(len(b))
	f.Record.Bytes = f.next
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			f.hold(b)
			return
		}
		if len(f.partial) == 0 && f.long == 0 {
			f.line(b[:end])
		} else {
			f.hold(b[:end])
			f.flush()
		}
		if f.last { // what is behind it counts for nothing
			f.next -= int64(len(b) - end - 1)
			f.Record.Bytes = f.next
			f.end(runs.Exit{Reason: runs.ReasonEOF})
			return
		}
		b = b[end+1:]
	}
}

// hold keeps the beginning of a line, or only its length once it is too long.
// One byte more than a line's limit is kept: it may be a carriage return.
func (f *Fold) hold(b []byte) {
	if f.long == 0 && len(f.partial)+len(b) <= f.maxLine+1 {
		f.partial = append(f.partial, b...)
		return
	}
	f.long += int64(len(f.partial) + len(b))
	f.partial = f.partial[:0]
	if len(b) > 0 {
		f.cr = b[len(b)-1] == '\r'
	}
}

// flush ends the line that is held.
func (f *Fold) flush() {
	if f.long > 0 {
		if f.cr {
			f.long--
		}
		f.tooLong(f.long)
		f.long, f.cr = 0, false
	} else {
		f.line(f.partial)
	}
	f.partial = f.partial[:0]
	if cap(f.partial) > 1<<20 { // large lines are rare
		f.partial = nil
	}
}

// line folds a line, which has lost its newline.
func (f *Fold) line(line []byte) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > f.maxLine {
		f.tooLong(int64(len(line)))
		return
	}
	torn := f.torn
	f.torn = false
	if blank(line) {
		f.Record.Blank++
		f.Record.Line(runs.Facts{}, f.pos.Time)
		return
	}
	defer f.out.reset()
	if fault := f.dialect.Line(line, &f.out); fault != NoFault {
		if torn && (fault == InvalidJSON || fault == InvalidUTF8 || fault == MissingType) {
			f.Record.Line(runs.Facts{}, f.pos.Time) // the rest of a line in the hole, which has its event
			return
		}
		f.fault(fault.message(f.agent, len(line)))
		return
	}
	f.handle()
	if f.out.final != nil {
		final := bounds.FinalText(*f.out.final)
		f.final = &final
		f.Record.Final(*f.out.final)
	}
	f.Record.Line(f.out.Facts, f.pos.Time)
	f.last = f.out.end
	f.publish(f.out.events)
}

func (f *Fold) tooLong(n int64) {
	f.torn = false
	f.fault(f.agent + " stream line too long (redacted): line_bytes=" + strconv.FormatInt(n, 10) +
		" max_line_bytes=" + strconv.Itoa(f.maxLine))
}

func (f *Fold) fault(message string) {
	f.Record.Line(runs.Facts{Malformed: true}, f.pos.Time)
	f.publish([]Event{ErrorMessage(message)})
}

// handle adds the session handle facet to the line that says the id first:
// to its first Status event without data, else in one behind its events.
func (f *Fold) handle() {
	id := f.out.Session
	if id == "" || f.handled {
		return
	}
	f.handled = true
	if len(id) > MaxSession {
		f.out.Event(StatusMessage("session handle id oversize: len_bytes="+strconv.Itoa(len(id)), nil))
		return
	}
	f.session = id
	for i := range f.out.events {
		if e := &f.out.events[i]; e.Kind == Status && e.Data == nil {
			e.Data = sessionHandle(id)
			return
		}
	}
	f.out.Event(Event{Kind: Status, Channel: &channelStatus, Data: sessionHandle(id)})
}

// message publishes an event that no line made.
func (f *Fold) message(e Event) {
	if f.Record.Cancel {
		return
	}
	f.loose++
	f.pos.Line, f.pos.Part = 0, f.loose
	f.send(e)
}

// publish publishes the events of the line that was folded last. After a
// cancel nothing is published but the completion.
func (f *Fold) publish(events []Event) {
	if f.Record.Cancel {
		return
	}
	f.pos.Line, f.pos.Part = uint64(f.Record.Lines), 0
	for i := range events {
		e := events[i]
		if e.limit() {
			f.Record.Dropped++
		}
		if e.Text == nil || len(*e.Text) <= bounds.MaxText {
			f.pos.Part++
			f.send(e)
			continue
		}
		for part := range bounds.Split(*e.Text, bounds.MaxText) {
			e.Text = &part
			f.pos.Part++
			f.send(e)
		}
	}
}

func (f *Fold) send(e Event) {
	token := e.Kind.Token()
	f.Record.Events[token]++
	f.emit(Message{Pos: f.pos, Token: token, Body: e.append(make([]byte, 0, e.size()), f.agent)})
}

// blank reports whether line is empty or Unicode white space alone.
func blank(line []byte) bool {
	for len(line) > 0 {
		c := line[0]
		if c < utf8.RuneSelf {
			if c != ' ' && (c < '\t' || c > '\r') {
				return false
			}
			line = line[1:]
			continue
		}
		r, n := utf8.DecodeRune(line)
		if !unicode.IsSpace(r) {
			return false
		}
		line = line[n:]
	}
	return true
}
