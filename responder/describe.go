package responder

import (
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Summarize returns the row of a run in the form for callers.
func Summarize(v View) *api.Run {
	r := &api.Run{
		Key: v.ID, ID: v.ID, Agent: v.Agent, State: v.State, Title: v.Title, Source: v.Source, ThreadID: v.Thread,
		WorkingDir: v.Dir, Worker: v.Worker, Model: v.Model, Version: v.Version, Labels: v.Labels.Map(),
		Times: timesOf(v.Row), Unseen: v.Unseen,
		Queue: v.Queue, WorkerLost: v.Lost, CancelRequested: v.Cancel, Reason: v.Reason, Continues: v.Continues,
		ContinuedBy: v.Link, Activity: v.Activity, Seq: v.Seq,
		QueuedAt: api.Time(v.QueuedAt), StartedAt: api.Time(v.StartedAt), ActiveAt: api.Time(v.ActiveAt),
		EndedAt: api.Time(v.EndedAt), Tokens: TokensOf(&v.Row), Doing: DoingOf(&v.Row),
		Changed: v.Changed, Answer: v.Answer, Cause: v.Cause, Hint: v.Hint, Tested: v.Tests, Cost: v.Cost,
	}
	if v.State == runs.StateQueued {
		r.Position = new(v.Position)
	}
	if p := v.Plan; p.Total > 0 {
		r.Progress = &api.Progress{Completed: p.Done, Total: p.Total}
		if v.Activity != "" {
			r.Progress.Activity = &v.Activity
		}
	}
	return r
}

// TokensOf returns the tokens of a run so far; nil: unknown.
func TokensOf(r *runs.Row) *api.Tokens {
	if !r.Tokens.Known {
		return nil
	}
	return &api.Tokens{Input: r.Tokens.Input, Output: r.Tokens.Output}
}

// DoingOf returns what a run does; nil: unknown, or it has ended.
func DoingOf(r *runs.Row) *api.Doing {
	d := r.Doing
	if d.Phase == "" || r.State.Final() {
		return nil
	}
	return &api.Doing{
		Phase: d.Phase, Tool: d.Tool, Attempt: d.Attempt, Of: d.Of, NextAt: api.Time(d.Next), Since: api.Time(d.Since),
	}
}

// timesOf returns what the times of a run are; "": the run has no agent here.
func timesOf(r runs.Row) api.Times {
	if r.Written { // the log of a session tells them
		return api.Written
	}
	switch r.Source {
	case "run", "queue":
		return api.Written
	case "tail", "pipe", "session":
		return api.Captured
	}
	return ""
}

// Describe is Summarize with the details of the run's record, which is newer than
// the row; nil: no details.
func Describe(v View, record *runs.Record) *api.Run {
	if record == nil {
		return Summarize(v)
	}
	if row := record.Row(); row.State != v.State {
		v = View{Row: row}
	} else {
		v.Row = row
	}
	r := Summarize(v)
	r.Detail = &api.Detail{
		Summary: record.Summary(), Version: record.Version, Labels: record.Labels, Mode: record.Mode, Lines: record.Lines,
		Turns:       api.Turns{Completed: record.TurnsDone, Failed: record.TurnsBad},
		StdoutBytes: record.Bytes, StderrBytes: record.ErrBytes, Events: record.Events, Dropped: record.Dropped,
		Unknown: record.Unknown, Malformed: record.Malformed, Gaps: record.Gaps, ToolCalls: record.ToolCalls,
		ThreadUsage: usage(record.Usage), ThreadCost: record.Cost, Drift: record.Drift,
		Changes: changes(record.Changes), FinalText: record.FinalText, FinalBytes: record.FinalTextBytes,
	}
	if x := record.Exit; x != nil {
		r.Exit = &api.Exit{Reason: x.Reason, Code: x.Code, Signal: x.Signal, Spawn: x.Spawn, Why: x.Why}
	}
	spent := record.Spent()
	r.Cost = spent.Cost
	if spent.Total != nil {
		r.Usage = &api.RunUsage{
			Own: usage(spent.Own), Subagents: usage(spent.Subagents), Total: usage(spent.Total),
			Partial: spent.Partial, Earlier: spent.Earlier,
		}
	}
	for _, m := range spent.Models {
		r.Models = append(r.Models, api.ModelUsage{Name: m.Name, Usage: *usage(&m.Usage), Cost: m.Cost})
	}
	for _, c := range record.OpenCalls {
		r.OpenCalls = append(r.OpenCalls, api.OpenCall{ID: c.ID, Kind: c.Kind, Name: c.Name, At: api.Time(c.At)})
	}
	if f := record.Files; f != nil {
		r.Files = &api.Files{
			Modified: list(f.Modified), Added: list(f.Added), Deleted: list(f.Deleted),
			Unlisted: f.Unlisted, LinesChanged: f.LinesChanged,
		}
	}
	if t := record.Tests; t != nil {
		r.Tests = &api.Tests{Passed: t.Passed, Failed: t.Failed, Skipped: t.Skipped, Names: list(t.FailedTests)}
	}
	if e := record.ErrorContext(); e != nil {
		r.Error = &api.ErrorContext{
			Message: e.Message, Type: e.Type, FailedFiles: list(e.FailedFiles), Locations: list(e.Locations),
			Suggestions: list(e.Suggestions),
		}
	}
	if c := record.Cloud; c != nil {
		r.Cloud = &api.Cloud{
			ID: c.ID, URL: c.URL, Environment: c.Environment, Status: c.Status, Attempts: c.Attempts, Applied: c.Applied,
			FilesChanged: c.FilesChanged, Added: c.Added, Removed: c.Removed,
		}
	}
	return r
}

func usage(u *runs.Usage) *api.Usage {
	if u == nil {
		return nil
	}
	return &api.Usage{
		Input: u.Input, Cached: u.CachedInput, CacheWrite: u.CacheWriteInput, Output: u.Output, Reasoning: u.ReasoningOutput,
	}
}

// list returns a slice that is an array in JSON even if it is empty.
func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// milliseconds converts a number of milliseconds.
func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
