package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

func TestWaitEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("codex", "T-1", runs.Start{Source: "run"})
	s.Await("T-1", servicetest.Working)
	a := ask(t, s.tools, "_codex_local_wait", `{"task_id":"T-1","timeout_sec":1}`)
	if a.Error.Code != "TIMEOUT" || !a.Error.Retryable || a.Error.Details["timeout_type"] != "wait" ||
		a.Error.Details["state"] != "working" ||
		a.Error.Details["elapsed_seconds"].(float64) < 1 || a.Error.Duration < 1000 {
		t.Errorf("got %s", a.Envelope)
	}
}

func TestResultsOfARunningTaskAreRefusedForNow(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("codex", "T-1", runs.Start{Source: "run"})
	s.Await("T-1", servicetest.Working)
	queued := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x"}`))
	for id, state := range map[string]string{"T-1": "working", queued: "queued"} {
		a := ask(t, s.tools, "_codex_local_results", args("task_id", id))
		if a.Error.Code != "VALIDATION" || !a.Error.Retryable || a.Error.Details["state"] != state ||
			a.Error.Details["task_id"] != id {
			t.Errorf("got %s", a.Envelope)
		}
	}
}

// Without NATS nobody knows whether a task has ended that had not when the
// table was last updated.
func TestResultsOfARunningTaskWithoutNATSAreAnErrorOfTheStreams(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("codex", "T-1", runs.Start{Source: "run"})
	s.Await("T-1", servicetest.Working)
	s.Server.Stop()
	// Requests of this connection have as long as a busy machine needs.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	a := start(ctx, t, s.tools, "_codex_local_results", args("task_id", "T-1"), nil)()
	// A request fails at once if the buffer of the lost connection is full, else when its time is over.
	why := []string{"there is no connection to NATS", "no answer in time; try again in some seconds"}
	if a.Error.Code != "INTERNAL" || !a.Error.Retryable || !slices.Contains(why, a.Error.Message) {
		t.Errorf("got %s", a.Envelope)
	}
}

func TestUnknownTaskIsNotFound(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, tool := range []string{"_codex_local_results", "_codex_local_wait", "_codex_local_cancel",
		"_codex_local_status"} {
		for id, code := range map[string]string{"T-local-none": "NOT_FOUND", "a b": "VALIDATION", "../x": "VALIDATION",
			"a.>": "VALIDATION", "T-cloud-1": "VALIDATION",
			"task_e_1": "VALIDATION", "https://chatgpt.com/codex/tasks/task_e_1": "VALIDATION"} {
			if a := ask(t, s.tools, tool, args("task_id", id)); a.Error.Code != code || a.Error.Retryable {
				t.Errorf("%s %s: %s", tool, id, a.Envelope)
			}
		}
	}
}

func TestOutputFollowsTheState(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play(t, "T-good", "hello", 0)
	s.play(t, "T-bad", "http-401", 1)
	for _, c := range []struct {
		id       string
		pairs    []any
		included bool
	}{
		{"T-good", nil, false}, {"T-good", []any{"include_output", true}, true}, {"T-bad", nil, true},
		{"T-bad", []any{"include_output", false}, true},
	} {
		for _, tool := range []string{"_codex_local_results", "_codex_local_wait"} {
			a := ask(t, s.tools, tool, args(append([]any{"task_id", c.id}, c.pairs...)...))
			if got := a.Data["output"].(map[string]any)["included"]; got != c.included {
				t.Errorf("%s %s %v: included %v", tool, c.id, c.pairs, got)
			}
		}
	}
	out, stderr := recording(t, "hello")
	o := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-good","include_output":true}`).Data["output"].(map[string]any)
	if o["stdout"] != string(out) || o["stderr"] != string(stderr) || o["truncated"] != false {
		t.Errorf("output %v", o)
	}
}

func TestEventsAreTheLastFifty(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	var out []byte
	for i := range 80 {
		out = fmt.Appendf(out, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"message %d"}}`+"\n", i, i)
	}
	s.Begin("codex", "T-1", runs.Start{Source: "run"}).Out(out).Exit(0)
	e := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-1","include_events":true}`).Data["events"].(map[string]any)
	items := e["items"].([]any)
	if len(items) != 50 || e["count"] != 81.0 {
		t.Errorf("%d items of %v", len(items), e["count"])
	}
	last, _ := json.Marshal(items[49])
	if !strings.Contains(string(last), "message 79") { // the completion holds the final text
		t.Errorf("the last one is %s", last)
	}
	for i, e := range items { // as in last_events
		want := "item.completed"
		if i == 49 {
			want = "completion"
		}
		if got := e.(map[string]any)["type"]; got != want {
			t.Errorf("event %d has the type %v, want %s", i, got, want)
		}
	}
	// Large ones: fewer are shown.
	out = nil
	for i := range 30 {
		out = fmt.Appendf(out, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"%s"}}`+"\n", i, strings.Repeat(`\u0001`, 6000))
	}
	s.Begin("codex", "T-2", runs.Start{Source: "run"}).Out(out).Exit(0)
	a := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-2","include_events":true}`)
	if n := len(a.Data["events"].(map[string]any)["items"].([]any)); n == 0 || n == 31 || len(a.Envelope) > 700<<10 {
		t.Errorf("%d events in %d bytes", n, len(a.Envelope))
	}
}

