package delegator

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

func localResults(c *call, ctx context.Context) (*reply, error) {
	v, err := c.local(ctx, "task_id")
	if err != nil {
		return nil, err
	}
	return c.results(ctx, v, "task_id")
}

func cloudResults(c *call, ctx context.Context) (*reply, error) {
	if c.Cloud == nil {
		return nil, noCloud()
	}
	v, err := c.ofTheCloud(ctx, "taskId")
	if err != nil {
		return nil, err
	}
	return c.results(ctx, v, "taskId")
}

func (c *call) results(ctx context.Context, v responder.View, param string) (*reply, error) {
	record, err := c.Responder.Record(ctx, v.ID)
	if err != nil && !errors.Is(err, runs.ErrNoRun) { // then it is not known whether the task has ended
		return nil, err
	}
	// The table may be a moment behind the record, which others read: a caller
	// that was notified of the end gets the results.
	if !v.State.Final() && (err != nil || !record.State.Final()) {
		f := invalid(c.args.spelled(param), "the task has not ended: it is "+string(v.State), details{TaskID: v.ID, State: string(v.State)})
		f.Retryable = true // once it has
		return nil, f
	}
	if err != nil {
		return nil, err
	}
	o := resultOptions{output: c.args.flag("include_output"), most: int(c.args.number("max_output_bytes"))}
	if c.args.param("include_events") != nil {
		o.events = c.args.flag("include_events")
	}
	d, err := c.result(ctx, record, o)
	if err != nil {
		return nil, err
	}
	seconds := lasted(record.Row()) / 1000
	completed := moment(record.EndedAt)
	d.Duration, d.Completed = &seconds, &completed
	if !ofCloud(record.Row()) {
		if d.Events, err = c.eventsOf(ctx, record, o.events); err != nil {
			return nil, err
		}
	}
	return &reply{meta: countMeta{1}, data: d, of: ofRecord(record)}, nil
}

type countMeta struct {
	Count int `json:"count"`
}

// resultData is what came of a task: of the results and of the wait tools.
type resultData struct {
	TaskID    string      `json:"task_id"`
	State     string      `json:"state"`
	Summary   string      `json:"summary"`
	Duration  *int64      `json:"duration_seconds,omitempty"` // of results
	Completed *string     `json:"completed_ts,omitempty"`     // of results
	Metadata  metadata    `json:"metadata"`
	Output    outputData  `json:"output"`
	Events    *eventsData `json:"events,omitempty"` // of results
	Ext       resultExt   `json:"ext,omitzero"`

	wait bool
	exit *int
}

type resultExt struct {
	Stream *basis `json:"stream,omitempty"`
	Reason string `json:"reason,omitempty"` // why it ended as it did

	// FinalText is the beginning of the agent's answer.
	FinalText      string `json:"final_text,omitempty"`
	FinalTextBytes int64  `json:"final_text_bytes,omitempty"` // of all of it, where it is cut

	FilesUnlisted int `json:"files_unlisted,omitempty"`

	cloudExt
}

type metadata struct {
	Duration   int64       `json:"duration"` // seconds
	Files      *fileData   `json:"file_operations,omitempty"`
	Tests      *runs.Tests `json:"test_results,omitempty"`
	Thread     *threadData `json:"thread_info,omitempty"`
	Error      *errorData  `json:"error_context,omitempty"`
	TaskStatus string      `json:"task_status,omitempty"` // always, but on AdCP, which forbids the name
}

type fileData struct {
	Modified     []string `json:"modified_files"`
	Added        []string `json:"added_files"`
	Deleted      []string `json:"deleted_files"`
	LinesChanged *int64   `json:"lines_changed,omitempty"`
}

type threadData struct {
	ID    string      `json:"thread_id,omitempty"`
	Rate  *float64    `json:"cache_hit_rate,omitempty"` // 0 to 1
	Usage *tokensData `json:"token_usage,omitempty"`
}

type tokensData struct {
	Input  int64 `json:"input_tokens"`
	Cached int64 `json:"cached_input_tokens"`
	Output int64 `json:"output_tokens"`
}

type errorData struct {
	*runs.ErrorContext
	TimeoutType string   `json:"timeout_type,omitempty"`
	Partial     *partial `json:"partial_results,omitempty"`
}

type eventsData struct {
	Included bool              `json:"included"`
	Count    int64             `json:"count"` // of all
	Reason   string            `json:"reason,omitempty"`
	Items    []json.RawMessage `json:"items,omitzero"`
}

type resultOptions struct {
	output bool // asked for
	silent bool // none of it, not even of what has failed
	most   int  // bytes of it
	events bool
}

// Most bytes of an agent's answer that a result shows, unless output is asked for.
const maxFinalText = 4 << 10

