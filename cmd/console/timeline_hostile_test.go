package console

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// Rows of a timeline begin with these.
var timelineMarks = []string{"── ", "   ", "│ ", "┊ ", "· ", "! ", "? ", "> ", "$ ", "▸ ", "✓ ", "✗ ", "■ ",
	"  ✓ ", "  ✗ ", "  ▸ ", "  · ", "  … ", "  │ ", "  ✓", "  ✗"}

// ourSequences are colours, and a status line that is removed.
var ourSequences = regexp.MustCompile(`[^\n]*\r\x1b\[K|\x1b\[[0-9]{1,2}m`)

// checkRows checks that what was printed moves no cursor, that no row is wider than the
// terminal, and that every row begins with a mark.
func checkRows(t interface {
	Helper()
	Errorf(string, ...any)
}, printed string, width int) {
	t.Helper()
	bare := ourSequences.ReplaceAllString(printed, "")
	for row := range strings.Lines(bare) {
		text := strings.TrimSuffix(row, "\n")
		if text == row && row != "" && width > 0 { // the status line
			continue
		}
		for _, r := range text {
			if !unicode.IsGraphic(r) && r != zwj && r != zwnj {
				t.Errorf("%U in %q", r, text)
				return
			}
		}
		if width > 0 && (cells(text) >= width || len(text) > maxBytes(width)+64) {
			t.Errorf("%d cells, %d bytes on a terminal of %d: %.200q", cells(text), len(text), width, text)
		}
		if !slices.ContainsFunc(timelineMarks, func(m string) bool { return strings.HasPrefix(text, m) }) {
			t.Errorf("a row without a mark: %.200q", text)
		}
	}
}

// hostile is a detail of each kind, all of whose texts are one.
func hostileItems(s string) []api.DetailItem {
	e := &runs.Excerpted{Head: s, Tail: s, Omitted: 5000}
	var items []api.DetailItem
	add := func(kind string, event map[string]any, d runs.Detail) {
		body, err := json.Marshal(event)
		if err != nil {
			panic(err)
		}
		items = append(items, api.DetailItem{Kind: kind, Event: body, Detail: &d, At: runs.Time(1000 * len(items))})
	}
	tool := func(phase string) map[string]any {
		return map[string]any{"tool": map[string]any{"tool_use_id": "1", "kind": s, "tool_name": s, "phase": phase,
			"status":    s,
			"exit_code": 1, "bytes": map[string]any{"result": 1 << 20}}}
	}
	call := func(d runs.Detail) {
		add("tool_call", map[string]any{"kind": "ToolCall", "data": tool("start")}, d)
		add("tool_result", map[string]any{"kind": "ToolResult", "data": tool("fail")}, d)
		add("tool_result", map[string]any{"kind": "ToolResult", "data": tool("fail")}, d)
	}
	items = append(items, api.DetailItem{Kind: "detail", Detail: &runs.Detail{Prompt: e, Text: e, Stderr: e}})
	for _, agent := range []string{"codex", "gemini_cli"} {
		for _, channel := range []string{"assistant", "reasoning", s} {
			event := map[string]any{"agent_kind": agent, "kind": "TextOutput", "channel": channel, "text": s}
			add("text_output", event, runs.Detail{})
		}
	}
	call(runs.Detail{Command: e, Output: e, Stderr: e})
	call(runs.Detail{Prompt: e, Result: e})
	call(runs.Detail{Server: s, Tool: s, Arguments: e, Result: e})
	arguments, _ := json.Marshal(map[string]string{s: s, s + "2": s})
	call(runs.Detail{Arguments: &runs.Excerpted{Head: string(arguments)}, Result: e})
	files := []runs.FileDetail{{Path: s, Kind: s, Added: new(1), Diff: e}, {Path: s, Kind: s}}
	call(runs.Detail{Files: files, MoreFiles: 3})
	steps := []runs.PlanStep{{Text: s, State: s}, {Text: s, State: "active"}, {Text: s, State: "done"}}
	call(runs.Detail{Plan: steps})
	add("status", map[string]any{"kind": "Status", "message": s, "data": map[string]any{"session": map[string]any{"id": s},
		"usage": map[string]any{"input_tokens": 1}}}, runs.Detail{Plan: steps, Files: files})
	add("error", map[string]any{"kind": "Error", "message": s}, runs.Detail{Stderr: e})
	add("unknown", map[string]any{"kind": s}, runs.Detail{Text: e})
	add("completion", map[string]any{"error": map[string]any{"message": s}}, runs.Detail{Stderr: e})
	return items
}

