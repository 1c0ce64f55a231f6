// Package normalizer converts the raw log of a run to events of limited size. It
// is pure: the same output always results in the same events, independent of the
// boundaries of the entries, and no function here reads a clock, opens a file or
// uses NATS.
//
//	entries ─▶ Fold: lines ─▶ Dialect.Line ─▶ bounds ─▶ Messages, Record
//
// A [Fold] has the state of one run. The state is small and can be saved at any
// entry, so that a run resumes from there after a crash. Only the [Backend] knows
// the meaning of an agent's lines. It copies by allow-list: all other values stay
// in the raw log.
package normalizer

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// defaultMaxLine is the default of the maximum length of a line, in bytes.
const defaultMaxLine = 8 << 20

// Pos is the origin of a message. Raw, Line and Part together are unique within a
// stream. Messages are in the order of Raw. The messages of one entry are in this
// order: a gap, the lines, the end of the run.
type Pos struct {
	Raw  uint64 // sequence number of the entry in which the line ends
	Line uint64 // from 1; 0 if the message is not from a line
	Part int    // from 1; number within the line, or within the entry if Line is 0
	Time int64  // of the entry, or the time in the line of a session log; Unix milliseconds
}

// Message is one event or the completion, ready for publishing.
type Message struct {
	Pos
	Token string // token of the kind, for the NATS subject
	Body  []byte // never modified later, see [Workspace.Reuse]; it may keep 16 KiB of other bodies in memory

	Detail *runs.Detail // of a fold with details; nil: none
}

// Fold folds the raw log of one run into messages and the run record.
type Fold struct {
	Record *runs.Record // run record, as of the last entry

	agent   string
	dialect Dialect
	scrub   func(string) string // of the backend; nil: none
	maxLine int

	state saved
	ended bool // the last folded line ends the run
	done  bool // the completion was published

	pos           Pos
	lineAt        int64 // offset of the present line in the output
	lineLen       int   // its length, without the newline
	entryMessages int   // messages of this entry that are not from a line
	work          *Workspace
	observer      Observer  // nil: none
	details       *detailer // nil: none
	emit          func(Message)
}

// NewFold returns the fold of a new run. maxLine is the maximum length of a line in
// bytes; 0 means [defaultMaxLine].
func NewFold(b Backend, run string, maxLine int) *Fold {
	if maxLine == 0 {
		maxLine = defaultMaxLine
	}
	return &Fold{
		Record: runs.NewRecord(run, b.Agent()), agent: b.Agent(), dialect: b.Dialect(), scrub: scrubOf(b), maxLine: maxLine,
	}
}

// longest is the maximum length of a line, in bytes: that of a conversation is not a setting.
func (f *Fold) longest() int {
	if f.Record.Live != nil {
		return runs.MaxLiveLine
	}
	return f.maxLine
}

// Done reports whether the completion was published. Later entries are ignored.
func (f *Fold) Done() bool { return f.done }

// Seen returns the sequence number of the last folded entry.
func (f *Fold) Seen() uint64 { return f.state.Seen }

// Pending returns the number of buffered bytes of unfinished lines, one for each direction. The
// saved state does not contain them: after [Restore], apply the entries from [Fold.From] again.
func (f *Fold) Pending() int { return len(f.state.partial) + len(f.state.In.partial) }

// From returns the sequence number of the entry in which the first unfinished line begins whose bytes
// are buffered; 0: there is none.
func (f *Fold) From() uint64 {
	var from uint64
	for _, s := range []*stream{&f.state.stream, &f.state.In} {
		if len(s.partial) > 0 && (from == 0 || s.from < from) {
			from = s.from
		}
	}
	return from
}

// Drop frees the buffered bytes of unfinished lines. The entries that contain
// them must be applied again before the next new entry, as after a restart.
func (f *Fold) Drop() {
	f.state.drop()
	f.state.In.drop()
}

