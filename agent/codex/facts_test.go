package codex

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// fold folds the lines of a run that has not ended.
func fold(lines ...string) *runs.Record {
	f := normalizer.NewFold(Backend{}, "T-local-test", 0)
	f.Apply(1, runs.Entry{Kind: runs.Out, Body: []byte(strings.Join(lines, "\n") + "\n")}, func(normalizer.Message) {})
	return f.Record
}

// Progress and activity after each line of recorded runs.
func TestProgressOfRecordedRuns(t *testing.T) {
	for name, want := range map[string][]string{
		"plan": {
			"", "50 0/1", "50 0/2 Read", "50 0/2 Running echo reading", "50 0/2 Running echo reading", "50 1/2 Write",
			"99 2/2 Write", "99 2/2 Write",
			"99 2/2 Write", "99 2/2",
		},
		"patch": {"", "50 0/1", "50 0/2 Editing /home/dev/project/keep.txt and 3 more",
			"75 1/2 Editing /home/dev/project/keep.txt and 3 more",
			"83 2/3 Editing /home/dev/project/keep.txt and 3 more", "99 3/3"},
		"search": {"", "50 0/1", "50 0/2 Searching the web", "75 1/2 Searching the web"},
		"mcp":    {"", "50 0/1", "50 0/2 Calling "},
		"resume": {"", "50 0/1", "50 0/2 Running echo first run", "75 1/2 Running echo first run",
			"83 2/3 Running echo first run", "99 3/3", "99 3/3", "99 3/4", "99 4/5", "99 5/5"},
	} {
		out, err := os.ReadFile("../../test/corpus/codex/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		f := normalizer.NewFold(Backend{}, "T-local-test", 0)
		offset, n := int64(0), 0
		for line := range bytes.Lines(out) {
			f.Apply(uint64(n+1), runs.Entry{Kind: runs.Out, Offset: offset, Body: line}, func(normalizer.Message) {})
			offset += int64(len(line))
			got := ""
			if p := f.Record.Progress; p != nil {
				got = fmt.Sprintf("%d %d/%d", p.Percent, p.Done, p.Total)
			}
			got = strings.TrimSpace(got + " " + f.Record.Activity)
			if n < len(want) && got != want[n] && !(strings.HasSuffix(want[n], " ") &&
				strings.HasPrefix(got, want[n])) {
				t.Errorf("%s, line %d: %q, want %q", name, n+1, got, want[n])
			}
			n++
		}
		if n < len(want) {
			t.Errorf("%s has %d lines", name, n)
		}
	}
}

func startedItem(item string) string {
	return `{"type":"item.started","item":{"id":"i","status":"in_progress",` + item + `}}`
}

func TestActivityOfItems(t *testing.T) {
	for _, c := range []struct{ item, want string }{
		{`"type":"command_execution","command":"/bin/bash -lc 'go test ./...'"`, "Running go test ./..."},
		{`"type":"command_execution","command":"/usr/bin/zsh -c \"make\n all\""`, "Running make all"},
		{`"type":"command_execution","command":"bash -lc true"`, "Running true"},
		{`"type":"command_execution","command":"make -c x"`, "Running make -c x"},
		{`"type":"command_execution","command":"curl -H 'Authorization: Bearer abcdefgh'"`,
			"Running curl -H 'Authorization: Bearer [redacted]'"},
		{`"type":"command_execution","command":7`, "Running"},
		{`"type":"command_execution"`, "Running"},
		{`"type":"file_change","changes":[{"path":"a.go","kind":"add"}]`, "Editing a.go"},
		{`"type":"file_change","changes":[ {"kind":"add","path":"a.go"} , 7, [{"path":"no"}], "{}", {"path":"b.go"} ]`,
			"Editing a.go and 1 more"},
		{`"type":"file_change","changes":{"path":"a.go"}`, "Editing files"},
		{`"type":"file_change"`, "Editing files"},
		{`"type":"mcp_tool_call","server":"docs","tool":"search"`, "Calling search"},
		{`"type":"collab_tool_call","tool":"spawn_agent","prompt":"no"`, "Calling spawn_agent"},
		{`"type":"web_search","query":"no"`, "Searching the web"},
		{`"type":"todo_list","items":[{"text":"a","completed":true},{"completed":false,"text":"b \u001b"},` +
			`{"text":"c"}]`, "b"},
		{`"type":"todo_list","items":[{"text":"a","completed":true}]`, ""},
		{`"type":"agent_message","text":"no"`, ""},
	} {
		if got := fold(startedItem(c.item)).Activity; got != c.want {
			t.Errorf("%s: %q, want %q", c.item, got, c.want)
		}
	}
	long := fold(startedItem(`"type":"command_execution","command":"` +
		strings.Repeat(`\u00e9\"\\`, 1000) + `"`)).Activity
	if n := utf8.RuneCountInString(long); n > 200 || !strings.HasPrefix(long, `Running é"\é"\`) {
		t.Errorf("a long command: %d characters, %q", n, long)
	}
}

func command(output, rest string) string {
	return `{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"x","aggregated_output":` +
		string(bounds.AppendString(nil, output)) + rest + `}}`
}

// Errors are only read from the output of failed commands.
func TestErrorsOfFailedCommands(t *testing.T) {
	for rest, failed := range map[string]bool{
		`,"exit_code":0,"status":"completed"`:    false,
		`,"exit_code":0,"status":"failed"`:       false,
		`,"exit_code":2,"status":"failed"`:       true,
		`,"exit_code":2,"status":"completed"`:    true,
		`,"exit_code":null,"status":"failed"`:    true,
		`,"exit_code":null,"status":"completed"`: false,
		`,"status":"declined"`:                   true,
		``:                                       false,
	} {
		r := fold(command("KeyError: 'x'\nsrc/a.py:3: no", rest))
		if got := r.Diagnostics != nil && len(r.Diagnostics.Locations) == 1 &&
			r.Diagnostics.ErrorType == "KeyError"; got != failed {
			t.Errorf("%s: %+v", rest, r.Diagnostics)
		}
	}
	if r := fold(`{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"KeyError: a.py:3 3 passed ` +
		`in 0.1s"}}`); r.Diagnostics != nil || r.Tests != nil {
		t.Errorf("read from a message: %+v, %+v", r.Diagnostics, r.Tests)
	}
}

// What a command has printed until it was abandoned is no result.
func TestTestsOfAbandonedCommands(t *testing.T) {
	for rest, counts := range map[string]bool{
		`,"exit_code":0,"status":"completed"`:      true,
		`,"exit_code":1,"status":"failed"`:         true,
		`,"exit_code":null,"status":"completed"`:   false,
		`,"exit_code":null,"status":"in_progress"`: false,
	} {
		if r := fold(command("==== 3 passed in 0.1s ====", rest)); (r.Tests != nil) != counts {
			t.Errorf("%s: %+v", rest, r.Tests)
		}
	}
}

// The middle of a long output is not read.
func TestBeginningAndEndOfALongOutputAreRead(t *testing.T) {
	filler := strings.Repeat("a \"line\" of é\\n\n", 20_000)
	for _, c := range []struct {
		why, output string
		want        string
	}{
		{"beginning", "--- FAIL: TestHead (0s)\n" + filler, "TestHead"},
		{"end", filler + "--- FAIL: TestTail (0s)\n", "TestTail"},
		{"middle", filler + "--- FAIL: TestNo (0s)\n" + filler, ""},
		{"one line alone", strings.Repeat("x", 300_000), ""},
	} {
		r := fold(command(c.output, `,"exit_code":0`))
		got := ""
		if r.Tests != nil {
			got = strings.Join(r.Tests.FailedTests, " ")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.why, got, c.want)
		}
	}
}

func TestManyChangesOfOneItem(t *testing.T) {
	var changes []string
	for i := range 1000 {
		changes = append(changes, fmt.Sprintf(`{"path":"f%d","kind":"add"}`, i))
	}
	line := func(status string) string {
		return `{"type":"item.completed","item":{"id":"i","type":"file_change","changes":[` +
			strings.Join(changes, ",") + `],"status":"` + status + `"}}`
	}
	if f := fold(line("completed")).Files; len(f.Added) != 50 || f.Unlisted != 1000-50 {
		t.Errorf("%d added, %d not listed", len(f.Added), f.Unlisted)
	}
	for _, status := range []string{"failed", "in_progress", "declined"} {
		if f := fold(line(status)).Files; f != nil {
			t.Errorf("%s: %+v", status, f)
		}
	}
}
