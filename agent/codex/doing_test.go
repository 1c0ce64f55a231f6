package codex_test

import (
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestDoingOfRecordings(t *testing.T) {
	backendtest.DoingIsGolden(t, codex.Backend{}, "testdata/doing.golden", "../../test/corpus/codex/*.jsonl",
		"../../test/corpus/codex-versions/*/*.jsonl", "../../test/corpus/codex-sessions/*/*.jsonl")
}

func TestDoing(t *testing.T) {
	const begin, end = `{"type":"turn.started"}`, `{"type":"turn.completed"}`
	item := func(step, id, members string) string {
		return `{"type":"item.` + step + `","item":{"id":"` + id + `",` + members + `}}`
	}
	failure := func(message string) string { return `{"type":"error","message":"` + message + `"}` }
	command, message := `"type":"command_execution"`, `"type":"agent_message","text":"x"`
	call := func(name string) string {
		return responseItem(`{"type":"function_call","call_id":"` + name + `","name":"` + name + `"}`)
	}
	answer := func(name string) string {
		return responseItem(`{"type":"function_call_output","call_id":"` + name + `","output":"x"}`)
	}
	turn, over := eventMsg(`{"type":"task_started"}`), eventMsg(`{"type":"task_complete"}`)
	backendtest.Doing(t, codex.Backend{}, []backendtest.Case{
		{"a turn", []string{`{"type":"thread.started","thread_id":"t"}`, begin, item("completed", "m", message), end},
			[]string{"thinking", "-"}},
		{"a turn that failed", []string{begin, `{"type":"turn.failed"}`}, []string{"thinking", "-"}},
		{"a command", []string{begin, item("started", "i", command), item("completed", "i", command), end},
			[]string{"thinking", "running shell", "thinking", "-"}},
		{"other tools", []string{begin, item("started", "i", `"type":"file_change"`), item("completed", "i", `"type":"file_change"`),
			item("started", "j", `"type":"web_search"`), item("completed", "j", `"type":"web_search"`),
			item("started", "k", `"type":"mcp_tool_call","tool":"echo"`), item("failed", "k", `"type":"mcp_tool_call"`)},
			[]string{"thinking", "running apply_patch", "thinking", "running web search", "thinking", "running echo", "thinking"}},
		{"what the model says meanwhile", []string{begin, item("started", "i", command), item("completed", "m", message),
			item("completed", "r", `"type":"reasoning","text":"x"`)}, []string{"thinking", "running shell"}},
		{"a command that outlives its turn", []string{begin, item("started", "i", command), end, begin,
			item("started", "j", `"type":"file_change"`), item("completed", "j", `"type":"file_change"`),
			item("completed", "i", command)},
			[]string{"thinking", "running shell", "-", "thinking", "running apply_patch", "thinking"}},
		{"a sub-agent", []string{begin, item("started", "i", `"type":"collab_tool_call","tool":"spawn_agent"`),
			item("completed", "i", `"type":"collab_tool_call","tool":"spawn_agent"`),
			item("started", "j", `"type":"collab_tool_call","tool":"wait"`),
			item("completed", "j", `"type":"collab_tool_call","tool":"wait"`)},
			[]string{"thinking", "running spawn_agent", "thinking", "waiting-for-agent", "thinking"}},
		{"text in parts", []string{begin, item("updated", "m", message), item("completed", "m", message)},
			[]string{"thinking", "writing", "thinking"}},
		{"retries", []string{begin, failure("Reconnecting... 1/5 (stream disconnected)"), failure("Reconnecting... 2/5"),
			item("completed", "m", message)}, []string{"thinking", "retrying 1/5", "retrying 2/5", "thinking"}},
		{"retries of old versions", []string{begin, failure("stream error: x; retrying 1/5 in 204ms…"),
			failure("stream error: x; retrying 2/5 in 1.204s…")},
			[]string{"thinking", "retrying 1/5 +204", "retrying 2/5 +1204"}},
		{"a rate limit", []string{begin, failure("Reconnecting... 1/2 (exceeded retry limit, last status: 429 Too Many Requests)")},
			[]string{"thinking", "rate-limited 1/2"}},
		{"errors that are not retried", []string{begin, failure("Reconnecting... x/5"), failure("Reconnecting... 1"),
			failure("Reconnecting... 12345678/5"), failure("No."), item("completed", "e", `"type":"error","message":"Reconnecting... 1/5"`)},
			[]string{"thinking"}},
		{"a session log", []string{turn, call("exec_command"), answer("exec_command"), over}, []string{"thinking", "running shell", "thinking", "-"}},
		{"its other tools", []string{turn, call("wait_agent"), answer("wait_agent"), call("request_user_input"),
			answer("request_user_input"), call("echo")},
			[]string{"thinking", "waiting-for-agent", "thinking", "waiting-for-answer", "thinking", "running echo"}},
		{"a log without turns", []string{call("exec_command"), answer("exec_command")}, []string{"running shell", "-"}},
		{"retries in a log", []string{turn, eventMsg(`{"type":"stream_error","message":"Reconnecting... 1/5"}`)},
			[]string{"thinking", "retrying 1/5"}},
		{"lines that do not tell", []string{`{"type":"SECRET"}`, "{", item("completed", "t", `"type":"todo_list","items":[]`)}, nil},
	})
}

func TestTitleAndModelOfASession(t *testing.T) {
	context := responseItem(`{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>SECRET"}]}`)
	prompt := func(text string) string {
		return eventMsg(`{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"` + text + `"}]}}`)
	}
	named := eventMsg(`{"type":"thread_name_updated","thread_name":"A name"}`)
	model := rolloutLine("turn_context", `{"model":"gpt-5.5"}`)
	for _, c := range []struct{ why, lines, title, model string }{
		{"a prompt", context + "\n" + prompt(`Fix it.\nNow.`) + "\n" + prompt("More."), "Fix it.", ""},
		{"a prompt up to 0.140", context + "\n" + eventMsg(`{"type":"user_message","message":"Fix it."}`), "Fix it.", ""},
		{"a name", prompt("Fix it.") + "\n" + named + "\n" + model, "A name", "gpt-5.5"},
		{"no prompt", context, "", ""},
	} {
		_, record := backendtest.DoingOf(codex.Backend{}, []byte(c.lines+"\n"))
		if record.Title != c.title || record.Model != c.model {
			t.Errorf("%s: title %q, model %q, want %q, %q", c.why, record.Title, record.Model, c.title, c.model)
		}
	}
}
