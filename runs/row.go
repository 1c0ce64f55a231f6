package runs

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// Row is the summary of a [Record] for a table of many runs. It is stored as one
// line of text in a header of the record, so that the table can be filled
// without reading records.
type Row struct {
	ID    string
	Agent string
	State State

	Source string
	Queue  string // name of the work queue
	Work   uint64 // sequence number in the work queue
	Worker string // worker that owns or owned the run
	Dir    string
	Thread string
	Reason string
	Cancel bool // a cancel was requested

	Continues string // id of the task that this run resumes

	// Link is the id of the run that resumes this run, if the row has the facts of
	// that run. It is not part of [Row.Text].
	Link string

	QueuedAt, StartedAt, ActiveAt, EndedAt int64 // Unix milliseconds, 0: not yet

	Progress *Progress // nil: unknown
	Plan     Todo      // newest to-do list; Total 0: unknown
	Activity string

	Seq uint64 // sequence number in RAW of the last folded entry

	// Governance is the governance token of a run without a record. It is not part
	// of [Row.Text], because the record contains it.
	Governance string
}

// Row returns the row of the record.
func (r *Record) Row() Row {
	row := Row{
		ID: r.ID, Agent: r.Agent, State: r.State, Source: r.Source,
		Queue: r.Queue, Work: r.Work, Worker: r.Worker, Dir: r.Dir,
		Thread: r.Context(), Reason: r.Reason, Cancel: r.Cancel, Continues: r.Continues, Link: r.Link,
		QueuedAt: r.QueuedAt, StartedAt: r.StartedAt, ActiveAt: r.ActiveAt, EndedAt: r.EndedAt,
		Activity: r.Activity, Seq: r.Seq,
	}
	if r.Progress != nil {
		p := *r.Progress
		row.Progress = &p
	}
	if r.Steps.Todo != nil {
		row.Plan = *r.Steps.Todo
	}
	return row
}

// Mark returns the mark of the raw log at the time of the row.
func (r Row) Mark() Mark {
	return Mark{
		Seq: r.Seq, Started: r.StartedAt != 0, Cancelled: r.Cancel, Exited: r.State.Final() || r.Waits(),
		By: r.Worker, Work: r.Work,
	}
}

// rowFields is the number of required fields in the text of a row. Optional
// fields follow them, and later versions may append more.
const rowFields = 20

var errRow = errors.New("invalid text of a row")

// Text returns the row as one line: fields separated by spaces, text escaped as
// in the query of a URL, "-" for an empty text.
func (r Row) Text() string {
	b := make([]byte, 0, 256)
	text := func(s string) {
		switch s {
		case "":
			b = append(b, '-')
		case "-":
			b = append(b, "%2D"...)
		default:
			b = append(b, url.QueryEscape(s)...)
		}
		b = append(b, ' ')
	}
	number := func(n int64) { b = append(strconv.AppendInt(b, n, 10), ' ') }
	text(r.ID)
	text(r.Agent)
	text(string(r.State))
	text(r.Source)
	text(r.Queue)
	number(int64(r.Work))
	text(r.Worker)
	text(r.Dir)
	text(r.Thread)
	text(r.Reason)
	number(int64(map[bool]int{true: 1}[r.Cancel]))
	number(r.QueuedAt)
	number(r.StartedAt)
	number(r.ActiveAt)
	number(r.EndedAt)
	percent, done, total := -1, 0, 0
	if p := r.Progress; p != nil {
		percent, done, total = p.Percent, p.Done, p.Total
	}
	number(int64(percent))
	number(int64(done))
	number(int64(total))
	text(r.Activity)
	number(int64(r.Seq))
	if r.Continues != "" {
		text(r.Continues)
	}
	if r.Plan.Total > 0 {
		if r.Continues == "" {
			b = append(b, ' ') // not "-": an older reader would take it for the id of a run
		}
		number(int64(r.Plan.Done))
		number(int64(r.Plan.Total))
	}
	return string(b[:len(b)-1])
}

// ParseRow parses the result of [Row.Text].
func ParseRow(s string) (Row, error) {
	var field [rowFields]string
	for i := range field {
		var more bool
		field[i], s, more = strings.Cut(s, " ")
		if !more && i < rowFields-1 {
			return Row{}, errRow
		}
	}
	invalid := false
	next := 0
	text := func() string {
		f := field[next]
		next++
		if f == "-" {
			return ""
		}
		if strings.IndexByte(f, '%') < 0 && strings.IndexByte(f, '+') < 0 {
			return f
		}
		t, err := url.QueryUnescape(f)
		invalid = invalid || err != nil
		return t
	}
	number := func() int64 {
		n, err := strconv.ParseInt(field[next], 10, 64)
		next++
		invalid = invalid || err != nil
		return n
	}
	r := Row{ID: text(), Agent: text(), State: State(text()), Source: text(), Queue: text(), Work: uint64(number()),
		Worker: text(), Dir: text(), Thread: text(), Reason: text(), Cancel: number() == 1,
		QueuedAt: number(), StartedAt: number(), ActiveAt: number(), EndedAt: number()}
	percent, done, total := number(), number(), number()
	if percent >= 0 {
		r.Progress = &Progress{Percent: int(percent), Done: int(done), Total: int(total)}
	}
	r.Activity = text()
	r.Seq = uint64(number())
	continues, s, _ := strings.Cut(s, " ")
	if continues == "%2D" {
		continues = "-"
	}
	if continues != "" && CheckID(continues) == nil {
		r.Continues = continues
	}
	planDone, s, _ := strings.Cut(s, " ")
	planTotal, _, _ := strings.Cut(s, " ")
	if n, err := strconv.Atoi(planTotal); err == nil && n > 0 {
		r.Plan.Done, _ = strconv.Atoi(planDone)
		r.Plan.Total = n
	}
	if invalid || CheckID(r.ID) != nil {
		return Row{}, errRow
	}
	return r, nil
}
