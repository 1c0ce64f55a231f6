package runs

import (
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// Row is the little of a [Record] that a table of many runs holds. It travels
// as one line of text beside the record, so that a table is filled without
// reading records.
type Row struct {
	ID    string
	Agent string
	State State

	Source string
	Queue  string // the work queue that it came by
	Work   uint64 // its place in the queue: what is smaller comes first
	Worker string // who has it
	Dir    string
	Thread string
	Reason string
	Cancel bool // somebody asked for its end

	Continues string // the run that it goes on with as the same task

	// Link is the run that goes on with this one, and whose facts the row has;
	// "": they are its own. It is not in the text of a row.
	Link string

	QueuedAt, StartedAt, ActiveAt, EndedAt int64 // Unix milliseconds, 0: not yet

	Progress *Progress // nil: not known
	Plan     Todo      // the newest to-do list; Total 0: none is known
	Activity string

	Seq uint64 // the sequence in RAW that it is based on

	// Governance is the token of a run that has no record yet. It is not in the
	// text of a row: the record has it.
	Governance string
}

// Row is what a table holds of the record.
func (r *Record) Row() Row {
	row := Row{
		ID: r.ID, Agent: r.Agent, State: r.State, Source: r.Source, Queue: r.Queue, Work: r.Work, Worker: r.Worker, Dir: r.Dir,
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

// Mark is what the run's raw log held when the row was made.
func (r Row) Mark() Mark {
	return Mark{Seq: r.Seq, Started: r.StartedAt != 0, Cancelled: r.Cancel, Exited: r.State.Final() || r.Waits(), By: r.Worker, Work: r.Work}
}

// rowFields is how many fields the text of a row has; a later version may add some.
const rowFields = 20

var errRow = errors.New("not the text of a row")

// Text is the row as one line: fields with spaces between them, free text
// escaped as in a URL's query, "-" for nothing.
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
	if r.Continues != "" { // few do
		text(r.Continues)
	}
	if r.Plan.Total > 0 {
		if r.Continues == "" {
			b = append(b, ' ') // an older reader takes "-" for the id of a run
		}
		number(int64(r.Plan.Done))
		number(int64(r.Plan.Total))
	}
	return string(b[:len(b)-1])
}

// ParseRow reads what [Row.Text] wrote.
func ParseRow(s string) (Row, error) {
	var field [rowFields]string
	for i := range field {
		var more bool
		field[i], s, more = strings.Cut(s, " ")
		if !more && i < rowFields-1 {
			return Row{}, errRow
		}
	}
	bad := false
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
		bad = bad || err != nil
		return t
	}
	number := func() int64 {
		n, err := strconv.ParseInt(field[next], 10, 64)
		next++
		bad = bad || err != nil
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
	more, s, _ := strings.Cut(s, " ")
	if more == "%2D" {
		more = "-"
	}
	if more != "" && CheckID(more) == nil {
		r.Continues = more
	}
	stepsDone, s, _ := strings.Cut(s, " ")
	steps, _, _ := strings.Cut(s, " ")
	if of, err := strconv.Atoi(steps); err == nil && of > 0 {
		r.Plan.Done, _ = strconv.Atoi(stepsDone)
		r.Plan.Total = of
	}
	if bad || CheckID(r.ID) != nil {
		return Row{}, errRow
	}
	return r, nil
}
