package runs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/runs"
)

// edits parses +added, -deleted and ~modified paths.
func edits(words string) []runs.Edit {
	kinds := map[byte]runs.EditKind{'+': runs.Added, '-': runs.Deleted, '~': runs.Modified}
	var all []runs.Edit
	for _, w := range strings.Fields(words) {
		all = append(all, runs.Edit{Path: w[1:], Kind: kinds[w[0]]})
	}
	return all
}

func TestFilesAreTheNetEffectOfEdits(t *testing.T) {
	for _, c := range []struct{ edits, want string }{
		{"~a +b -c", "[a] [b] [c]"},
		{"+a ~a", "[] [a] []"},
		{"+a -a", "[] [] []"},
		{"+a -a +a", "[] [a] []"},
		{"~a -a", "[] [] [a]"},
		{"~a +a", "[a] [] []"},
		{"-a +a", "[a] [] []"},
		{"-a ~a", "[a] [] []"},
		{"-a -a", "[] [] [a]"},
		{"~a ~b ~a", "[a b] [] []"},
		{"-a +a -a", "[] [] [a]"},
	} {
		r := runs.NewRecord("T-local-x", "codex")
		for _, e := range edits(c.edits) {
			r.Line(runs.Facts{Edits: []runs.Edit{e}}, 1)
		}
		if got := fmt.Sprint(r.Files.Modified, r.Files.Added, r.Files.Deleted); got != c.want || r.Files.Unlisted != 0 {
			t.Errorf("%s: %s, want %s", c.edits, got, c.want)
		}
	}
	r := runs.NewRecord("T-local-x", "codex")
	if r.Line(runs.Facts{}, 1); r.Files != nil {
		t.Errorf("files of a run without edits: %+v", r.Files)
	}
}

func TestPathsAreBounded(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	for i := range 60 {
		r.Line(runs.Facts{Edits: []runs.Edit{{Path: fmt.Sprint("a", i), Kind: runs.Added}}}, 1)
	}
	r.Line(runs.Facts{Edits: []runs.Edit{{Path: strings.Repeat("x", 600)}, {Path: strings.Repeat("\x00", 100)},
		{Path: ""}}, MoreEdits: 7}, 1)
	if f := r.Files; len(f.Added) != runs.MaxPaths || len(f.Modified) != 0 || f.Unlisted != 10+3+7 {
		t.Errorf("%d added, %d modified, %d not listed", len(f.Added), len(f.Modified), f.Unlisted)
	}
	for i := range 60 { // move all listed files to another list
		r.Line(runs.Facts{Edits: []runs.Edit{{Path: fmt.Sprint("d", i), Kind: runs.Deleted}}}, 1)
		r.Line(runs.Facts{Edits: []runs.Edit{{Path: fmt.Sprint("m", i)}}}, 1)
	}
	for i := range 60 {
		r.Line(runs.Facts{Edits: []runs.Edit{{Path: fmt.Sprint("d", i), Kind: runs.Added}}}, 1)
	}
	if f := r.Files; len(f.Modified) != runs.MaxPaths || len(f.Deleted) != 0 {
		t.Errorf("%d modified, %d deleted", len(f.Modified), len(f.Deleted))
	}
}

// Changed files are counted, not changes, as far as there are hashes of those that are not listed.
func TestUnlistedFilesAreCountedOnce(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	for i := range 3000 {
		path := fmt.Sprint(i % 60)
		if i >= 300 {
			path = fmt.Sprint(i)
		}
		r.Line(runs.Facts{Edits: []runs.Edit{{Path: path}}}, 1)
		if want := min(i+1, 60); i < 300 && r.Changed().Files != int64(want) {
			t.Fatalf("%d files after %d edits, want %d", r.Changed().Files, i+1, want)
		}
	}
	if n := r.Changed().Files; n != 50+512 {
		t.Errorf("%d files of many", n)
	}
}

// A listed file that a move between lists makes an unlisted one is not listed again.
func TestAFileThatLeavesTheListsIsCountedOnce(t *testing.T) {
	r := runs.NewRecord("T-local-x", "codex")
	edit := func(path string, kind runs.EditKind) {
		r.Line(runs.Facts{Edits: []runs.Edit{{Path: path, Kind: kind}}}, 1)
	}
	for i := range 50 {
		edit(fmt.Sprint(i), runs.Deleted)
	}
	edit("a", runs.Modified)
	for _, kind := range []runs.EditKind{runs.Deleted, runs.Modified, runs.Deleted} { // beyond the 50 that are listed
		if edit("a", kind); r.Changed().Files != 51 {
			t.Fatalf("%d files", r.Changed().Files)
		}
	}
}

