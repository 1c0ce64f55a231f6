package v36

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

type countMeta struct {
	Count int `json:"count"`
}

// Results is the answer to a request for the results of a run.
func Results(r *responder.Result) *Reply {
	d := result(r)
	seconds, completed := r.Record.Header().Lasted()/1000, moment(r.Record.EndedAt)
	d.Duration, d.Completed = &seconds, &completed
	if e := r.Events; e != nil {
		d.Events = &eventsData{Included: e.Included, Count: e.Count, Items: e.Items}
		if !e.Included {
			d.Events.Reason = "Events excluded by default (use include_events=true)"
		}
	}
	return &Reply{countMeta{1}, d}
}

type waitMeta struct {
	Started   string `json:"started_ts"`
	Completed string `json:"completed_ts"`
	Duration  int64  `json:"duration_ms"`
	ExitCode  *int   `json:"exit_code,omitempty"`
}

// Waited is the answer to a wait for a run that has ended.
func Waited(r *responder.Result) *Reply {
	row, d := r.Record.Header(), result(r)
	return &Reply{waitMeta{moment(row.Begun()), moment(int64(row.EndedAt)), row.Lasted(), d.exit}, d}
}

// resultData is the result of a task.
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

	exit *int
}

type resultExt struct {
	Stream *api.Basis `json:"stream,omitempty"`
	Reason string     `json:"reason,omitempty"` // reason of the end state

	// FinalText is the beginning of the agent's answer.
	FinalText      string `json:"final_text,omitempty"`
	FinalTextBytes int64  `json:"final_text_bytes,omitempty"` // of the whole text, if it is cut

	FilesUnlisted int `json:"files_unlisted,omitempty"`

	Work *workData `json:"activity_log,omitempty"` // if output is asked for

	cloudExt
}

type metadata struct {
	Duration   int64       `json:"duration"` // seconds
	Files      *runs.Files `json:"file_operations,omitempty"`
	Tests      *runs.Tests `json:"test_results,omitempty"`
	Thread     *threadData `json:"thread_info,omitempty"`
	Error      *errorData  `json:"error_context,omitempty"`
	TaskStatus string      `json:"task_status,omitempty"` // always, except on AdCP, which forbids the name
	Ext        metadataExt `json:"ext,omitzero"`
}

type metadataExt struct {
	// TestsRecognised is false for a completed task whose output had no summary of tests: the
	// counts are then zeros. Otherwise it is nil.
	TestsRecognised *bool `json:"tests_recognised,omitempty"`
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
	TimeoutType string          `json:"timeout_type,omitempty"`
	Partial     *partialResults `json:"partial_results,omitempty"`
}

type eventsData struct {
	Included bool              `json:"included"`
	Count    int64             `json:"count"` // of all
	Reason   string            `json:"reason,omitempty"`
	Items    []json.RawMessage `json:"items,omitzero"`
}

// maxFinalText bounds the agent's answer in a result, in bytes, unless output is asked for.
const maxFinalText = 4 << 10

// result has the fields of every answer about the result of a run.
func result(x *responder.Result) *resultData {
	r := x.Record
	d := &resultData{
		TaskID: r.ID, State: string(r.State), Summary: r.Summary(),
		Metadata: metadata{Duration: r.Header().Lasted() / 1000, Tests: r.Tests, TaskStatus: string(r.State)},
		Output:   outputOf(x), Ext: resultExt{Stream: x.Basis, Reason: r.Reason, Work: workOf(x.Work)},
	}
	if r.Exit != nil {
		d.exit = r.Exit.Code
	}
	if r.Tests == nil && r.State == runs.StateCompleted {
		d.Metadata.Tests, d.Metadata.Ext.TestsRecognised = &runs.Tests{FailedTests: []string{}}, new(bool)
	}
	d.files(r)
	d.thread(r)
	if r.FinalText != nil {
		text := *r.FinalText
		if !x.Request.Output {
			text = text[:bounds.Cut(text, maxFinalText)]
		}
		if d.Ext.FinalText = text; int64(len(text)) < r.FinalTextBytes {
			d.Ext.FinalTextBytes = r.FinalTextBytes
		}
	}
	if responder.IsCloud(r.Header()) {
		d.Ext.cloudExt = cloudOf(r.Cloud)
	}
	if e := r.ErrorContext(); e != nil {
		d.Metadata.Error = &errorData{ErrorContext: e}
		if r.State == runs.StateTimeout {
			d.Metadata.Error.TimeoutType, d.Metadata.Error.Partial = r.Reason, (*partialResults)(x.Partial)
		}
	}
	return d
}

