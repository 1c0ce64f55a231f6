package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// script is a list of details, a second apart.
type script struct {
	agent string
	items []api.DetailItem
}

const scriptBegins = 1_795_000_000_000 // 2026-11-18T11:06:40Z

func (s *script) add(kind, event string, d *runs.Detail) {
	n := len(s.items)
	item := api.DetailItem{
		Pos: fmt.Sprint(n), Line: uint64(n + 1), Part: 1, At: runs.Time(scriptBegins + 1000*n), Kind: kind, Detail: d,
	}
	if event != "" {
		item.Event = json.RawMessage(event)
	}
	s.items = append(s.items, item)
}

func (s *script) event(kind string, fields map[string]any, d *runs.Detail) {
	fields["agent_kind"], fields["kind"] = s.agent, kind
	event, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	s.add(kindTokens[kind], string(event), d)
}

func (s *script) text(channel, text string) {
	s.event("TextOutput", map[string]any{"channel": channel, "text": text}, nil)
}

func (s *script) call(id, kind, name string, d *runs.Detail) {
	s.event("ToolCall", map[string]any{"data": map[string]any{"tool": map[string]any{
		"tool_use_id": id, "kind": kind, "tool_name": name, "phase": "start", "status": "running"}}}, d)
}

func (s *script) result(id, kind, name string, exit any, bytes int, d *runs.Detail) {
	phase := "complete"
	if exit != nil && exit != 0 {
		phase = "fail"
	}
	s.event("ToolResult", map[string]any{"data": map[string]any{"tool": map[string]any{"tool_use_id": id, "kind": kind,
		"tool_name": name, "phase": phase, "status": phase, "exit_code": exit, "bytes": map[string]any{"result": bytes}}}}, d)
}

func (s *script) usage(in, cached, out int) {
	s.event("Status", map[string]any{"message": "turn completed", "data": map[string]any{"usage": map[string]any{
		"input_tokens": in, "cached_input_tokens": cached, "output_tokens": out}}}, nil)
}

func whole(text string) *runs.Excerpted { return runs.Whole(text) }

func numbered(n int) *runs.Excerpted {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return whole(b.String())
}

// session has all that a timeline prints.
func session() *script {
	s := &script{agent: "codex"}
	s.add("detail", "", &runs.Detail{Prompt: whole("Fix the flaky test.\n\nIt fails with 日本語 names.\na\nb\nc\nd\ne\nf\n")})
	s.text("reasoning", "I look at the tests, of which there are more than fit into one row of a narrow terminal.")
	s.text("assistant", "# Plan\nI run **the tests** first, and then I change `names.go`, "+
		"日本語のとても長い説明文がここにあります👩‍🚀, because they fail.\n\n```go\n"+
		"func main() { fmt.Println(\"a line of code that is longer than a narrow terminal\") }\n```\n")
	plan := func(states ...string) *runs.Detail {
		d := &runs.Detail{}
		for i, text := range []string{"Run the tests", "Fix names.go", "Run the tests again"} {
			d.Plan = append(d.Plan, runs.PlanStep{Text: text, State: states[i]})
		}
		return d
	}
	s.event("Status", map[string]any{"message": "todo list started"}, plan("active", "pending", "pending"))
	command := &runs.Detail{Command: whole("go test ./...")}
	s.call("1", "command_execution", "", command)
	s.result("1", "command_execution", "", 1, 0, &runs.Detail{Command: command.Command, Output: numbered(30)})
	s.event("Status", map[string]any{"message": "todo list updated"}, plan("done", "active", "pending"))
	s.event("Status", map[string]any{"message": "todo list updated"}, plan("done", "active", "pending"))
	long := whole("sed -n 1,200p names.go | grep -n 'one of the many long expressions'")
	s.call("2", "command_execution", "", &runs.Detail{Command: long})
	s.call("3", "mcp_tool_call", "echo", &runs.Detail{Server: "docs", Arguments: whole(`{"query":"names","limit":10}`)})
	s.result("2", "command_execution", "", 0, 0, &runs.Detail{Output: whole("\x1b[32mok\x1b[0m\n10%\r50%\r100%\n")})
	s.result("3", "mcp_tool_call", "echo", nil, 2048, &runs.Detail{Result: whole("{}")})
	s.call("4", "file_change", "", nil)
	diff := whole("@@ -1,2 +1,3 @@\n a\n-b\n+B\n+c\n")
	s.result("4", "file_change", "", nil, 0, &runs.Detail{MoreFiles: 2, Files: []runs.FileDetail{
		{Path: "names.go", Kind: "modified", Added: new(2), Removed: new(1), Diff: diff},
		{Path: "testdata/日本語.txt", Kind: "added", Added: new(7)}, {Path: "old.go", Kind: "deleted"}}})
	s.call("5", "web_search", "", &runs.Detail{Arguments: whole(`{"query":"unicode normalization of file names"}`)})
	s.result("5", "web_search", "", nil, 0, nil)
	s.call("6", "collab_tool_call", "spawn_agent", &runs.Detail{Prompt: whole("Count the files.\nThen stop.")})
	s.result("6", "collab_tool_call", "spawn_agent", nil, 0, nil)
	s.call("7", "command_execution", "", &runs.Detail{Command: whole("cat <<END\na\nb\nEND")})
	s.result("7", "command_execution", "", 0, 0, &runs.Detail{Output: whole("a\nb\n")})
	s.call("8", "mcp_tool_call", "fail", &runs.Detail{Server: "docs", Arguments: whole(`{"path":"/nowhere"}`)})
	s.result("8", "mcp_tool_call", "fail", 1, 20, &runs.Detail{Result: whole("no such page")})
	s.event("Error", map[string]any{"message": "stream disconnected before completion: retrying 1/5"}, nil)
	s.text("assistant", "Fixed.")
	s.usage(4800, 4000, 320)
	s.add("completion", `{"agent_kind":"codex","status":{"success":false,"code":1,"signal":null},"final_text":null,`+
		`"error":{"kind":"x","message":"codex backend error: exited non-zero: exit_code=1 (stderr redacted)"}}`,
		&runs.Detail{
			Stderr: whole("warning: something\nfatal: it is over\n"), Changed: &runs.Changed{Files: 5, In: runs.ByTools},
		})
	return s
}

