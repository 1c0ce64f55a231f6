package responder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder/codexcloud"
	"github.com/linesman/linesman/runs"
)

// marker replaces the part that is cut out of an output. The limit does not include it.
const marker = "\n... [truncated] ...\n"

// Limits of the parts of a result.
const (
	DefaultOutput = 64 << 10 // bytes of output

	maxEvents       = 50        // newest events
	maxEventBytes   = 512 << 10 // of all of them; any single one fits
	maxPartialBytes = 64 << 10  // of the events of a [api.Partial]
)

// Result is the result of a run that has ended.
type Result struct {
	Request api.ResultRequest // the request
	Record  *runs.Record
	Output  api.Output
	Events  *api.RecentEvents // nil: of a task of Codex Cloud, or not asked for
	Partial *api.Partial      // of a run that timed out; else nil
	Work    *Work             // nil: not asked for, or not known any more
	Basis   *api.Basis
}

// Result reads the result of a run. The error is [api.NotEnded] for a run that has
// not ended, and [api.NotFound] for an unknown run.
func (s *Service) Result(ctx context.Context, run string, q api.ResultRequest) (*Result, error) {
	v, err := s.Settled(ctx, run)
	if err != nil {
		return nil, err
	}
	record, err := s.table.Record(ctx, v.ID)
	missing := errors.Is(err, runs.ErrNoRun)
	if err != nil && !missing { // then it is unknown whether the run has ended
		return nil, s.explain("read a record", err)
	}
	// The table may lag behind the record: a caller that was notified of the end
	// gets the result.
	if !v.State.Final() && (missing || !record.State.Final()) {
		return nil, &api.Error{
			Code: api.NotEnded, Field: api.FieldRun, Message: "the task has not ended: it is " + string(v.State),
			Run: v.ID, State: v.State, Retryable: true,
		}
	}
	if missing {
		return nil, notFound(v.ID)
	}
	return s.ResultOf(ctx, record, q)
}

// ResultOf is Result for a run whose record was read.
func (s *Service) ResultOf(ctx context.Context, record *runs.Record, q api.ResultRequest) (*Result, error) {
	if q.MaxBytes == 0 {
		q.MaxBytes = DefaultOutput
	}
	r := &Result{Request: q, Record: record, Basis: s.Basis()}
	var err error
	if record.State == runs.StateTimeout && record.ErrorContext() != nil {
		if r.Partial, err = s.partial(ctx, record, min(q.MaxBytes, DefaultOutput)); err != nil {
			return nil, s.explain("read a partial output", err)
		}
	}
	if r.Output, err = s.output(ctx, record, q); err != nil {
		return nil, s.explain("read an output", err)
	}
	if q.Work {
		r.Work = s.work(ctx, record)
	}
	if (q.Events || q.Count) && !IsCloud(record.Header()) {
		if r.Events, err = s.recentEvents(ctx, record, q.Events); err != nil {
			return nil, s.explain("read events", err)
		}
	}
	return r, nil
}

// TimedOut is the error of a run that exceeded a limit, with the end of its output
// if that can be read.
func (s *Service) TimedOut(ctx context.Context, record *runs.Record) *api.Error {
	e := &api.Error{
		Code: api.Timeout, Message: "the task exceeded its " + record.Reason + " limit", Run: record.ID, State: record.State,
		Limit: record.Reason, Elapsed: milliseconds(record.Header().Lasted()),
	}
	p, err := s.partial(ctx, record, DefaultOutput)
	if err != nil { // the timeout itself counts
		_ = s.explain("read a partial output", err)
		return e
	}
	e.Partial = p
	return e
}

// maxStderrTail is the maximum length of the stderr in an error, in bytes.
const maxStderrTail = 1000

// Failed is the error of a run that failed, with the end of its stderr if that can be read.
func (s *Service) Failed(ctx context.Context, record *runs.Record) *api.Error {
	e := &api.Error{
		Code: api.ProgramFailed, Message: record.Summary(), Run: record.ID, Thread: record.Thread, State: record.State,
		Reason: record.Reason, Elapsed: milliseconds(record.Header().Lasted()),
	}
	if record.Exit != nil {
		e.ExitCode = record.Exit.Code
	}
	if c := record.ErrorContext(); c != nil && len(c.Suggestions) > 0 {
		e.Suggestion = c.Suggestions[0]
	}
	// A secret that is cut at the beginning of what is read is not in its last bytes.
	_, errs, err := s.table.Output(ctx, record, 16*maxStderrTail)
	if err != nil { // the failure itself counts
		_ = s.explain("read stderr", err)
		return e
	}
	e.Stderr = ending(runs.Redact(end(errs)), maxStderrTail)
	return e
}