// result is what came of a task, by its record.
func (c *call) result(ctx context.Context, r *runs.Record, o resultOptions) (*resultData, error) {
	d := &resultData{
		TaskID: r.ID, State: string(r.State), Summary: r.Summary(),
		Metadata: metadata{Duration: lasted(r.Row()) / 1000, Tests: r.Tests, TaskStatus: string(r.State)},
		Ext:      resultExt{Stream: c.basis(), Reason: r.Reason},
	}
	if r.Exit != nil {
		d.exit = r.Exit.Code
	}
	d.files(r)
	d.thread(r)
	if r.FinalText != nil {
		text := *r.FinalText
		if !o.output {
			text = text[:bounds.Cut(text, maxFinalText)]
		}
		if d.Ext.FinalText = text; int64(len(text)) < r.FinalTextBytes {
			d.Ext.FinalTextBytes = r.FinalTextBytes
		}
	}
	if ofCloud(r.Row()) {
		d.Ext.cloudExt = cloudOf(r)
	}
	if e := r.ErrorContext(); e != nil {
		d.Metadata.Error = &errorData{ErrorContext: e}
		if r.State == runs.StateTimeout {
			p, err := c.partial(ctx, r, min(o.most, 64<<10))
			if err != nil {
				return nil, err
			}
			d.Metadata.Error.TimeoutType, d.Metadata.Error.Partial = r.Reason, p
		}
	}
	var err error
	d.Output, err = c.output(ctx, r, o)
	return d, err
}

// files tells what became of files. A run of this machine always does.
func (d *resultData) files(r *runs.Record) {
	f := fileData{Modified: []string{}, Added: []string{}, Deleted: []string{}}
	if r.Files != nil {
		f.Modified, f.Added, f.Deleted, f.LinesChanged = r.Files.Modified, r.Files.Added, r.Files.Deleted, r.Files.LinesChanged
		d.Ext.FilesUnlisted = r.Files.Unlisted
	}
	if ofCloud(r.Row()) {
		if r.Cloud == nil || r.Cloud.FilesChanged == 0 {
			return
		}
		changed := int64(r.Cloud.Added) + int64(r.Cloud.Removed)
		f.LinesChanged = &changed
		if r.Files == nil {
			d.Ext.FilesUnlisted = r.Cloud.FilesChanged
		}
	}
	d.Metadata.Files = &f
}

func (d *resultData) thread(r *runs.Record) {
	if r.Thread == "" && r.Usage == nil {
		return
	}
	t := &threadData{ID: r.Thread}
	if rate, ok := r.CacheHitRate(); ok {
		t.Rate = &rate
	}
	if u := r.Usage; u != nil {
		t.Usage = &tokensData{u.Input, u.CachedInput, u.Output}
	}
	d.Metadata.Thread = t
}

func (d *resultData) markdown(p *page) {
	title := "Task " + d.State
	p.heading(title)
	p.fact("Task", code(d.TaskID))
	d.body(p)
	p.stream(d.Ext.Stream)
}

// body is a result without its head.
func (d *resultData) body(p *page) {
	p.fact("State", d.State)
	p.fact("Summary", plain(d.Summary))
	p.fact("Duration", seconds(d.Metadata.Duration))
	if d.Completed != nil {
		p.fact("Ended at", *d.Completed)
	}
	if d.exit != nil {
		p.fact("Exit code", number(int64(*d.exit)))
	}
	p.fact("Reason", code(d.Ext.Reason))
	d.Ext.cloudExt.facts(p)
	if t := d.Metadata.Tests; t != nil {
		p.fact("Tests", number(int64(t.Passed))+" passed, "+number(int64(t.Failed))+" failed, "+number(int64(t.Skipped))+" skipped")
		for _, name := range t.FailedTests {
			p.line("  - failed: " + code(name))
		}
	}
	if t := d.Metadata.Thread; t != nil {
		p.fact("Thread", code(t.ID))
		if u := t.Usage; u != nil {
			cached := number(u.Cached) + " cached"
			if t.Rate != nil {
				cached += ", " + number(int64(math.Round(100**t.Rate))) + " %"
			}
			p.fact("Tokens", number(u.Input)+" in ("+cached+"), "+number(u.Output)+" out")
		}
	}
	if e := d.Events; e != nil {
		p.fact("Events", number(e.Count))
	}
	if f := d.Metadata.Files; f != nil && len(f.Modified)+len(f.Added)+len(f.Deleted)+d.Ext.FilesUnlisted > 0 {
		p.heading("Files")
		for _, l := range []struct {
			word  string
			paths []string
		}{{"modified", f.Modified}, {"added", f.Added}, {"deleted", f.Deleted}} {
			for _, path := range l.paths {
				p.item(l.word + " " + code(path))
			}
		}
		if n := d.Ext.FilesUnlisted; n > 0 {
			p.item(number(int64(n)) + " not listed")
		}
		if f.LinesChanged != nil {
			p.item(number(*f.LinesChanged) + " lines changed")
		}
	}
	d.Metadata.Error.markdown(p)
	if d.Ext.FinalText != "" {
		p.block("Answer", "", d.Ext.FinalText)
		if d.Ext.FinalTextBytes > 0 {
			p.line("(its beginning; " + number(d.Ext.FinalTextBytes) + " bytes in all)")
		}
	}
	d.Output.markdown(p)
	switch e := d.Metadata.Error; {
	case d.Events != nil && d.Events.Included:
		p.events(d.Events.Items)
	case e != nil && e.Partial != nil:
		p.events(e.Partial.Events)
	}
}

func (e *errorData) markdown(p *page) {
	if e == nil {
		return
	}
	p.heading("Error")
	p.fact("Message", plain(e.Message))
	p.fact("Type", code(e.Type))
	p.fact("Time limit", code(e.TimeoutType))
	for _, l := range e.Locations {
		at := l.File + ":" + number(int64(l.Line))
		if l.Column > 0 {
			at += ":" + number(int64(l.Column))
		}
		p.item("at " + code(at))
	}
	for _, s := range e.Suggestions {
		p.item("Suggestion: " + plain(s))
	}
}