// deltas is an agent that prints parts of its text.
func deltas() *script {
	s := &script{agent: "gemini_cli"}
	for _, part := range []string{"Ember marsh up", "land birch cedar brisk rid",
		"ge delta ledge 76388. Elm quarry glade b",
		"irch 11266.\n\n# He", "ading\n- a list with 日本", "語\n", "end"} {
		s.text("assistant", part)
	}
	s.usage(10, 0, 12_345)
	s.add("completion", `{"agent_kind":"gemini_cli","status":{"success":true,"code":0,"signal":null}}`, nil)
	return s
}

// live is a live run, whose prompt comes with its start and with its first turn.
func live() *script {
	s := &script{agent: "claude_code"}
	prompt := func(text string) *runs.Detail { return &runs.Detail{Prompt: whole(text)} }
	turn := func(message string, d *runs.Detail) { s.event("Status", map[string]any{"message": message}, d) }
	s.add("detail", "", prompt("first line of it\nsecond line"))
	turn("turn started", prompt("first line of it\nsecond line"))
	s.text("assistant", "Done.")
	turn("turn completed", nil)
	turn("turn started", prompt("first line of it\nsecond line")) // the same again
	s.text("assistant", "Done again.")
	turn("turn completed", nil)
	return s
}

func stateOfScript() *api.Run {
	return &api.Run{
		Summary: runs.Summary{
			ID: "T-local-mhhq2k1f3a9x2c0", Attributes: runs.Attributes{Agent: "codex", Model: "gpt-5-codex",
				Title: "Fix the flaky test.", Dir: "/home/dev/project"}, Version: "0.169.0", State: runs.StateWorking,
			StartedAt: scriptBegins,
			Progress:  &runs.Todo{Done: 1, Total: 3}, Tokens: &runs.Spend{Input: 4800, Output: 320},
			Doing: &runs.Doing{Phase: runs.RunningTool, Tool: "Bash", Since: scriptBegins},
		},
	}
}

func timelineTo(out *bytes.Buffer, terminal, color bool, width int, o TimelineOptions) *Timeline {
	return &Timeline{r: renderTo(out, terminal, color, width), options: o}
}

func printed(t *testing.T, l *Timeline, out *bytes.Buffer, items []api.DetailItem) string {
	t.Helper()
	for _, item := range items {
		if err := l.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("\x1b", "␛", "\r", "␍").Replace(out.String())
}

func TestTimelinesLookAsTheyDid(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]*script{"session": session(), "deltas": deltas(), "live": live()} {
		for form, c := range map[string]struct {
			terminal, color bool
			width           int
			options         TimelineOptions
		}{
			"40": {true, false, 40, TimelineOptions{}}, "80": {true, false, 80, TimelineOptions{}},
			"200": {true, false, 200, TimelineOptions{}}, "80.color": {true, true, 80, TimelineOptions{Diffs: true}},
			"pipe":      {false, false, 0, TimelineOptions{}},
			"pipe.full": {false, false, 0, TimelineOptions{Full: true, Diffs: true}},
		} {
			t.Run(name+"."+form, func(t *testing.T) {
				var out bytes.Buffer
				l := timelineTo(&out, c.terminal, c.color, c.width, c.options)
				if name == "session" {
					var b strings.Builder
					l.head(&b, stateOfScript())
					out.WriteString(b.String())
				}
				golden(t, filepath.Join("testdata", "timeline", name+"."+form), printed(t, l, &out, s.items))
			})
		}
	}
}