// output returns the output of a run. For one that failed or timed out it is the default, but
// not for the log of a person's session, with prompts in it.
func (s *Service) output(ctx context.Context, r *runs.Record, q api.ResultRequest) (api.Output, error) {
	always := (r.State == runs.StateFailed || r.State == runs.StateTimeout) && !r.Log
	inCloud := IsCloud(r.Header())
	switch {
	case !q.Output && (inCloud || !always || q.NoOutput):
		return api.Output{Omitted: api.NotRequested}, nil
	case inCloud:
		return s.diff(ctx, r, q.MaxBytes)
	}
	out, errs, err := s.table.Output(ctx, r, q.MaxBytes)
	if err != nil {
		return api.Output{}, err
	}
	if out.Size+errs.Size == 0 && r.Bytes+r.ErrBytes > 0 {
		return api.Output{Omitted: api.Expired}, nil
	}
	o := api.Output{MaxBytes: q.MaxBytes}
	var cutOut, cutErr bool
	o.Stdout, cutOut = excerpt(out, q.MaxBytes/2)
	o.Stderr, cutErr = excerpt(errs, q.MaxBytes/2)
	if o.Truncated = cutOut || cutErr; o.Truncated {
		o.Size = out.Size + errs.Size
	}
	return o, nil
}

// excerpt returns a stream as text of at most limit bytes: all of it, or its
// beginning and end with a marker in between. Invalid UTF-8 becomes U+FFFD, except
// for the parts of a character at the cut.
func excerpt(x runs.Excerpt, limit int) (s string, cut bool) {
	if x.Whole() {
		s = toText(x.Head)
		if len(s) <= limit {
			return s, false
		}
		return s[:bounds.Cut(s, limit/2)] + marker + ending(s, limit/2), true
	}
	head := x.Head
	for i := 1; i < utf8.UTFMax && i <= len(head); i++ { // drop an incomplete character
		if b := head[len(head)-i:]; utf8.RuneStart(b[0]) {
			if !utf8.FullRune(b) {
				head = head[:len(head)-i]
			}
			break
		}
	}
	first := toText(head)
	return first[:bounds.Cut(first, limit/2)] + marker + ending(end(x), limit/2), true
}

func toText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// ending returns the end of s, at most limit bytes.
func ending(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	i := len(s) - limit
	for i < len(s) && !utf8.RuneStart(s[i]) {
		i++
	}
	return s[i:]
}

// end returns the end of a stream, as far as it was read.
func end(x runs.Excerpt) string {
	if x.Whole() {
		return toText(x.Head)
	}
	tail := x.Tail
	for i := 0; i < utf8.UTFMax-1 && len(tail) > 0 && !utf8.RuneStart(tail[0]); i++ {
		tail = tail[1:]
	}
	return toText(tail)
}

