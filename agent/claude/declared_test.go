package claude_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Types of lines and blocks that the program declares and that are in few recordings.
func TestDeclaredLines(t *testing.T) {
	type lines = []string
	type events = []string
	request := func(what string) string {
		return `{"type":"control_request","request_id":"SECRET","request":{"subtype":"` + what + `","input":{"x":"SECRET"}}}`
	}
	search := `{"type":"server_tool_use","id":"s1","name":"web_search","input":{"query":"SECRET"}}`
	found := `{"type":"web_search_tool_result","tool_use_id":"s1","content":[{"type":"web_search_result","url":"SECRET"}]}`
	refused := `{"type":"web_search_tool_result","tool_use_id":"s1","content":{"type":"web_search_tool_result_error","error_code":"SECRET"}}`
	end := func(kind, phase, status string, more ...string) string {
		return backendtest.Tool("ToolResult", append(more, `"kind":"`+kind+`"`, `"phase":"`+phase+`"`, `"status":"`+status+`"`,
			`"tool_use_id":"s1"`)...)
	}
	begun := backendtest.Tool("ToolCall", `"kind":"server_tool_use","phase":"start","status":"running"`,
		`"tool_name":"web_search","tool_use_id":"s1"`)
	backendtest.Map(t, backend, []backendtest.Case{
		{"requests of a host", lines{request("can_use_tool"), `{"type":"control_response","response":{"x":"SECRET"}}`,
			request("SECRET"), `{"type":"control_cancel_request","request_id":"SECRET"}`, `{"type":"keep_alive"}`},
			events{status("control_request"), status("control_response"), status("control_request"),
				status("control_cancel_request")}},
		{"reasoning that only the provider can read", lines{assistant(`{"type":"redacted_thinking","data":"SECRET"}`)},
			events{status("redacted thinking")}},
		{"tools of the provider", lines{assistant(search, found)},
			events{begun, end("web_search_tool_result", "complete", "completed", `"tool_name":"web_search"`)}},
		{"a tool of the provider that failed", lines{assistant(search), assistant(refused), user(found)},
			events{begun, end("web_search_tool_result", "fail", "failed", `"tool_name":"web_search"`), unknown}},
	})
}

// A result that says success is none if the agent was cut off and said nothing. An error after the
// answer does not take it away.
func TestResultsThatDoNotSayAll(t *testing.T) {
	result := func(members string) string { return `{"type":"result","subtype":"success",` + members + `}` }
	const (
		unfinished = "the agent did not finish its turn"
		cut        = "the answer may lack its end: the agent was interrupted"
	)
	late := `{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"total_cost_usd":0,` +
		`"usage":{"input_tokens":0},"errors":["late"]}`
	for _, c := range []struct {
		why    string
		lines  []string
		events []string
		state  runs.State
		final  string
	}{
		{"a call at the end", []string{result(`"result":"","stop_reason":"tool_use"`)},
			[]string{failure(unfinished)}, runs.StateFailed, ""},
		{"a call at the end, and an answer", []string{result(`"result":"x","stop_reason":"tool_use"`)},
			[]string{status("result success")}, runs.StateCompleted, "x"},
		{"a call that a hook defers", []string{result(`"result":"","stop_reason":"tool_deferred","terminal_reason":` +
			`"tool_deferred","restored_rewind":{"request_id":"SECRET"},"deferred_tool_use":{"id":"t1","name":"Bash","input":"SECRET"}`)},
			[]string{failure(unfinished)}, runs.StateFailed, ""},
		{"a structured answer", []string{result(`"result":"","stop_reason":"tool_use","structured_output":{"SECRET":1}`)},
			[]string{status("result success")}, runs.StateCompleted, ""},
		{"an interrupted answer", []string{result(`"result":"x","terminal_reason":"aborted_streaming"`)},
			[]string{status("result success"), failure(cut)}, runs.StateCompleted, "x"},
		{"interrupted before the answer", []string{result(`"result":" ","terminal_reason":"aborted_streaming"`)},
			[]string{failure(unfinished)}, runs.StateFailed, ""},
		{"a command without an answer", []string{result(`"result":"","stop_reason":"end_turn"`)},
			[]string{status("result success")}, runs.StateCompleted, ""},
		{"an error after the answer", []string{
			result(`"result":"x","num_turns":2,"total_cost_usd":0.5,"usage":{"input_tokens":7}`), late},
			[]string{statusData("result success", usage(`"input_tokens":7`, "0.5")),
				failureData("late", usage(`"input_tokens":0`, "0"))}, runs.StateFailed, "x"},
	} {
		t.Run(c.why, func(t *testing.T) {
			backendtest.Expect(t, "claude_code", feed(t, c.lines...), c.events...)
			out := []byte(start + "\n")
			for _, line := range c.lines {
				out = append(out, line+"\n"...)
			}
			exit := runs.Entry{Kind: runs.Exited, Time: 3_000, Body: []byte(`{"reason":"exited","code":0}`)}
			_, fold := backendtest.Fold(backend, append(backendtest.Output(out), exit))
			r, final := fold.Record, ""
			if r.FinalText != nil {
				final = *r.FinalText
			}
			if r.State != c.state || final != c.final {
				t.Errorf("state %s and final text %q, want %s and %q", r.State, final, c.state, c.final)
			}
			if len(c.lines) == 2 && (r.Cost == nil || *r.Cost != 0.5 || r.Own == nil || r.Own.Input != 7) {
				t.Errorf("cost %v and usage %+v, want those of the answer", r.Cost, r.Own)
			}
		})
	}
}