// While no limit is reached, the lists agree with a map of the files before and
// after.
func TestFilesAgreeWithAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, now := map[string]bool{"a": true, "b": true, "c": true},
			map[string]bool{"a": true, "b": true, "c": true}
		touched := map[string]bool{}
		r := runs.NewRecord("T-local-x", "codex")
		for range rapid.IntRange(1, 40).Draw(t, "edits") {
			e := runs.Edit{Path: rapid.SampledFrom([]string{"a", "b", "c", "x", "y"}).Draw(t, "path")}
			switch exists := now[e.Path]; {
			case !exists:
				e.Kind, now[e.Path] = runs.Added, true
			case rapid.Bool().Draw(t, "delete"):
				e.Kind, now[e.Path] = runs.Deleted, false
			}
			touched[e.Path] = true
			r.Line(runs.Facts{Edits: []runs.Edit{e}}, 1)
		}
		for path := range touched {
			got := []bool{slices.Contains(r.Files.Modified, path), slices.Contains(r.Files.Added, path),
				slices.Contains(r.Files.Deleted, path)}
			want := []bool{before[path] && now[path], !before[path] && now[path], before[path] && !now[path]}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: in lists %v, want %v", path, got, want)
			}
		}
	})
}

// The limits hold for any facts, including the longest values of all fields.
func TestRecordOfAnyFactsIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := largest()
		for range rapid.IntRange(0, 6).Draw(t, "lines") {
			r.Line(hostileFacts(t), 1<<62)
		}
		checkBounds(t, r)
		r.End(rapid.SampledFrom([]runs.Exit{ok, {Reason: runs.ReasonIdle},
			{Reason: runs.ReasonExited, Signal: 1 << 30}}).Draw(t, "exit"), 1<<62)
		checkBounds(t, r)
	})
}

func hostileFacts(t *rapid.T) runs.Facts {
	f := runs.Facts{
		Turn: runs.Turn(rapid.IntRange(0, 3).Draw(t, "turn")), Step: rapid.Bool().Draw(t, "step"),
		Activity: hostile(5000).Draw(t, "activity"), Error: hostile(9000).Draw(t, "error"),
		ErrorSource: runs.ErrorSource(rapid.IntRange(0, 3).Draw(t, "source")),
		MoreEdits:   rapid.IntRange(0, 1<<40).Draw(t, "more"),
		Todo:        &runs.Todo{Done: 1 << 40, Total: 1 << 40},
	}
	for i := range rapid.IntRange(0, 60).Draw(t, "edits") {
		path := hostile(rapid.SampledFrom([]int{20, 100, 600}).Draw(t, "size")).Draw(t, "path")
		f.Edits = append(f.Edits, runs.Edit{Path: fmt.Sprint(path, i),
			Kind: runs.EditKind(rapid.IntRange(0, 2).Draw(t, "kind"))})
	}
	var text strings.Builder
	for i := range rapid.IntRange(0, 20).Draw(t, "output") {
		junk := hostile(400).Draw(t, "junk")
		fmt.Fprintf(&text, "%sError: %s\n--- FAIL: %d%s (0s)\n%s/%d.go:%d:%d\n", "X", junk, i, junk,
			strings.Repeat("é", rapid.IntRange(0, 90).Draw(t, "long")), i, 999999999+i, 999999999)
	}
	fmt.Fprintf(&text, " 1 file changed, 999999999 insertions(+), 999999999 deletions(-)\n")
	findings := read(text.String(), true)
	f.Command = &findings
	return f
}

