package console

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestRecordsLookAsTheyDid(t *testing.T) {
	t.Parallel()
	forms := map[string]Renderer{
		"plain": {},
		"term":  {terminal: true},
		"color": {terminal: true, color: true},
	}
	for _, name := range []string{"session", "hostile"} {
		for form, setup := range forms {
			t.Run(name+"."+form, func(t *testing.T) {
				var out bytes.Buffer
				r := renderTo(&out, setup.terminal, setup.color, 60)
				var last time.Time
				for _, rec := range records(t, filepath.Join("testdata", "render", name+".jsonl")) {
					if err := r.Write(rec); err != nil {
						t.Fatal(err)
					}
					last = rec.Time
				}
				if err := r.Tick(last.Add(3 * time.Minute)); err != nil {
					t.Fatal(err)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
				// What would move the cursor is written so that it can be read.
				got := strings.NewReplacer("\x1b", "␛", "\r", "␍").Replace(out.String())
				golden(t, filepath.Join("testdata", "render", name+"."+form), got)
			})
		}
	}
}

func TestJSONLineIsTheContract(t *testing.T) {
	t.Parallel()
	for _, rec := range records(t, filepath.Join("testdata", "render", "session.jsonl")) {
		var out bytes.Buffer
		if err := WriteJSON(&out, rec); err != nil {
			t.Fatal(err)
		}
		want := recordLines(t, filepath.Join("testdata", "render", "session.jsonl"))[rec.Seq-1] + "\n"
		if out.String() != want {
			t.Errorf("got  %swant %s", out.String(), want)
		}
	}
}

// All bytes but those of characters that may be a line break.
func TestJSONLineKeepsTheEventsBytes(t *testing.T) {
	event := "{\"kind\":\"TextOutput\",\"text\":\"<a&b>\u2028 \\u0041 1.0\",\"data\":1.50}"
	rec := Record{Seq: 7, Time: time.Date(2026, 1, 2, 3, 4, 5, 6_999_999, time.FixedZone("", 3600)), Agent: "codex",
		Run: "r", Line: 2, Part: 1, Event: []byte(event)}
	var out bytes.Buffer
	if err := WriteJSON(&out, rec); err != nil {
		t.Fatal(err)
	}
	want := `{"seq":7,"time":"2026-01-02T02:04:05.006Z","agent":"codex","run":"r","line":2,"part":1,"event":` +
		strings.Replace(event, "\u2028", `\u2028`, 1) + "}\n"
	if out.String() != want {
		t.Errorf("got  %swant %s", out.String(), want)
	}
	rec.Event = []byte("{torn")
	if err := WriteJSON(&out, rec); err == nil || strings.Contains(err.Error(), "torn") {
		t.Errorf("got %v, want an error that does not quote the event", err)
	}
}

func TestStatusLineFitsAnyTerminal(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 2, 10, 40, 200} {
		var out bytes.Buffer
		r := renderTo(&out, true, false, width)
		for _, rec := range records(t, filepath.Join("testdata", "render", "session.jsonl")) {
			out.Reset()
			if err := r.Write(rec); err != nil {
				t.Fatal(err)
			}
			status := out.String()[strings.LastIndexByte(out.String(), '\n')+1:]
			status = strings.TrimPrefix(status, "\r\x1b[K")
			if len(status) >= width {
				t.Errorf("width %d: the status line has %d cells: %q", width, len(status), status)
			}
		}
	}
}

func TestRendererForgetsAtItsBounds(t *testing.T) {
	var out bytes.Buffer
	r := renderTo(&out, true, false, 80)
	const runs = maxCalls + maxThreads
	for i := range runs {
		call := fmt.Sprintf(`{"kind":"ToolCall","data":{"tool":{"backend_item_id":"i%d","phase":"start"},"usage":{"input_tokens":1}}}`, i)
		if err := r.Write(Record{Run: fmt.Sprint(i), Agent: "codex", Event: []byte(call)}); err != nil {
			t.Fatal(err)
		}
		out.Reset()
	}
	if len(r.calls) > maxCalls || len(r.threads) > maxThreads {
		t.Errorf("remembers %d calls and %d runs, more than %d and %d", len(r.calls), len(r.threads), maxCalls, maxThreads)
	}
	if err := r.Tick(time.Time{}); err != nil || !strings.Contains(out.String(), fmt.Sprintf("%d tools,", runs)) ||
		!strings.Contains(out.String(), fmt.Sprintf("%d tokens", runs)) {
		t.Errorf("got %q, %v; want %d tools and tokens", out.String(), err, runs)
	}
}