func TestLinesAboutTheSessionChangeTheRecord(t *testing.T) {
	system := func(members string) string { return `{"type":"system","subtype":` + members + "}\n" }
	begin := `{"type":"system","subtype":"init","model":"one","setting_of_tomorrow":1}` + "\n"
	for _, c := range []struct {
		why, lines, model, title string
	}{
		{"a fallback", system(`"model_fallback","original_model":"one","fallback_model":"two","content":"SECRET"`), "two", ""},
		{"after a refusal", system(`"model_refusal_fallback","direction":"sticky","original_model":"one","fallback_model":"two"`),
			"two", ""},
		{"and back", system(`"model_fallback","fallback_model":"two"`) +
			system(`"model_refusal_fallback","direction":"revert","original_model":"one","fallback_model":"two"`), "one", ""},
		{"of a sub-agent", system(`"model_refusal_fallback","scope":"local","fallback_model":"two"`), "one", ""},
		{"a title", system(`"session_title_changed","title":"Fix the parser"`), "one", "Fix the parser"},
	} {
		_, fold := backendtest.Fold(backend, backendtest.Output([]byte(begin+c.lines)))
		if r := fold.Record; r.Model != c.model || r.Title != c.title {
			t.Errorf("%s: model %q and title %q, want %q and %q", c.why, r.Model, r.Title, c.model, c.title)
		}
		if d := fold.Record.Drift; d == nil || len(d.Things) != 1 || d.Things[0].Name != "init.setting_of_tomorrow" {
			t.Errorf("%s: drift %+v, want the new setting", c.why, d)
		}
	}
}

func TestAQuestionToTheHostIsOpenUntilItHasAnAnswer(t *testing.T) {
	const (
		begin = `{"type":"system","subtype":"init"}`
		use   = `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash"}]}}`
		done  = `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}}`
		ask   = `{"type":"control_request","request":{"subtype":"can_use_tool"}}`
		drop  = `{"type":"control_cancel_request"}`
	)
	state := func(s string) string {
		return `{"type":"system","subtype":"session_state_changed","state":"` + s + `"}`
	}
	backendtest.Doing(t, claude.Backend{}, []backendtest.Case{
		{"answered", []string{begin, use, ask, done}, []string{"thinking", "running Bash", "waiting-for-answer", "thinking"}},
		{"withdrawn", []string{begin, use, ask, drop, done},
			[]string{"thinking", "running Bash", "waiting-for-answer", "running Bash", "thinking"}},
		{"as the agent tells its state", []string{begin, use, state("requires_action"), state("running"), done},
			[]string{"thinking", "running Bash", "waiting-for-answer", "running Bash", "thinking"}},
		{"other requests", []string{begin, `{"type":"control_request","request":{"subtype":"mcp_message"}}`,
			`{"type":"control_request","request":"can_use_tool"}`, state("running"), drop}, []string{"thinking"}},
	})
}

// Qwen Code prints lines under the names of Claude Code, and they say other things.
func TestLinesOfQwenCodeAreNotThoseOfClaudeCode(t *testing.T) {
	qwen := `{"type":"system","subtype":"init","session_id":"s","qwen_code_version":"0.24.4"}`
	lines := []string{qwen, assistant(hello), success}
	messages, fold := backendtest.Fold(backend, backendtest.Output([]byte(strings.Join(lines, "\n")+"\n")))
	if r := fold.Record; len(messages) != 1 || r.Unknown != 3 || r.Drift == nil || r.Drift.Things[0].Name != "qwen" {
		t.Errorf("%d events, record %s; want one notice of drift", len(messages), r.JSON())
	}
	backendtest.Saved(t, backend, lines...)
	table := agent.Table{claude.Agent}
	if a, ok := table.Detect([][]byte{[]byte(qwen), []byte(assistant(hello)), []byte(success)}); ok {
		t.Errorf("its lines are taken for those of %s", a.Name)
	}
}
