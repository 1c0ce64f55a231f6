package responder

import (
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Summarize returns a run in the form for callers.
func Summarize(h runs.Header) *api.Run { return &api.Run{Summary: h.Summary} }

// Newer returns the header of a run's record, which is newer than the given one, with what the record
// does not tell.
func Newer(h runs.Header, record *runs.Record) runs.Header {
	newer := record.Header()
	if newer.State == h.State {
		newer.Position, newer.WorkerLost, newer.Unseen = h.Position, h.WorkerLost, h.Unseen
	}
	return newer
}

// Describe is Summarize with the details of the run's record, which is newer than
// the header; nil: no details.
func Describe(h runs.Header, record *runs.Record) *api.Run {
	if record == nil {
		return Summarize(h)
	}
	r := Summarize(Newer(h, record))
	r.Detail = &api.Detail{
		Conversation: conversation(record), Sentence: record.Summary(), Lines: record.Lines,
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
		r.OpenCalls = append(r.OpenCalls, api.OpenCall{ID: c.ID, Kind: c.Kind, Name: c.Name, At: runs.Time(c.At)})
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