// The status line is below all rows and log lines, is drawn ten times a second at most, and
// disappears.
func TestTimelineHasOneStatusLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := timelineTo(&out, true, false, 60, TimelineOptions{})
		run := stateOfScript()
		run.Doing.Since, run.ActiveAt = api.TimeOf(time.Now()), api.TimeOf(time.Now())
		shown := func(text string, do error) {
			t.Helper()
			screen := strings.Split(out.String(), "\n")
			parts := strings.Split(screen[len(screen)-1], eraseLine)
			if last := parts[len(parts)-1]; do != nil || last != text {
				t.Errorf("shows %q, %v; want %q", last, do, text)
			}
		}
		shown("running Bash | 4.8k in, 320 out | plan 1/3", l.Status(run))
		time.Sleep(12 * time.Second)
		shown("running Bash for 12 s | 4.8k in, 320 out | plan 1/3", l.Tick(time.Now()))
		time.Sleep(time.Second)
		out.Reset()
		for range 1000 {
			if err := l.Write(session().items[1]); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(out.String(), "running Bash"); n != maxDrawn {
			t.Errorf("drawn %d times, want %d", n, maxDrawn)
		}
		shown("", nil)
		time.Sleep(time.Second)
		run.Tokens, run.Doing, run.Progress = nil, nil, nil
		shown("working | – tokens", l.Status(run))
		shown("", l.Close())
	})
}

// Anywhere but on a terminal there is no status line, and nothing moves the cursor.
func TestTimelineOffATerminalHasRowsOnly(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := NewTimeline(&out, func(name string) string { return map[string]string{"TERM": "xterm"}[name] }, TimelineOptions{})
	if err := errors.Join(l.Status(stateOfScript()), l.Tick(time.Now()), l.Status(stateOfScript())); err != nil {
		t.Fatal(err)
	}
	got := printed(t, l, &out, session().items)
	if strings.ContainsAny(got, "␛␍") || strings.Contains(got, "running Bash") {
		t.Errorf("got %s", got)
	}
}

// A timeline of a run with many open calls stays small.
func TestTimelineForgetsOpenCalls(t *testing.T) {
	t.Parallel()
	s := &script{agent: "codex"}
	for i := range 2*maxOpen + 1 {
		s.call(fmt.Sprint(i), "command_execution", "", &runs.Detail{Command: whole(strings.Repeat("x", 5000))})
	}
	var out bytes.Buffer
	l := timelineTo(&out, true, false, 80, TimelineOptions{})
	printed(t, l, &out, s.items)
	if n := len(l.calls.open); n > maxOpen || len(l.calls.open[fmt.Sprint(2*maxOpen)].label) > maxLabel+10 {
		t.Errorf("remembers %d calls", n)
	}
}

// Of a path that is too long the end is shown.
func TestPathsKeepTheirEnds(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"M a/b.go": "M a/b.go", "M internal/console/timeline.go": "M …/timeline.go",
		"A very-long-name-without-a-slash.go": "A very-long-na…",
		"D /日本語/日本語/日本語":                      "D …/日本語", "M a/b/c/d/e/f/g/h.go": "M …/e/f/g/h.go", "M ": "M ",
	} {
		if got := cut(cutPath(path, 15), 15); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		} else if cells(got) > 15 {
			t.Errorf("%q: %q is too long", path, got)
		}
	}
}

// A text that pauses is shown, and continues on the next row.
func TestPausedTextIsShown(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := timelineTo(&out, false, false, 0, TimelineOptions{})
	for _, part := range []string{"one ", "two", "", "\nthree", "", " four\n"} {
		if part == "" {
			if err := errors.Join(l.Tick(time.Time{}), l.Tick(time.Time{})); err != nil {
				t.Fatal(err)
			}
			continue
		}
		s := &script{agent: "gemini_cli"}
		s.text("assistant", part)
		if err := l.Write(s.items[0]); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := printed(t, l, &out, nil), "│ one two\n│ three\n│  four\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The last row has the reason that the owner may see, in the place of the words of the event.
func TestTheLastRowHasTheReasonOfAFailure(t *testing.T) {
	s := &script{agent: "codex"}
	s.add("completion", `{"agent_kind":"codex","status":null,"final_text":null,"error":{"kind":"backend",`+
		`"message":"codex backend error: could not be started (details redacted when unsafe)"}}`,
		&runs.Detail{Text: whole("the agent's program was not found\x1b[2J")})
	var out strings.Builder
	line := NewTimeline(&out, func(string) string { return "" }, TimelineOptions{})
	for _, item := range s.items {
		if err := line.Write(item); err != nil {
			t.Fatal(err)
		}
	}
	if want := "■ failed: the agent's program was not found\\x1b[2J, took 0s\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
