package claude_test

import (
	"testing"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestDoingOfRecordings(t *testing.T) {
	backendtest.DoingIsGolden(t, claude.Backend{}, "testdata/doing.golden", "../../test/corpus/claude/*.jsonl",
		"../../test/corpus/claude/*/*.jsonl", "../../test/corpus/claude-sessions/*/*.jsonl",
		"../../test/corpus/claude-sessions/*/*/subagents/*.jsonl")
}

func TestDoing(t *testing.T) {
	const (
		begin  = `{"type":"system","subtype":"init"}`
		end    = `{"type":"result","subtype":"success","result":"x"}`
		inside = `,"parent_tool_use_id":"a"}`
	)
	system := func(members string) string { return `{"type":"system","subtype":` + members + `}` }
	use := func(id, tool string) string {
		return `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"` + id + `","name":"` + tool + `"}]}`
	}
	done := func(id string) string {
		return `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"` + id + `","content":"x"}]}`
	}
	text := `{"type":"assistant","message":{"content":[{"type":"text","text":"x"}]}`
	part := func(event string) string { return `{"type":"stream_event","event":` + event + `}` }
	limits := func(info string) string { return `{"type":"rate_limit_event","rate_limit_info":` + info + `}` }
	prompt := logged(`"type":"user","promptSource":"typed","message":{"role":"user","content":"SECRET"}`)
	ask := reply("m", `"tool_use"`, `{"type":"tool_use","id":"t","name":"AskUserQuestion","input":{}}`)
	answer := logged(`"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}`)
	backendtest.Doing(t, claude.Backend{}, []backendtest.Case{
		{"a turn", []string{begin, text + "}", end}, []string{"thinking", "-"}},
		{"a tool", []string{begin, use("t", "Bash") + "}", done("t") + "}", end},
			[]string{"thinking", "running Bash", "thinking", "-"}},
		{"two tools, the newer one ends first", []string{begin, use("t", "Bash") + "}", use("u", "Read") + "}", done("u") + "}",
			done("t") + "}"}, []string{"thinking", "running Bash", "running Read", "running Bash", "thinking"}},
		{"two tools, the older one ends first", []string{begin, use("t", "Bash") + "}", use("u", "Read") + "}", done("t") + "}",
			done("u") + "}"}, []string{"thinking", "running Bash", "running Read", "thinking"}},
		{"a tool that an earlier turn left open is not run in the next", []string{begin, use("t", "Bash") + "}", end, begin,
			use("u", "Read") + "}", done("u") + "}"},
			[]string{"thinking", "running Bash", "-", "thinking", "running Read", "thinking"}},
		{"a result after the turn", []string{begin, use("t", "Bash") + "}", end, done("t") + "}"},
			[]string{"thinking", "running Bash", "-"}},
		{"a sub-agent, whose tools are not the agent's", []string{begin, use("a", "Task") + "}", use("t", "Bash") + inside,
			done("t") + inside, text + inside, done("a") + "}"}, []string{"thinking", "waiting-for-agent", "thinking"}},
		{"a sub-agent in the background", []string{begin, use("a", "Agent") + "}", done("a") + "}", text + inside,
			use("t", "Bash") + "}", use("u", "Read") + inside, done("u") + inside, done("t") + "}"},
			[]string{"thinking", "waiting-for-agent", "thinking", "waiting-for-agent", "running Bash", "thinking"}},
		{"a question", []string{begin, use("t", "AskUserQuestion") + "}", done("t") + "}"},
			[]string{"thinking", "waiting-for-answer", "thinking"}},
		{"partial messages", []string{begin, part(`{"type":"message_start"}`),
			part(`{"type":"content_block_start","content_block":{"type":"thinking"}}`),
			part(`{"type":"content_block_start","content_block":{"type":"text"}}`),
			part(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"x"}}`), text + "}",
			part(`{"type":"content_block_stop"}`), part(`{}`), part(`7`)}, []string{"thinking", "writing", "thinking"}},
		{"retries", []string{begin, system(`"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":584.5,"error_status":529`),
			system(`"api_retry","attempt":2,"max_retries":10,"retry_delay_ms":40000,"error_status":null`), text + "}"},
			[]string{"thinking", "retrying 1/10 +584", "retrying 2/10 +40000", "thinking"}},
		{"numbers that are none", []string{system(`"api_retry","attempt":"SECRET","max_retries":-1,"retry_delay_ms":1e99`)},
			[]string{"retrying"}},
		{"HTTP 429", []string{system(`"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":1000,"error_status":429`)},
			[]string{"rate-limited 1/10 +1000"}},
		{"limits", []string{limits(`{"status":"allowed_warning","resetsAt":60}`), limits(`{"status":"rejected","resetsAt":60}`)},
			[]string{"rate-limited +57000"}},
		{"limits without a time", []string{limits(`{"status":"rejected","resetsAt":"SECRET"}`), limits(`7`)},
			[]string{"rate-limited"}},
		{"a compaction", []string{begin, system(`"status","status":"compacting"`), system(`"status","status":null`)},
			[]string{"thinking", "compacting", "thinking"}},
		{"its end", []string{system(`"status","status":"compacting"`), system(`"compact_boundary"`)},
			[]string{"compacting", "thinking"}},
		{"a request", []string{system(`"status","status":"requesting"`), system(`"status","status":"SECRET"`)},
			[]string{"thinking"}},
		{"a session log", []string{prompt, ask, answer, reply("n", `"end_turn"`, `{"type":"text","text":"x"}`)},
			[]string{"thinking", "waiting-for-answer", "thinking", "-"}},
		{"an error in it", []string{prompt, logged(`"type":"system","subtype":"api_error","error":{"status":429},` +
			`"retryInMs":589.5,"retryAttempt":1,"maxRetries":3`)}, []string{"thinking", "rate-limited 1/3 +589"}},
		{"lines that do not tell", []string{`{"type":"tool_progress"}`, system(`"hook_started"`), `{"type":"SECRET"}`, "{"}, nil},
	})
}

// The title of a session is its name, else its first prompt.
func TestTitlesOfSessions(t *testing.T) {
	user := func(members, content string) string {
		return logged(`"type":"user",` + members + `"message":{"role":"user","content":"` + content + `"}`)
	}
	ai, custom := `{"type":"ai-title","aiTitle":"By the model","sessionId":"s"}`,
		`{"type":"custom-title","customTitle":"By the user","sessionId":"s"}`
	first := user(`"promptSource":"typed",`, `Fix it.\nNow.`)
	for _, c := range []struct {
		why   string
		lines []string
		want  string
	}{
		{"the first prompt", []string{first, user(`"promptSource":"typed",`, "More.")}, "Fix it."},
		{"a prompt of an old version", []string{user("", "Fix it.")}, "Fix it."},
		{"no prompts", []string{user(`"isMeta":true,`, "x"), user(`"isCompactSummary":true,`, "x"), user("", "<bash-input>x"),
			user(`"promptSource":"system",`, "x"), user("", "[Request interrupted by user]")}, ""},
		{"a name", []string{first, ai}, "By the model"},
		{"another name", []string{ai, first, custom}, "By the user"},
		{"the user's name stays", []string{first, custom, ai}, "By the user"},
		{"a blank name", []string{first, `{"type":"ai-title","aiTitle":" ","sessionId":"s"}`,
			`{"type":"custom-title","customTitle":"","sessionId":"s"}`}, "Fix it."},
	} {
		out := ""
		for _, line := range c.lines {
			out += line + "\n"
		}
		if _, record := backendtest.DoingOf(claude.Backend{}, []byte(out)); record.Title != c.want {
			t.Errorf("%s: %q, want %q", c.why, record.Title, c.want)
		}
	}
}