// files adds the changed files. A run of this machine always has them.
func (d *resultData) files(r *runs.Record) {
	f := runs.Files{Modified: []string{}, Added: []string{}, Deleted: []string{}}
	if r.Files != nil {
		f = *r.Files
		d.Ext.FilesUnlisted, f.Unlisted = f.Unlisted, 0 // v3.6 has no such member
	}
	if responder.IsCloud(r.Header()) {
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

func (d *resultData) message() string { return d.Summary }

func (d *resultData) markdown(p *page) {
	p.heading("Task " + d.State)
	p.facts("Task", code(d.TaskID))
	d.body(p)
	p.stream(d.Ext.Stream)
}

// body is a result without its head.
func (d *resultData) body(p *page) {
	completed := ""
	if d.Completed != nil {
		completed = *d.Completed
	}
	p.facts("State", d.State, "Summary", plain(d.Summary), "Duration", seconds(d.Metadata.Duration),
		"Ended at", completed, "Exit code", optional(d.exit), "Reason", code(d.Ext.Reason))
	d.Ext.cloudExt.facts(p)
	if t := d.Metadata.Tests; t != nil && d.Metadata.Ext.TestsRecognised == nil {
		p.facts("Tests", fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped))
		for _, name := range t.FailedTests {
			p.line("  - failed: " + code(name))
		}
	}
	if t := d.Metadata.Thread; t != nil {
		p.facts("Thread", code(t.ID))
		if u := t.Usage; u != nil {
			cached := number(u.Cached) + " cached"
			if t.Rate != nil {
				cached += ", " + number(int64(math.Round(100**t.Rate))) + " %"
			}
			p.facts("Tokens", number(u.Input)+" in ("+cached+"), "+number(u.Output)+" out")
		}
	}
	if e := d.Events; e != nil {
		p.facts("Events", number(e.Count))
	}
	p.files(d.Metadata.Files, d.Ext.FilesUnlisted)
	d.Ext.Work.markdown(p)
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

func (p *page) files(f *runs.Files, unlisted int) {
	if f == nil || len(f.Modified)+len(f.Added)+len(f.Deleted)+unlisted == 0 {
		return
	}
	p.heading("Files")
	for _, l := range []struct {
		word  string
		paths []string
	}{{"modified", f.Modified}, {"added", f.Added}, {"deleted", f.Deleted}} {
		for _, path := range l.paths {
			p.item(l.word + " " + code(path))
		}
	}
	if unlisted > 0 {
		p.item(number(unlisted) + " not listed")
	}
	if f.LinesChanged != nil {
		p.item(number(*f.LinesChanged) + " lines changed")
	}
}

func (e *errorData) markdown(p *page) {
	if e == nil {
		return
	}
	p.heading("Error")
	p.facts("Message", plain(e.Message), "Type", code(e.Type), "Time limit", code(e.TimeoutType))
	for _, l := range e.Locations {
		at := l.File + ":" + number(l.Line)
		if l.Column > 0 {
			at += ":" + number(l.Column)
		}
		p.item("at " + code(at))
	}
	for _, s := range e.Suggestions {
		p.item("Suggestion: " + plain(s))
	}
}

// outputData is what an agent printed, or why it is left out.
type outputData struct {
	Included  bool    `json:"included"`
	Reason    string  `json:"reason,omitempty"`
	Stdout    *string `json:"stdout,omitempty"`
	Stderr    *string `json:"stderr,omitempty"`
	Truncated bool    `json:"truncated"`
	MaxBytes  int     `json:"max_bytes"`
	Original  int64   `json:"original_size,omitempty"` // bytes of both streams, where one is cut
}

// outputOf is the output of a result.
func outputOf(r *responder.Result) outputData {
	o := r.Output
	switch o.Omitted {
	case "":
		return outputData{
			Included: true, Stdout: &o.Stdout, Stderr: &o.Stderr, Truncated: o.Truncated, MaxBytes: o.MaxBytes, Original: o.Size,
		}
	case api.Expired:
		return outputData{Reason: "The output is no longer kept"}
	case api.NoDiff:
		return outputData{Reason: "There is no diff of the task"}
	}
	if responder.IsCloud(r.Record.Header()) {
		return outputData{Reason: "Output excluded by default (use include_output=true for the diff)"}
	}
	return outputData{Reason: "Output excluded by default (use include_output=true)"}
}

// partialResults is the end of the output of a task that timed out.
type partialResults struct {
	Events []json.RawMessage `json:"last_events"`
	Output string            `json:"last_output"`
}

func (d outputData) markdown(p *page) {
	if !d.Included {
		p.gap()
		p.line(d.Reason)
		return
	}
	for _, s := range []struct {
		name string
		text *string
	}{{"stdout", d.Stdout}, {"stderr", d.Stderr}} {
		if s.text != nil && *s.text != "" {
			p.block(s.name, "", *s.text)
		}
	}
	if d.Truncated {
		p.line("(cut: " + number(d.Original) + " bytes in all)")
	}
}
