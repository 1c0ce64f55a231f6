package runs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// A record in which every part has its largest size has at most MaxRecord bytes: that of a run with
// lines of the agent's own, and that of a live run, whose lines do not tell what a thread has used.
func TestTheLargestRecordFits(t *testing.T) {
	for _, live := range []bool{false, true} {
		if n := len(largestRecord(live).JSON()); n > runs.MaxRecord || n < runs.MaxRecord*9/10 {
			t.Errorf("the largest record has %d bytes; live: %v", n, live)
		}
	}
}

func largestRecord(live bool) *runs.Record {
	quotes := strings.Repeat(`"`, 100_000) // of two bytes each
	labels := map[string]string{}
	profile := strings.Repeat("n", 64+63+63+2)
	labels[runs.LabelCaller], labels[runs.LabelProfile] = "prompter."+profile, profile
	labels[runs.LabelContext] = quotes[:runs.MaxContext]
	for i := range runs.MaxLabels {
		labels[quotes[:runs.MaxLabelKey-2]+fmt.Sprintf("%02d", i)] = quotes[:runs.MaxLabelValue]
	}
	r := runs.NewRecord(strings.Repeat("r", runs.MaxID), strings.Repeat("a", runs.MaxID))
	r.Entry(runs.Entry{Kind: runs.Started, Time: 1 << 62, Body: runs.Encode(runs.Start{
		Source: "queue", Keep: live, Always: live,
		Attributes: runs.Attributes{Title: strings.Repeat("🚀", runs.MaxTitle), Dir: "/" + quotes[:2040],
			Labels: runs.LabelsOf(labels), Model: quotes[:63]}, Worker: strings.Repeat("w", 60), Queue: strings.Repeat("q",
			60), Governance: strings.Repeat("g", runs.MaxGovernance), Type: strings.Repeat("t", 64),
		Withheld: &runs.Withheld{
			Names:   slices.Repeat([]string{strings.Repeat("N", 40)}, runs.MaxWithheld),
			Setting: "agents." + strings.Repeat("a", 32) + ".env",
		},
	})})
	findings := runs.Findings{
		Failed: true, Line: quotes[:300], ErrorType: quotes[:80],
		Tests: &runs.Tests{Passed: 1 << 60, Failed: 1 << 60, Skipped: 1 << 60},
	}
	for i := range 10 {
		findings.Tests.FailedTests = append(findings.Tests.FailedTests, quotes[:62]+fmt.Sprint(i))
		findings.Locations = append(findings.Locations, runs.Location{File: quotes[:200] + fmt.Sprint(i), Line: 1 << 30})
	}
	long := func(i int) string { return "a" + fmt.Sprintf("%061d", i) }
	for i := range 60 {
		f := runs.Facts{
			Opened: runs.Call{ID: long(i), Kind: long(i), Name: long(i), Shown: long(i), Phase: runs.AwaitingInput},
			Thread: quotes[:511], Command: &findings, Version: long(i)[:40],
			Drift: []runs.Unknown{{What: runs.DriftProtocol, Name: long(i)}},
			Used:  largestAccount(), Before: largestAccount(), SpentAll: &largestAccount().Usage,
			Counts: runs.CountsMore, Delegates: true,
			Doing: runs.Doing{Phase: runs.RateLimited, Tool: quotes[:64], Attempt: 1 << 30, Of: 1 << 30}, NextIn: 1 << 62,
		}
		if live {
			f.Used, f.Counts, f.SpentCost = nil, "", largestAccount().Cost
			f.Live = largestTold(i, quotes)
		}
		for j := range 20 {
			f.Edits = append(f.Edits, runs.Edit{Path: fmt.Sprint(i, j) + quotes[:100]})
		}
		r.Line(f, 1<<62)
	}
	r.Entry(runs.Entry{Kind: runs.Note, Time: 1 << 62, Body: []byte(
		`{"reason":"diff","diff":{"part":1,"files":4611686018427387904,"added":4611686018427387904,` +
			`"removed":4611686018427387904}}`)})
	r.Entry(runs.Entry{Kind: runs.Note, Time: 1 << 62, Body: runs.Encode(runs.Remark{
		Reason: runs.NoteUsage, Logged: &runs.Logged{
			Own: &largestAccount().Usage, Subagents: &largestAccount().Usage, All: true, Partial: true,
		},
	})})
	r.Final(quotes)
	for _, token := range []string{"unknown", "text_output", "tool_call", "tool_result", "status", "error"} {
		r.Events[token] = 1 << 62
	}
	r.Seq = 1<<64 - 1
	return r
}

// largestTold is what a line tells of a conversation at most.
func largestTold(i int, quotes string) *runs.Told {
	asked := &runs.Asked{
		ID: fmt.Sprintf("q%d", 1<<60+i), Kind: runs.WaitsPermission, Tool: quotes[:16], Offset: 1 << 60, Length: 8 << 20,
	}
	for j := range 4 {
		asked.Options = append(asked.Options, runs.Option{ID: fmt.Sprint(j) + quotes[:10], Kind: "reject_always"})
	}
	told := &runs.Told{
		Turn: 1 << 60, Queue: &runs.Queue{Held: true},
		Asked: asked, People: asked.ID, Due: 1 << 62, Mode: quotes[:64], Model: quotes[:64],
		Context: &runs.Context{Used: 1 << 60, Size: 1 << 60},
	}
	for j := range runs.MaxQueued {
		id := fmt.Sprintf("%064d", j)
		told.Changed = id
		told.Queue.Messages = append(told.Queue.Messages, runs.Message{
			ID: id, Bytes: runs.MaxMessage, Text: quotes, Hash: 1 << 63, Now: true,
		})
	}
	return told
}