// Apply folds the entry with sequence number seq, and calls emit for each
// resulting message. An entry that was folded before is a replay: only its bytes
// of an unfinished line are used.
func (f *Fold) Apply(seq uint64, e runs.Entry, emit func(Message)) {
	if f.done {
		return
	}
	replay := seq <= f.state.Seen
	f.state.Seen = max(f.state.Seen, seq)
	if f.details != nil && e.Kind == runs.ErrOut {
		f.details.errOut(e.Offset, e.Body)
	}
	bytes := (e.Kind == runs.Out || e.Kind == runs.Sent) && e.Offset >= 0 && e.Offset <= math.MaxInt64-int64(len(e.Body))
	if replay && !bytes {
		return
	}
	if f.work == nil {
		f.work = new(Workspace)
	}
	f.emit, f.entryMessages = emit, 0
	f.pos = Pos{Raw: seq, Time: e.Time}
	f.Record.Seq = f.state.Seen
	unowned, queued, unboxed := f.Record.Unowned(), f.Record.State == runs.StateQueued, f.Record.Unboxed
	known := false
	if !replay {
		f.state.Entries++
		f.publishGap()
		known = f.Record.Entry(e)
	}
	switch e.Kind {
	case runs.Queued: // folded by the record
	case runs.Note: // folded by the record
		f.left(e.Body)
	case runs.Started: // folded by the record
		if f.details != nil && queued {
			f.publishPrompt(e)
		}
		if f.Record.Unboxed && !unboxed {
			f.publishEntryEvent(StatusMessage(runs.UnboxedWarning, nil))
		}
	case runs.Cancelled:
		if unowned {
			f.end(runs.Exit{Reason: runs.ReasonCancelled})
		}
	case runs.Out, runs.Sent:
		switch {
		case !bytes:
			f.unreadable("bad offset")
		case e.Kind == runs.Out:
			f.output(e.Offset, e.Body, replay)
		default:
			f.sent(e.Offset, e.Body, replay)
			f.publishExtra(0)
		}
	case runs.Proc:
		if f.state.Left = false; !known {
			f.process(e.Body)
		}
	case runs.Ordered:
		f.command(e.Body)
	case runs.ErrOut:
		if n := e.Offset + int64(len(e.Body)) - f.state.ErrOffset; n > 0 {
			f.state.ErrOffset += n
			f.state.locate(seq, min(n, int64(len(e.Body))))
		}
		f.Record.ErrBytes = f.state.ErrOffset
	case runs.Exited:
		f.end(runs.DecodeExit(e.Body))
	default:
		f.unreadable("unknown kind")
	}
	f.settle()
	f.emit = nil
}

// publishGap publishes an Error event about missing bytes. A replay can find a gap
// if the raw log has lost the beginning of an unfinished line. Its event belongs
// to the next new entry, because all messages of older entries are published.
func (f *Fold) publishGap() {
	if f.state.Missing == 0 {
		return
	}
	f.publishEntryEvent(ErrorMessage(f.agent + " stream gap (redacted): missing_bytes=" +
		strconv.FormatInt(f.state.Missing, 10)))
	f.state.Missing = 0
}

func (f *Fold) unreadable(problem string) {
	f.Record.Bad++
	f.publishEntryEvent(ErrorMessage(f.agent + " raw record error (redacted): " + problem))
}

// Unreadable folds an entry that could not be decoded. It results in one Error
// event.
func (f *Fold) Unreadable(seq uint64, at int64, emit func(Message)) {
	f.Apply(seq, runs.Entry{Kind: runs.Unreadable, Time: at}, emit)
}

// output folds bytes of stdout.
func (f *Fold) output(offset int64, b []byte, replay bool) {
	s := &f.state.stream
	b = f.next(s, offset, b, replay)
	f.Record.Bytes = s.Offset
	if f.state.Left {
		return
	}
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			f.settle() // a line of this entry may be in the buffer
			f.buffer(s, b)
			return
		}
		f.lineAt, f.lineLen = s.Offset-int64(len(b)+len(s.partial)), end+len(s.partial)
		if !s.open() {
			f.line(b[:end])
		} else {
			f.buffer(s, b[:end])
			f.flush()
		}
		if f.ended { // ignore the bytes after the line
			s.Offset -= int64(len(b) - end - 1)
			f.Record.Bytes = s.Offset
			f.end(runs.Exit{Reason: runs.ReasonEOF})
			return
		}
		b = b[end+1:]
	}
}

// left folds a note: if the agent has ended with its turn, further output is of processes that it
// left, and makes no events. Else they do its work.
func (f *Fold) left(note []byte) {
	var n runs.Remark
	if json.Unmarshal(note, &n) != nil || n.Reason != runs.NoteLeft || f.state.Left {
		return
	}
	if f.state.open() {
		f.flush()
		f.settle()
	}
	f.state.Left = f.Record.Rests()
}

// line folds a line without its newline: usually one record.
func (f *Fold) line(line []byte) {
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	if len(line) > f.longest() {
		f.tooLong(int64(len(line)))
		return
	}
	line = Trim(line, f.Record.Lines == 0)
	f.pos.Part = 0
	afterGap := f.state.AfterGap
	f.state.AfterGap = false
	if len(line) == 0 || line[0] != '{' && len(bytes.TrimSpace(line)) == 0 {
		f.Record.Blank++
		f.Record.Line(runs.Facts{}, f.pos.Time)
		return
	}
	switch fault := f.record(line); {
	case fault == invalidJSON || fault == invalidUTF8:
		f.damaged(line, fault, afterGap)
	case fault == MissingType && afterGap:
		f.lost()
	case fault != NoFault:
		f.publishFault(fault.message(f.agent, len(line)))
	}
	f.publishExtra(uint64(f.Record.Lines))
}

// damaged folds what can be read of a line that is not valid JSON. All of it is one line.
func (f *Fold) damaged(line []byte, fault Fault, afterGap bool) {
	records, torn := Salvage(line)
	switch {
	case len(records) == 0 && afterGap:
		f.lost()
	case len(records) == 0:
		f.publishFault(fault.message(f.agent, len(line)))
	case torn > 0 && afterGap:
		f.lost()
	case torn > 0:
		f.publishFault(fault.message(f.agent, torn))
	}
	for i, record := range records {
		if i > 0 || torn > 0 {
			f.Record.Lines--
		}
		if fault := f.record(record); fault != NoFault {
			f.publishFault(fault.message(f.agent, len(record)))
		}
		if f.ended {
			return
		}
	}
}

