package rest

import (
	"time"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

// Run is a run as callers see it. Lists leave out what Detail holds.
type Run struct {
	ID              string     `json:"id"`
	Agent           string     `json:"agent"`
	State           runs.State `json:"state"`
	Source          string     `json:"source,omitempty"`
	ThreadID        string     `json:"threadId,omitempty"`
	WorkingDir      string     `json:"workingDir,omitempty"`
	Worker          string     `json:"worker,omitempty"`
	Queue           string     `json:"queue,omitempty"`
	Position        *int       `json:"position,omitempty"`
	WorkerLost      bool       `json:"workerLost,omitempty"`
	CancelRequested bool       `json:"cancelRequested,omitempty"`
	Reason          string     `json:"reason,omitempty"`
	Continues       string     `json:"continues,omitempty"`
	ContinuedBy     string     `json:"continuedBy,omitempty"`
	QueuedAt        string     `json:"queuedAt,omitempty"`
	StartedAt       string     `json:"startedAt,omitempty"`
	ActiveAt        string     `json:"activeAt,omitempty"`
	EndedAt         string     `json:"endedAt,omitempty"`
	Progress        *Progress  `json:"progress,omitempty"`
	Activity        string     `json:"activity,omitempty"`
	Seq             uint64     `json:"seq"`

	*Detail
}

// Progress counts the steps of the agent's own to-do list. A run whose agent
// keeps none has no progress that is known.
type Progress struct {
	Completed int     `json:"completedSteps"`
	Total     int     `json:"totalSteps"`
	Activity  *string `json:"currentActivity"` // nil: not known
}

// Detail is what only the record of a run tells.
type Detail struct {
	Summary     string            `json:"summary"`
	Labels      map[string]string `json:"labels,omitempty"`
	Exit        *Exit             `json:"exit,omitempty"`
	Turns       Turns             `json:"turns"`
	Lines       int64             `json:"lines"`
	StdoutBytes int64             `json:"stdoutBytes"`
	StderrBytes int64             `json:"stderrBytes"`
	Events      map[string]int64  `json:"events,omitempty"`
	Dropped     int64             `json:"droppedEvents"`
	Unknown     int64             `json:"unknownLines"`
	Malformed   int64             `json:"malformedLines"`
	Gaps        int64             `json:"gaps"`
	ToolCalls   int64             `json:"toolCalls"`
	OpenCalls   []OpenCall        `json:"openCalls,omitempty"`
	Usage       *Usage            `json:"usage,omitempty"`       // of this run
	ThreadUsage *Usage            `json:"threadUsage,omitempty"` // of all runs of the thread
	Files       *Files            `json:"fileOperations,omitempty"`
	Tests       *Tests            `json:"testResults,omitempty"`
	Error       *ErrorContext     `json:"errorContext,omitempty"`
	FinalText   *string           `json:"finalText,omitempty"`
	FinalBytes  int64             `json:"finalTextBytes,omitempty"`
	Cloud       *Cloud            `json:"cloud,omitempty"`
}

// Exit is how the agent's process ended.
type Exit struct {
	Reason runs.Reason `json:"reason"`
	Code   *int        `json:"code,omitempty"`
	Signal int         `json:"signal,omitempty"`
	Spawn  string      `json:"spawn,omitempty"`
}

// Turns counts those that ended.
type Turns struct {
	Completed int64 `json:"completed"`
	Failed    int64 `json:"failed"`
}

// OpenCall is a tool call that has not ended.
type OpenCall struct {
	ID   string `json:"id"`
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
	At   string `json:"at"`
}

// Usage counts tokens.
type Usage struct {
	Input      int64 `json:"inputTokens"`
	Cached     int64 `json:"cachedInputTokens"`
	CacheWrite int64 `json:"cacheWriteInputTokens"`
	Output     int64 `json:"outputTokens"`
	Reasoning  int64 `json:"reasoningOutputTokens"`
}

// Files is what became of files.
type Files struct {
	Modified     []string `json:"modified"`
	Added        []string `json:"added"`
	Deleted      []string `json:"deleted"`
	Unlisted     int      `json:"unlisted,omitempty"`
	LinesChanged *int64   `json:"linesChanged,omitempty"`
}

// Tests is the result of the newest run of tests.
type Tests struct {
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	Names   []string `json:"failedTests"`
}

// ErrorContext is why a run failed, as far as its output tells.
type ErrorContext struct {
	Message     string          `json:"message"`
	Type        string          `json:"type,omitempty"`
	FailedFiles []string        `json:"failedFiles"`
	Locations   []runs.Location `json:"locations"`
	Suggestions []string        `json:"suggestions"`
}

// Cloud is what is known of a task in a cloud service.
type Cloud struct {
	ID           string `json:"id,omitempty"`
	URL          string `json:"url,omitempty"`
	Environment  string `json:"environment,omitempty"`
	Status       string `json:"status,omitempty"`
	Attempts     int    `json:"attempts,omitempty"`
	Applied      bool   `json:"applied,omitempty"`
	FilesChanged int    `json:"filesChanged,omitempty"`
	Added        int    `json:"linesAdded,omitempty"`
	Removed      int    `json:"linesRemoved,omitempty"`
}

// summarize is what the table knows of a run.
func summarize(v responder.View) *Run {
	r := &Run{
		ID: v.ID, Agent: v.Agent, State: v.State, Source: v.Source, ThreadID: v.Thread, WorkingDir: v.Dir, Worker: v.Worker, Queue: v.Queue,
		WorkerLost: v.Lost, CancelRequested: v.Cancel, Reason: v.Reason, Continues: v.Continues, ContinuedBy: v.Link, Activity: v.Activity, Seq: v.Seq,
		QueuedAt: moment(v.QueuedAt), StartedAt: moment(v.StartedAt), ActiveAt: moment(v.ActiveAt), EndedAt: moment(v.EndedAt),
	}
	if v.State == runs.StateQueued {
		position := v.Position
		r.Position = &position
	}
	if p := v.Plan; p.Total > 0 {
		r.Progress = &Progress{Completed: p.Done, Total: p.Total}
		if v.Activity != "" {
			r.Progress.Activity = &v.Activity
		}
	}
	return r
}

// describeRun adds what its record tells, if there is one. Of the two, the
// record is the newer.
func describeRun(v responder.View, record *runs.Record) *Run {
	if record == nil {
		return summarize(v)
	}
	if row := record.Row(); row.State != v.State {
		v = responder.View{Row: row}
	} else {
		v.Row = row
	}
	r := summarize(v)
	r.Detail = &Detail{
		Summary: record.Summary(), Labels: record.Labels, Turns: Turns{record.TurnsDone, record.TurnsBad}, Lines: record.Lines,
		StdoutBytes: record.Bytes, StderrBytes: record.ErrBytes, Events: record.Events, Dropped: record.Dropped, Unknown: record.Unknown,
		Malformed: record.Malformed, Gaps: record.Gaps, ToolCalls: record.ToolCalls, Usage: usage(record.Own), ThreadUsage: usage(record.Usage),
		FinalText: record.FinalText, FinalBytes: record.FinalTextBytes,
	}
	if x := record.Exit; x != nil {
		r.Exit = &Exit{x.Reason, x.Code, x.Signal, x.Spawn}
	}
	for _, c := range record.OpenCalls {
		r.OpenCalls = append(r.OpenCalls, OpenCall{c.ID, c.Kind, c.Name, stamp(c.At)})
	}
	if f := record.Files; f != nil {
		r.Files = &Files{list(f.Modified), list(f.Added), list(f.Deleted), f.Unlisted, f.LinesChanged}
	}
	if t := record.Tests; t != nil {
		r.Tests = &Tests{t.Passed, t.Failed, t.Skipped, list(t.FailedTests)}
	}
	if e := record.ErrorContext(); e != nil {
		r.Error = &ErrorContext{e.Message, e.Type, list(e.FailedFiles), list(e.Locations), list(e.Suggestions)}
	}
	if c := record.Cloud; c != nil {
		r.Cloud = &Cloud{c.ID, c.URL, c.Environment, c.Status, c.Attempts, c.Applied, c.FilesChanged, c.Added, c.Removed}
	}
	return r
}

func usage(u *runs.Usage) *Usage {
	if u == nil {
		return nil
	}
	return &Usage{u.Input, u.CachedInput, u.CacheWriteInput, u.Output, u.ReasoningOutput}
}

// list is a list that is an array in JSON, empty or not.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// moment is [stamp] of a time that may not have come, "" then.
func moment(ms int64) string {
	if ms == 0 {
		return ""
	}
	return stamp(ms)
}

// stamp is a time in Unix milliseconds as answers show it.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
