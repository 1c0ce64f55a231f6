package runs

import (
	"errors"
	"fmt"
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
	Thread string // see [Record.Context]
	Asked  bool   // the agent has not reported the thread: it is the one to resume
	Reason string
	Cancel bool // a cancel was requested

	Continues string // id of the task that this run resumes

	// Link is the id of the run that resumes this run, if the row has the facts of
	// that run. It is not part of [Row.Text].
	Link string

	QueuedAt, StartedAt, ActiveAt, EndedAt int64 // Unix milliseconds, 0: not yet

	Written bool // the times are those in the log of a session, see [Record.WrittenAt]

	Progress *Progress // nil: unknown
	Plan     Todo      // newest to-do list; Total 0: unknown
	Activity string
	Doing    Doing

	Title   string
	Labels  Labels
	Version string // of the agent
	Model   string
	Tokens  Tokens // the total of this run so far, see [Spent]

	Changed *Changed // see [Record.Changed]
	Brief

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
		Asked:    r.Thread == "" && r.Resumes != "",
		QueuedAt: r.QueuedAt, StartedAt: r.StartedAt, ActiveAt: r.ActiveAt, EndedAt: r.EndedAt,
		Written: r.WrittenAt > 0, Activity: r.Activity, Seq: r.Seq,
		Doing: r.Doing, Title: r.Title, Labels: LabelsOf(r.Labels), Version: r.Version, Model: r.Model,
		Changed: r.Changed(), Brief: r.Brief(),
	}
	if s := r.Spent(); s.Total != nil && !s.Earlier {
		row.Tokens = Tokens{Input: s.Total.Input, Output: s.Total.Output, Known: true}
	}
	if r.Progress != nil {
		row.Progress = new(*r.Progress)
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

var errRow = errors.New("invalid text of a row")

// required returns the required fields of the text of a row, in their order.
// Optional fields follow them, and later versions may append more.
func (r *Row) required(p *Progress) [20]any { // an array: a row that is parsed stays on the stack
	return [...]any{
		&r.ID, &r.Agent, (*string)(&r.State), &r.Source, &r.Queue, &r.Work, &r.Worker, &r.Dir, &r.Thread, &r.Reason,
		&r.Cancel, &r.QueuedAt, &r.StartedAt, &r.ActiveAt, &r.EndedAt, &p.Percent, &p.Done, &p.Total, &r.Activity, &r.Seq,
	}
}

// Text returns the row as one line: fields separated by spaces, text escaped as
// in the query of a URL, "-" for an empty text.
func (r Row) Text() string {
	progress := Progress{Percent: -1}
	if r.Progress != nil {
		progress = *r.Progress
	}
	b := make([]byte, 0, 256)
	for _, field := range r.required(&progress) {
		b = append(appendField(b, field), ' ')
	}
	for _, field := range r.optional() {
		b = append(append(b, field...), ' ')
	}
	return strings.TrimRight(string(b), " ")
}

// asked is the text of a set [Row.Asked].
const asked = "asked"

// optional returns the texts of the optional fields, in their order. An empty one is absent.
func (r *Row) optional() (fields [optionalFields]string) {
	text := func(s string) string {
		if s == "" {
			return ""
		}
		return string(appendField(nil, &s))
	}
	fields[0] = text(r.Continues)
	if r.Plan.Total > 0 {
		fields[1], fields[2] = strconv.Itoa(r.Plan.Done), strconv.Itoa(r.Plan.Total)
	}
	if r.Asked {
		fields[3] = asked
	}
	fields[4], fields[5] = text(r.Title), string(r.Labels)
	fields[6], fields[7] = text(r.Version), text(r.Model)
	if r.Tokens.Known {
		fields[8] = strconv.FormatInt(r.Tokens.Input, 10) + "/" + strconv.FormatInt(r.Tokens.Output, 10)
	}
	if d := r.Doing; d.Phase != "" {
		fields[9] = fmt.Sprintf("%s/%d/%d/%d/%d/%s", d.Phase, d.Since, d.Attempt, d.Of, d.Next, url.QueryEscape(d.Tool))
	}
	if r.Written {
		fields[10] = written
	}
	if c := r.Changed; c != nil {
		fields[11] = fmt.Sprintf("%s/%d/%d/%d", c.In, c.Files, c.Added, c.Removed)
	}
	fields[12], fields[13], fields[14] = text(r.Answer), text(r.Cause), text(r.Hint)
	if t := r.Tests; t != nil {
		fields[15] = strconv.Itoa(t.Passed) + "/" + strconv.Itoa(t.Failed)
	}
	if r.Cost != nil {
		fields[16] = strconv.FormatFloat(*r.Cost, 'g', -1, 64)
	}
	return fields
}

// written is the text of a set [Row.Written].
const written = "written"

// optionalFields is the number of optional fields.
const optionalFields = 17

func appendField(b []byte, field any) []byte {
	switch v := field.(type) {
	case *string:
		switch *v {
		case "":
			return append(b, '-')
		case "-":
			return append(b, "%2D"...)
		}
		return append(b, url.QueryEscape(*v)...)
	case *bool:
		if *v {
			return append(b, '1')
		}
		return append(b, '0')
	case *int:
		return strconv.AppendInt(b, int64(*v), 10)
	case *int64:
		return strconv.AppendInt(b, *v, 10)
	case *uint64:
		return strconv.AppendInt(b, int64(*v), 10)
	}
	return b
}

// ParseRow parses the result of [Row.Text].
func ParseRow(s string) (Row, error) {
	var r Row
	var progress Progress
	fields := r.required(&progress)
	for i, field := range fields {
		text, rest, more := strings.Cut(s, " ")
		if s = rest; !more && i < len(fields)-1 || parseField(text, field) != nil {
			return Row{}, errRow
		}
	}
	if CheckID(r.ID) != nil {
		return Row{}, errRow
	}
	if progress.Percent >= 0 {
		r.Progress = &progress
	}
	r.parseOptional(s)
	return r, nil
}

// parseOptional sets the optional fields; one that is not valid counts as absent.
func (r *Row) parseOptional(s string) {
	var fields [optionalFields]string
	for i := range fields {
		fields[i], s, _ = strings.Cut(s, " ")
	}
	text := func(i int) (s string) {
		if fields[i] == "" || parseField(fields[i], &s) != nil {
			return ""
		}
		return s
	}
	if id := text(0); id != "" && CheckID(id) == nil {
		r.Continues = id
	}
	if n, err := strconv.Atoi(fields[2]); err == nil && n > 0 {
		r.Plan.Done, _ = strconv.Atoi(fields[1])
		r.Plan.Total = n
	}
	r.Asked = fields[3] == asked
	r.Title, r.Version, r.Model = text(4), text(6), text(7)
	if labels := fields[5]; labels != "" {
		if _, err := url.ParseQuery(labels); err == nil {
			r.Labels = Labels(labels)
		}
	}
	if in, out, ok := strings.Cut(fields[8], "/"); ok {
		var bad [2]error
		r.Tokens.Input, bad[0] = strconv.ParseInt(in, 10, 64)
		r.Tokens.Output, bad[1] = strconv.ParseInt(out, 10, 64)
		r.Tokens.Known = bad == [2]error{}
	}
	if doing := fields[9]; doing != "" {
		r.parseDoing(strings.Split(doing, "/"))
	}
	r.Written = fields[10] == written
	r.Changed = parseChanged(strings.Split(fields[11], "/"))
	r.Answer, r.Cause, r.Hint = text(12), text(13), text(14)
	if passed, failed, ok := strings.Cut(fields[15], "/"); ok {
		var t TestCount
		var bad [2]error
		t.Passed, bad[0] = strconv.Atoi(passed)
		t.Failed, bad[1] = strconv.Atoi(failed)
		if bad == [2]error{} {
			r.Tests = &t
		}
	}
	if cost, err := strconv.ParseFloat(fields[16], 64); err == nil {
		r.Cost = &cost
	}
}

func parseChanged(part []string) *Changed {
	if len(part) != 4 || part[0] == "" {
		return nil
	}
	c := &Changed{In: ChangedIn(part[0])}
	var bad [3]error
	c.Files, bad[0] = strconv.ParseInt(part[1], 10, 64)
	c.Added, bad[1] = strconv.ParseInt(part[2], 10, 64)
	c.Removed, bad[2] = strconv.ParseInt(part[3], 10, 64)
	if bad != [3]error{} {
		return nil
	}
	return c
}

func (r *Row) parseDoing(part []string) {
	if len(part) != 6 || part[0] == "" {
		return
	}
	number := func(s string) int64 {
		n, _ := strconv.ParseInt(s, 10, 64) // 0: unknown
		return n
	}
	tool, _ := url.QueryUnescape(part[5])
	r.Doing = Doing{
		Phase: Phase(part[0]), Since: number(part[1]), Attempt: int(number(part[2])), Of: int(number(part[3])),
		Next: number(part[4]), Tool: tool,
	}
}

func parseField(text string, field any) (err error) {
	if v, ok := field.(*string); ok {
		switch {
		case text == "-":
		case strings.IndexByte(text, '%') >= 0 || strings.IndexByte(text, '+') >= 0:
			*v, err = url.QueryUnescape(text)
		default:
			*v = text
		}
		return err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	switch v := field.(type) {
	case *bool:
		*v = n == 1
	case *int:
		*v = int(n)
	case *int64:
		*v = n
	case *uint64:
		*v = uint64(n)
	}
	return err
}