// lost folds the end of a line that began in a gap, which has its own event.
func (f *Fold) lost() { f.Record.Line(runs.Facts{}, f.pos.Time) }

// record folds a record, unless it has a fault.
func (f *Fold) record(line []byte) Fault {
	out := f.out()
	defer out.reset()
	if fault := f.dialect.Line(line, out); fault != NoFault {
		return fault
	}
	captured := f.pos.Time
	f.pos.Time = f.Record.LineTime(out.Facts.At, captured)
	f.told(out)
	f.ended = out.end
	if f.details == nil {
		f.publish(uint64(f.Record.Lines), out.events)
	} else {
		f.publishDetailed(uint64(f.Record.Lines), func(d *Details) { f.detail(line, d) })
	}
	f.pos.Time = captured
	return NoFault
}

// detail adds the details of a line.
func (f *Fold) detail(line []byte, d *Details) {
	if from, ok := f.dialect.(Detailer); ok {
		from.Detail(line, d)
	}
}

// out returns what the next line or entry is mapped to. The caller resets it.
func (f *Fold) out() *Out {
	out := &f.work.out
	out.agent, out.observed = f.agent, f.observer != nil
	return out
}

// told folds what a line or an entry tells, but for its events.
func (f *Fold) told(out *Out) {
	f.addSessionHandle()
	f.foldFinal(out)
	f.foldLater(out)
	if turn := out.Facts.Turn; len(out.ended) > 0 || turn != runs.TurnNone || out.Facts.Live != nil {
		f.observe(out)
		f.foldTurn(turn)
	}
	if live := out.Facts.Live; live != nil && live.Asked != nil {
		live.Asked.Offset, live.Asked.Length = f.lineAt, f.lineLen
	}
	for _, thing := range f.Record.Fold(&out.Facts, f.pos.Time) {
		out.Event(driftEvent(f.agent, f.Record.Version, thing))
	}
}

func (f *Fold) tooLong(n int64) {
	f.pos.Part, f.state.AfterGap = 0, false
	f.publishFault(f.agent + " stream line too long (redacted): line_bytes=" + strconv.FormatInt(n, 10) +
		" max_line_bytes=" + strconv.Itoa(f.longest()))
}

func (f *Fold) publishFault(message string) {
	f.Record.Line(runs.Facts{Malformed: true}, f.pos.Time)
	f.publish(uint64(f.Record.Lines), []Event{ErrorMessage(message)})
}

// addSessionHandle adds the session handle facet to the first line with a session
// id: to its first Status event without data, or in an additional event.
func (f *Fold) addSessionHandle() {
	out := &f.work.out
	id := out.Session
	if id == "" || f.state.SessionDone {
		return
	}
	f.state.SessionDone = true
	if len(id) > maxSession {
		out.Event(StatusMessage("session handle id oversize: len_bytes="+strconv.Itoa(len(id)), nil))
		return
	}
	f.state.Session = id
	for i := range out.events {
		if e := &out.events[i]; e.Kind == status && e.Data == nil {
			e.Data = sessionHandle(id)
			return
		}
	}
	out.Event(Event{Kind: status, Channel: &channelStatus, Data: sessionHandle(id)})
}

// publishEntryEvent publishes an event that is not from a line.
func (f *Fold) publishEntryEvent(e Event) {
	if f.Record.Cancel {
		return
	}
	f.entryMessages++
	f.pos.Line, f.pos.Part = 0, f.entryMessages
	f.send(&e, nil)
}

// publish publishes the events of a line, 0 being an entry that is not of output. After a cancel only
// the completion is published.
func (f *Fold) publish(line uint64, events []Event) {
	if f.Record.Cancel {
		return
	}
	f.pos.Line = line
	for i := range events {
		e := &events[i]
		if e.limit() {
			f.Record.Dropped++
		}
		detail := f.details.of(i)
		switch {
		case e.text.Len > bounds.MaxText:
			for rest := e.text; rest.Len > 0; detail = nil {
				e.text, rest = rest.Cut(bounds.MaxText)
				f.pos.Part++
				f.send(e, detail)
			}
		case e.Text != nil && len(*e.Text) > bounds.MaxText:
			for part := range bounds.Split(*e.Text, bounds.MaxText) {
				e.Text = &part
				f.pos.Part++
				f.send(e, detail)
				detail = nil
			}
		default:
			f.pos.Part++
			f.send(e, detail)
		}
	}
}

func (f *Fold) send(e *Event, detail *runs.Detail) {
	f.work.counts[e.Kind]++
	f.emit(Message{Pos: f.pos, Token: e.Kind.Token(), Body: f.work.body(e, f.agent), Detail: detail})
}