func checkHostile(t *testing.T, s string, width int) {
	t.Helper()
	run := &api.Run{Summary: runs.Summary{ID: s, Attributes: runs.Attributes{Agent: s, Model: s, Title: s, Dir: s},
		Version: s, State: runs.StateWorking,
		Doing: &runs.Doing{Phase: runs.RunningTool, Tool: s}}}
	for _, o := range []TimelineOptions{{}, {Full: true, Diffs: true}} {
		for _, on := range []int{width, 0} {
			var out bytes.Buffer
			l := timelineTo(&out, on > 0, on > 0, on, o)
			if err := l.Status(run); err != nil {
				t.Fatal(err)
			}
			for _, item := range hostileItems(s) {
				if err := l.Write(item); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			checkRows(t, out.String(), on)
			if line := ourSequences.ReplaceAllString(l.statusLine(time.Now()), ""); cells(line) >= width || Safe(line) != line {
				t.Errorf("status line of %d cells on a terminal of %d: %q", cells(line), width, line)
			}
		}
	}
}

// Whatever texts a detail has, what is printed moves no cursor, and fits into the terminal.
func FuzzTimeline(f *testing.F) {
	f.Add("plain", 40)
	f.Add("\x1b[2J\r\n\u202e\u2028\x00\x9b\u009b\U000e0041\x1b[31mred", 20)
	f.Add(strings.Repeat("日本語e\u0301👩\u200d🚀\ufe0f ", 20), 11)
	f.Add("```go\n\tx\n# heading\n"+strings.Repeat("a", 300), 80)
	f.Add("e"+strings.Repeat("\u0301", 500), 30)
	f.Fuzz(func(t *testing.T, s string, width int) { checkHostile(t, s, 24+(width%100+100)%100) })
}

func TestNoDetailMovesTheCursor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		moving := rapid.RuneFrom(nil, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp, unicode.Mn, unicode.Han)
		s := rapid.OneOf(rapid.String(), rapid.StringOfN(moving, 0, 60, -1)).Draw(rt, "text")
		checkHostile(t, s, rapid.IntRange(24, 120).Draw(rt, "width"))
	})
}

// A megabyte in one line, and 10,000 files, are a few rows.
func TestLargeDetailsAreAFewRows(t *testing.T) {
	t.Parallel()
	large := &runs.Excerpted{Head: strings.Repeat("x", 1<<20)}
	files := make([]runs.FileDetail, 10_000)
	for i := range files {
		files[i] = runs.FileDetail{Path: strings.Repeat("日", i), Kind: "added", Added: new(1), Diff: large}
	}
	s := &script{agent: "codex"}
	s.call("1", "command_execution", "", &runs.Detail{Command: large})
	s.result("1", "command_execution", "", 1, 0, &runs.Detail{Output: large, Stderr: large})
	s.call("2", "mcp_tool_call", "a", &runs.Detail{Arguments: large})
	s.result("2", "mcp_tool_call", "a", 1, 0, &runs.Detail{Result: large})
	s.result("3", "file_change", "", nil, 0, &runs.Detail{Files: files})
	steps := slices.Repeat([]runs.PlanStep{{Text: large.Head}}, 500)
	s.event("Status", map[string]any{"message": "todo list"}, &runs.Detail{Plan: steps})
	var out bytes.Buffer
	l := timelineTo(&out, true, false, 80, TimelineOptions{})
	got := printed(t, l, &out, s.items)
	if n := strings.Count(got, "\n"); n > 60 || !utf8.ValidString(got) {
		t.Errorf("%d rows:\n%.4000s", n, got)
	}
	checkRows(t, out.String(), 80)
	if l.changes != (changes{added: 10_000}) {
		t.Errorf("%+v", l.changes)
	}
}