// partial returns the end of the output of a run that exceeded a limit.
func (s *Service) partial(ctx context.Context, r *runs.Record, limit int) (*api.Partial, error) {
	out, errs, err := s.table.Output(ctx, r, 4*limit) // its ends have at least limit bytes
	if err != nil {
		return nil, err
	}
	text := end(out)
	if stderr := end(errs); stderr != "" {
		if len(text)+len(stderr) > limit { // the messages matter as much as the lines
			stderr = ending(stderr, limit/2)
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text = ending(text, limit-len(stderr)) + stderr
	}
	items, err := s.lastEvents(ctx, r, maxPartialBytes)
	if err != nil {
		return nil, err
	}
	return &api.Partial{Output: ending(text, limit), Events: typed(items)}, nil
}

// typed returns events with their types as the first members, as in last_events of
// the contract. The result is not nil.
func typed(events []json.RawMessage) []json.RawMessage {
	all := make([]json.RawMessage, len(events))
	for i, e := range events {
		all[i] = append([]byte(`{"type":"`+typeOf(e)+`",`), bytes.TrimPrefix(e, []byte("{"))...)
	}
	return all
}

// typeOf returns the type of the agent's line that an event came from, as far as the
// event shows it; otherwise the token of its kind.
func typeOf(event json.RawMessage) string {
	e := gjson.GetManyBytes(event, "kind", "message", "data.tool.phase")
	switch kind, message := e[0].String(), e[1].String(); kind {
	case "":
		return api.Completion
	case "TextOutput", "ToolResult":
		return "item.completed"
	case "ToolCall":
		if e[2].String() == "delta" {
			return "item.updated"
		}
		return "item.started"
	case "Status":
		switch message {
		case "thread started", "turn started", "turn completed", "turn failed":
			return strings.Replace(message, " ", ".", 1)
		case "todo list started", "todo list updated", "todo list completed":
			return "item." + strings.TrimPrefix(message, "todo list ")
		}
		return "status"
	case "Error":
		return "error"
	}
	return "unknown"
}

// recentEvents counts the events of a run and, if wanted, reads the newest.
func (s *Service) recentEvents(ctx context.Context, r *runs.Record, wanted bool) (*api.RecentEvents, error) {
	d := &api.RecentEvents{Included: wanted, Count: 1} // the completion, which the record does not count
	for _, n := range r.Events {
		d.Count += n
	}
	if !wanted {
		return d, nil
	}
	items, err := s.lastEvents(ctx, r, maxEventBytes)
	d.Items = typed(items)
	return d, err
}

// lastEvents returns the newest events of a run, at most limit bytes.
func (s *Service) lastEvents(ctx context.Context, r *runs.Record, limit int) ([]json.RawMessage, error) {
	all, err := s.table.Events(ctx, r, maxEvents)
	if err != nil {
		return nil, err
	}
	first, size := len(all), 0
	for first > 0 && size+len(all[first-1]) <= limit {
		first--
		size += len(all[first])
	}
	return all[first:], nil
}

// diff returns the unified diff of a task of Codex Cloud, from its log.
func (s *Service) diff(ctx context.Context, r *runs.Record, limit int) (api.Output, error) {
	out, _, err := s.table.Output(ctx, r, 2*codexcloud.MaxOutput)
	if err != nil {
		return api.Output{}, err
	}
	diff, cut, found := lastDiff(out.Head)
	if !found {
		return api.Output{Omitted: api.NoDiff}, nil
	}
	text, shortened := excerpt(runs.Excerpt{Head: []byte(diff), Size: int64(len(diff))}, limit)
	o := api.Output{MaxBytes: limit, Stdout: text}
	if o.Truncated = shortened || cut; o.Truncated {
		o.Size = int64(len(diff))
	}
	return o, nil
}

// lastDiff returns the newest diff in the lines of the cloud driver.
func lastDiff(lines []byte) (diff string, cut, found bool) {
	for line := range strings.Lines(string(lines)) {
		if strings.HasPrefix(line, `{"type":"cloud.diff"`) && gjson.Valid(line) {
			l := gjson.GetMany(line, "diff", "truncated")
			diff, cut, found = l[0].Str, l[1].Bool(), true
		}
	}
	return diff, cut, found
}

// FinalText returns the agent's last message: all of it while its completion is
// stored, otherwise its beginning.
func (s *Service) FinalText(ctx context.Context, record *runs.Record) string {
	if record.FinalText == nil {
		return ""
	}
	if int64(len(*record.FinalText)) < record.FinalTextBytes {
		last, err := s.table.Events(ctx, record, 1)
		if err == nil && len(last) == 1 {
			if text := gjson.GetBytes(last[0], "final_text"); text.Type == gjson.String {
				return text.String()
			}
		}
	}
	return *record.FinalText
}

// maxFinalOutput is the number of bytes of output that are read for a final text
// that is too long for records and events.
const maxFinalOutput = 16 << 20

// errNoText reports a run whose final text is not stored completely.
var errNoText = errors.New("the agent's answer is not there")

// WholeFinalText returns the agent's complete last message: from the record, the
// completion, or the agent's output. The error wraps [errNoText] if none has all of
// it.
func (s *Service) WholeFinalText(ctx context.Context, r *runs.Record) (string, error) {
	if r.FinalText == nil {
		return "", fmt.Errorf("%w: it ended without one", errNoText)
	}
	whole := func(text string) bool { return int64(len(text)) == r.FinalTextBytes }
	if text := s.FinalText(ctx, r); whole(text) {
		return text, nil
	}
	a, _ := s.cfg.Agents.Find(r.Agent)
	if a.LastMessage == nil {
		return "", fmt.Errorf("%w: of its %d bytes only the first are kept", errNoText, r.FinalTextBytes)
	}
	stdout, _, err := s.table.Output(ctx, r, 2*maxFinalOutput)
	if err != nil {
		return "", s.explain("read an output", err)
	}
	for _, part := range [][]byte{stdout.Tail, stdout.Head} {
		if text, ok := a.LastMessage(part); ok && whole(text) {
			return text, nil
		}
	}
	return "", fmt.Errorf("%w: of its %d bytes only the first are kept", errNoText, r.FinalTextBytes)
}

// Limits of [Service.LastLines].
const (
	maxLines    = 5   // of a run
	maxLineText = 500 // characters
)

// LastLines returns the last lines of a run's output: at most 5, each cut to 500
// characters.
func (s *Service) LastLines(ctx context.Context, run string) ([]string, error) {
	record, err := s.table.Record(ctx, run)
	if err != nil {
		return nil, s.explainRun(run, "read a record", err)
	}
	out, _, err := s.table.Output(ctx, record, DefaultOutput)
	if err != nil {
		return nil, s.explain("read an output", err)
	}
	return tailLines(end(out)), nil
}

// tailLines returns the last lines of a text, without empty ones.
func tailLines(s string) []string {
	var lines []string
	for _, line := range slices.Backward(strings.Split(s, "\n")) {
		line = strings.TrimRight(line, "\r")
		if line == "" {
			continue
		}
		if utf8.RuneCountInString(line) > maxLineText {
			line = string([]rune(line)[:maxLineText-1]) + "…"
		}
		if lines = append(lines, line); len(lines) == maxLines {
			break
		}
	}
	slices.Reverse(lines)
	return lines
}