func TestNothingMovesTheCursorOffATerminal(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := New(f, func(name string) string { return map[string]string{"TERM": "xterm"}[name] })
	for _, rec := range records(t, filepath.Join("testdata", "render", "hostile.jsonl")) {
		if err := r.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.Tick(time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(got, "\x1b\r") || bytes.Count(got, []byte("\n")) != 10 {
		t.Errorf("got %q, want 10 plain lines", got)
	}
}

func TestEndedRunHasNothingRunning(t *testing.T) {
	var out bytes.Buffer
	r := renderTo(&out, true, false, 80)
	for _, rec := range []Record{
		{Run: "a", Event: []byte(`{"kind":"ToolCall","data":{"tool":{"backend_item_id":"item_0","phase":"start"}}}`)},
		{Run: "b", Event: []byte(`{"kind":"ToolCall","data":{"tool":{"backend_item_id":"item_0","phase":"start"}}}`)},
		{Run: "a", Agent: "codex", Event: []byte(`{"kind":"Status","data":{"usage":{"input_tokens":7}}}`)},
		{Run: "a", Completion: []byte(`{"status":{"success":true,"code":0,"signal":null}}`)},
	} {
		out.Reset()
		if err := r.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if want := "2 tools, 1 running | 7 tokens"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("got %q, want %q at the end", out.String(), want)
	}
}

// No string of an agent, wherever it stands, ends a plain line, moves the
// cursor, turns the direction of writing, or begins a row of a terminal.
func FuzzHostileText(f *testing.F) {
	f.Add("plain", 40)
	f.Add("\x1b[2J\r\n\u202e\u2028\x00\x9b\u009b\U000e0041", 20)
	f.Add(strings.Repeat("日本語e\u0301👩\u200d🚀\ufe0f ", 20), 11)
	f.Add("a\t\tb\\n\n\n\nc", 80)
	marks := []string{"── ", "│ ", "┊ ", "· ", "! ", "▸ ", "✓ ", "✗ "}
	ours := regexp.MustCompile(`\r\x1b\[K|\x1b\[[0-9]{1,2}m`)
	f.Fuzz(func(t *testing.T, s string, width int) {
		width = 20 + (width%100+100)%100
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		tool := fmt.Sprintf(`{"tool":{"backend_item_id":%[1]s,"kind":%[1]s,"phase":%[1]s,"status":%[1]s,"tool_name":%[1]s}}`,
			quoted)
		for _, event := range []string{
			fmt.Sprintf(`{"kind":"TextOutput","channel":%s,"text":%[1]s}`, quoted),
			fmt.Sprintf(`{"kind":"Status","message":%s,"data":{"session":{"id":%[1]s}}}`, quoted),
			fmt.Sprintf(`{"kind":"Error","message":%s}`, quoted),
			`{"kind":"ToolCall","data":` + tool + `}`,
			`{"kind":"ToolResult","data":` + tool + `}`,
		} {
			rec := Record{Run: s, Agent: s, Event: []byte(event)}
			var line, screen bytes.Buffer
			if err := renderTo(&line, false, false, 0).Write(rec); err != nil {
				t.Fatal(err)
			}
			if strings.Count(line.String(), "\n") != 1 || !strings.HasSuffix(line.String(), "\n") {
				t.Fatalf("not one line: %q", line.String())
			}
			harmless(t, line.String())

			if err := renderTo(&screen, true, true, width).Write(rec); err != nil {
				t.Fatal(err)
			}
			bare := ours.ReplaceAllString(screen.String(), "")
			harmless(t, bare)
			rows := strings.Split(bare, "\n")
			for _, row := range rows[:len(rows)-1] {
				cells := 0
				for _, r := range row {
					cells += cellsOf(r)
				}
				if cells > width {
					t.Errorf("%d cells on a terminal of %d: %q", cells, width, row)
				}
				if !slices.ContainsFunc(marks, func(mark string) bool { return strings.HasPrefix(row, mark) }) {
					t.Errorf("a row without one of our marks: %q", row)
				}
			}
		}
	})
}

func harmless(t *testing.T, s string) {
	t.Helper()
	for _, r := range s {
		if r != '\n' && r != zwj && r != zwnj && !unicode.IsGraphic(r) {
			t.Fatalf("%U in %q", r, s)
		}
	}
}

func noenv(string) string { return "" }

func renderTo(out *bytes.Buffer, terminal, color bool, width int) *Renderer {
	r := New(out, noenv)
	r.terminal, r.color, r.width = terminal, color, func() int { return width }
	return r
}

func recordLines(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

// wire is the form that `--json` prints.
type wire struct {
	Seq        uint64          `json:"seq"`
	Time       string          `json:"time"`
	Agent      string          `json:"agent"`
	Run        string          `json:"run"`
	Line       uint64          `json:"line"`
	Part       int             `json:"part"`
	Event      json.RawMessage `json:"event,omitempty"`
	Completion json.RawMessage `json:"completion,omitempty"`
}

func records(t *testing.T, path string) []Record {
	t.Helper()
	var all []Record
	for _, line := range recordLines(t, path) {
		var w wire
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, w.Time)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, Record{w.Seq, at, w.Agent, w.Run, w.Line, w.Part, w.Event, w.Completion})
	}
	return all
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}