// Clients of v3.6 read the counts of tests of each completed task, without looking whether they are there.
func TestCompletedTasksHaveCountsOfTests(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play(t, "T-none", "hello", 0)
	s.play(t, "T-bad", "failed", 1)
	s.Begin("codex", "T-tested", runs.Start{Source: "run"}).Out([]byte(`{"type":"turn.started"}
{"type":"item.completed","item":{"id":"item_0","type":"command_execution","command":"pytest","aggregated_output":"=== 2 passed in 0.03s ===\n","exit_code":0,"status":"completed"}}
{"type":"turn.completed"}
`)).Exit(0)
	for id, want := range map[string]string{
		"T-none":   `{"failed":0,"failed_tests":[],"passed":0,"skipped":0} {"tests_recognised":false}`,
		"T-tested": `{"failed":0,"failed_tests":[],"passed":2,"skipped":0} null`,
		"T-bad":    `null null`,
	} {
		for _, tool := range []string{"_codex_local_results", "_codex_local_wait"} {
			a := ask(t, s.tools, tool, args("task_id", id))
			m := a.Data["metadata"].(map[string]any)
			tests, _ := json.Marshal(m["test_results"])
			ext, _ := json.Marshal(m["ext"])
			if got := string(tests) + " " + string(ext); got != want {
				t.Errorf("%s of %s: %s, want %s", tool, id, got, want)
			}
			if shown := strings.Contains(a.Text(), "**Tests**"); shown != (id == "T-tested") {
				t.Errorf("the page of %s: %s", id, a.Text())
			}
		}
	}
}

// TestOutputIsCutWithinItsBudget has characters at all borders.
func TestOutputIsCutWithinItsBudget(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	text := strings.Repeat("a€𝄞é", 40_000) // 10 bytes each
	s.Begin("codex", "T-1", runs.Start{Source: "run"}).Out([]byte(text)).Err([]byte("x\xff\xfey")).Exit(1)
	for _, most := range []int{1024, 1025, 1026, 1027, 1030, 4099, 65536, 1 << 20} {
		a := ask(t, s.tools, "_codex_local_results", args("task_id", "T-1", "max_output_bytes", most))
		o := a.Data["output"].(map[string]any)
		stdout, cut := o["stdout"].(string), o["truncated"].(bool)
		if !utf8.ValidString(stdout) || strings.ContainsRune(stdout, utf8.RuneError) {
			t.Errorf("%d: a character was cut", most)
		}
		if o["stderr"] != "x\uFFFDy" {
			t.Errorf("%d: stderr %q", most, o["stderr"])
		}
		if want := len(text) > most/2; cut != want {
			t.Errorf("%d: truncated %v", most, cut)
			continue
		} else if !want {
			continue
		}
		head, tail, found := strings.Cut(stdout, "\n... [truncated] ...\n")
		if !found || len(head)+len(tail) > most/2 || len(head)+len(tail) < most/2-8 ||
			!strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Errorf("%d: %d and %d bytes", most, len(head), len(tail))
		}
		if o["original_size"].(float64) != float64(len(text)+4) {
			t.Errorf("%d: original size %v", most, o["original_size"])
		}
	}
}

func TestStreamsThatAreGoneAreAnInternalError(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play(t, "T-1", "hello", 0)
	s.serve(t, func(c *responder.Config) { c.Patience = 100 * time.Millisecond })
	s.Operator.Close()
	for _, tool := range []string{"_codex_local_exec", "_codex_local_results"} {
		a := ask(t, s.tools, tool, args(
			map[string][]any{"_codex_local_exec": {"task", "x"}, "_codex_local_results": {"task_id", "T-1"}}[tool]...))
		if a.Error.Code != "INTERNAL" || !a.Error.Retryable || strings.Contains(string(a.Envelope), "nats") {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
	}
}

// TestAgentCannotBreakOutOfThePage has an agent that prints markdown.
func TestAgentCannotBreakOutOfThePage(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	evil := "```\n# OWNED\n````\n## OWNED\n`````"
	out := []byte(`{"type":"item.completed","item":{"id":"item_0","type":"file_change","changes":[{"path":"a` + "`" + `b\n# OWNED","kind":"add"}],"status":"completed"}}` + "\n")
	text, _ := json.Marshal(evil + " [x](y) <b>")
	out = fmt.Appendf(out, `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":%s}}`+"\n", text)
	out = append(out, `{"type":"turn.failed","error":{"message":"bad\n# OWNED `+"```"+`"}}`+"\n"...)
	s.Begin("codex", "T-1", runs.Start{Source: "run"}).Out(out).Err([]byte(evil + "\x1b[2J")).Exit(1)
	page := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-1","include_events":true}`).Text()
	fence := ""
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		ticks := len(line) - len(strings.TrimLeft(line, "`"))
		switch {
		case fence != "":
			if ticks >= len(fence) && strings.Trim(line, "`") == "" {
				fence = ""
			}
		case ticks >= 3:
			fence = line[:ticks]
		case strings.HasPrefix(line, "#") && strings.Contains(line, "OWNED"):
			t.Errorf("out of the fence: %q", line)
		}
	}
	if fence != "" || strings.Contains(page, "\x1b") {
		t.Errorf("the page does not close its fences, or obeys escapes:\n%s", page)
	}
}

func TestOutputThatIsKeptNoLongerIsNotEmptyOutput(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play(t, "T-1", "http-401", 1)
	raw, err := s.jetstream(t).Stream(t.Context(), s.Operator.Raw())
	if err == nil {
		err = raw.Purge(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	a := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-1"}`)
	o := a.Data["output"].(map[string]any)
	if o["included"] != false || o["reason"] != "The output is no longer kept" || a.Data["state"] != "failed" {
		t.Errorf("%s", a.Envelope)
	}
}