// largest returns a record with the largest values in all other fields.
func largest() *runs.Record {
	r := runs.NewRecord(strings.Repeat("r", runs.MaxID), strings.Repeat("a", runs.MaxID))
	labels := map[string]string{}
	for i := range runs.MaxLabels {
		labels[fmt.Sprintf("%02d", i)+strings.Repeat(`"`, runs.MaxLabelKey-2)] = strings.Repeat(`\`, runs.MaxLabelValue)
	}
	r.Entry(runs.Entry{Kind: runs.Started, Time: 1 << 62, Body: runs.Encode(runs.Start{
		Source: "queue", Attributes: runs.Attributes{Labels: runs.LabelsOf(labels), Dir: "/" + strings.Repeat("x", 4090)},
		Worker: strings.Repeat("w", runs.MaxWorker),
		Queue:  strings.Repeat("q", runs.MaxID), Work: 1<<64 - 1, Governance: strings.Repeat(`"`, runs.MaxGovernance),
	})})
	text := strings.Repeat("t", runs.MaxCloudText-2)
	for i := range runs.MaxOpenCalls + 10 {
		r.Line(runs.Facts{
			Thread: strings.Repeat("x", 1024), Turn: runs.TurnFailed,
			Opened: runs.Call{ID: fmt.Sprintf("%02d", i) + strings.Repeat("\x00", 10), Kind: strings.Repeat("\x00", 10),
				Name: strings.Repeat("\x00", 10)},
			Drift: []runs.Unknown{
				{What: runs.DriftProtocol, Name: fmt.Sprintf("%s%02d", strings.Repeat("x", 62), i)},
			},
			Version: "12345678.12345678.12345678.12345678-alphabetalal",
			Cloud: &runs.Cloud{ID: strings.Repeat("c", runs.MaxCloudTask), URL: "https://" + text[8:],
				Environment: text, Status: runs.CloudApplied,
				Attempts: 1 << 62, FilesChanged: 1 << 62, Added: 1 << 62, Removed: 1 << 62},
			Used: largestAccount(), SpentAll: &largestAccount().Usage, Delegates: true, Counts: runs.CountsMore,
		}, 1<<62)
	}
	r.Resumed(*largestAccount())
	r.Entry(runs.Entry{Kind: runs.Note, Body: runs.Encode(runs.Remark{Reason: runs.NoteUsage, Logged: &runs.Logged{
		Own: &largestAccount().Usage, Subagents: &largestAccount().Usage, All: true, Partial: true,
	}})})
	r.Final(strings.Repeat(`"x`, 1<<20))
	for _, token := range []string{"unknown", "text_output", "tool_call", "tool_result", "status", "error"} {
		r.Events[token] = 1 << 62
	}
	for _, n := range []*int64{&r.Lines, &r.Blank, &r.Bytes, &r.ErrBytes, &r.Dropped, &r.Unknown, &r.Malformed, &r.Gaps,
		&r.Bad, &r.TurnsBad, &r.TurnsDone, &r.ToolCalls, &r.MoreCalls, &r.Steps.Turns, &r.Steps.Other} {
		*n = 1 << 52
	}
	for i := range r.Drift.Things {
		r.Drift.Things[i].Line, r.Drift.Things[i].Count = 1<<52, 1<<52
	}
	r.Drift.Count = 1 << 52
	r.Seq = 1<<64 - 1
	return r
}

// TestFullestRecord fills every list, and logs the remaining bytes.
func TestFullestRecord(t *testing.T) {
	r := largest()
	without := len(r.JSON())
	for i := range 200 {
		r.Line(runs.Facts{Edits: []runs.Edit{{Path: fmt.Sprintf("%04d%s", i, strings.Repeat("x", 40)),
			Kind: runs.EditKind(i % 3)}}}, 1)
	}
	var text strings.Builder
	for i := range 20 {
		fmt.Fprintf(&text, "--- FAIL: %02d%s (0s)\n", i, strings.Repeat(`"`, 200))
	}
	for i := range 5 {
		fmt.Fprintf(&text, "%d%s.go:999999999:999999999\n", i, strings.Repeat("x", 150))
	}
	fmt.Fprintf(&text, "%sError: %s\n 1 file changed, 999999999 insertions(+)\n", strings.Repeat("X", 75),
		strings.Repeat(`"`, 400))
	findings := read(text.String(), true)
	r.Line(runs.Facts{Command: &findings, Error: strings.Repeat(`"`, 2000), ErrorSource: runs.ErrorTurn,
		Activity: strings.Repeat("🚀", 300)}, 1)
	checkBounds(t, r)
	n := len(r.JSON())
	if files := len(r.Files.Modified) + len(r.Files.Added) + len(r.Files.Deleted); files < 100 ||
		len(r.Tests.FailedTests) != 10 || len(r.Diagnostics.Locations) != 5 ||
		bounds.StringSize(r.Diagnostics.Message) < 900 {
		t.Errorf("not full: %d files, %+v, %+v", files, r.Tests, r.Diagnostics)
	}
	t.Logf("%d bytes of %d, %d of them from the lists", n, runs.MaxRecord, n-without)
}
