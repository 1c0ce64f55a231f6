package claude_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

var backend = claude.Backend{}

const (
	unknown = backendtest.Unknown
	hello   = `{"type":"text","text":"hello"}`
	bash    = `{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"SECRET"}}`
	result  = `{"type":"tool_result","tool_use_id":"t1","content":"abc"}`
	start   = `{"type":"system","subtype":"init","model":"SECRET"}`
	success = `{"type":"result","subtype":"success","is_error":false,"result":"done"}`
)

// The lines of an assistant and of a user, with the given blocks.
func assistant(blocks ...string) string { return message("assistant", list(blocks)) }
func user(blocks ...string) string      { return message("user", list(blocks)) }

func list(blocks []string) string { return "[" + strings.Join(blocks, ",") + "]" }

func message(role, content string) string {
	return `{"type":"` + role + `","message":{"role":"` + role + `","content":` + content + `}}`
}

// with returns a line with more members, at its end.
func with(line, members string) string { return line[:len(line)-1] + "," + members + "}" }

func status(message string) string            { return backendtest.Status(message, "") }
func statusData(message, data string) string  { return backendtest.Status(message, data) }
func failure(message string) string           { return backendtest.Failure(message, "") }
func failureData(message, data string) string { return backendtest.Failure(message, data) }
func text(channel, text string) string        { return backendtest.Text(channel, text) }
func invalid(line string) string              { return backendtest.Fault(backend, "parse", "invalid payload", line) }
func feed(t *testing.T, lines ...string) []normalizer.Message {
	return backendtest.Feed(t, backend, lines...)
}

func call(members ...string) string {
	return backendtest.Tool("ToolCall", append(members, `"kind":"tool_use","phase":"start","status":"running"`)...)
}

func done(members ...string) string {
	return backendtest.Tool("ToolResult",
		append(members, `"kind":"tool_result","phase":"complete","status":"completed"`)...)
}

func broken(members ...string) string {
	return backendtest.Tool("ToolResult", append(members, `"kind":"tool_result","phase":"fail","status":"failed"`)...)
}

// usage returns the data of a result. Cost is empty or JSON.
func usage(counters, cost string) string {
	if cost != "" {
		cost = `,"total_cost_usd":` + cost
	}
	return `{"schema":"backend.claude_code.usage.v1","usage":{` + counters + `}` + cost + `}`
}

func TestFaults(t *testing.T) {
	backendtest.Faults(t, backend, assistant(hello), text("assistant", "hello"))
}

func TestSystemLines(t *testing.T) {
	for _, subtype := range []string{"init", "status", "thinking_tokens", "api_retry", "task_started",
		"task_progress", "task_updated", "task_notification", "background_tasks_changed", "permission_denied",
		"compact_boundary", "hook_started", "hook_progress", "hook_response", "session_state_changed",
		"files_persisted", "local_command_output", "elicitation_complete"} {
		backendtest.Expect(t, "claude_code", feed(t, `{"type":"system","subtype":"`+subtype+`","error":"SECRET",`+
			`"description":"SECRET","status":"SECRET","message":{"content":[{"type":"text","text":"SECRET"}]}}`),
			status("system "+subtype))
	}
	for _, subtype := range []string{`"SECRET"`, `""`, `"Init"`, `" init"`, `"init "`, `7`, `null`, `["init"]`} {
		backendtest.Expect(t, "claude_code", feed(t, `{"type":"system","subtype":`+subtype+`}`), unknown)
	}
	backendtest.Map(t, backend, []backendtest.Case{
		{Why: "no subtype", Lines: []string{`{"type":"system"}`}, Want: []string{unknown}},
		{Why: "the first subtype counts", Lines: []string{`{"type":"system","subtype":"x","subtype":"init"}`,
			`{"type":"system","subtype":7,"subtype":"init"}`, `{"type":"system","subtype":"init","subtype":"x"}`},
			Want: []string{unknown, unknown, status("system init")}},
		{Why: "escaped", Lines: []string{`{"\u0074ype":"sys\u0074em","subt\u0079pe":"in\u0069t"}`},
			Want: []string{status("system init")}},
	})
}

func TestOtherLines(t *testing.T) {
	for _, kind := range []string{"rate_limit_event", "tool_progress", "auth_status", "tool_use_summary",
		"prompt_suggestion"} {
		backendtest.Expect(t, "claude_code", feed(t, `{"type":"`+kind+`","subtype":"SECRET","message":"SECRET"}`),
			status(kind))
	}
	for _, kind := range []string{"SECRET", "text", "tool_use", "tool_result", "Assistant", "error", "init"} {
		backendtest.Expect(t, "claude_code", feed(t,
			`{"type":"`+kind+`","message":{"content":[{"type":"text","text":"SECRET"}]}}`), unknown)
	}
}

func TestMessages(t *testing.T) {
	type lines = []string
	type events = []string
	badText, badThinking := assistant(`{"type":"text","text":7}`), assistant(`{"type":"thinking"}`)
	mixed := assistant(hello, `{"type":"text","text":["SECRET"]}`, bash)
	apiError := `"is_api_error_message":true`
	backendtest.Map(t, backend, []backendtest.Case{
		// Content.
		{"one event per block, in order", lines{assistant(hello, bash, `{"type":"thinking","thinking":"hm"}`,
			`{"type":"SECRET"}`, `{"type":"text","text":""}`)}, events{text("assistant", "hello"),
			call(`"tool_name":"Bash","tool_use_id":"t1"`), text("reasoning", "hm"), unknown, text("assistant", "")}},
		{"a string is a text", lines{message("assistant", `"hello"`), message("user", `"SECRET"`)},
			events{text("assistant", "hello"), status("user message")}},
		{"an empty string is a text", lines{message("assistant", `""`)}, events{text("assistant", "")}},
		{"an empty list", lines{assistant(), user()}, events{unknown, unknown}},
		{"no list", lines{message("assistant", `7`), message("assistant", `null`), message("user", `{"a":1}`),
			message("user", `true`)}, events{unknown, unknown, unknown, unknown}},
		{"no content", lines{`{"type":"assistant","message":{"text":"SECRET"}}`, `{"type":"user","message":{}}`},
			events{unknown, unknown}},
		{"no message", lines{`{"type":"assistant"}`, `{"type":"user","content":[` + hello + `]}`},
			events{unknown, unknown}},
		{"a message that is no object", lines{`{"type":"assistant","message":"SECRET"}`,
			`{"type":"user","message":[{"type":"text"}]}`, `{"type":"user","message":null}`},
			events{unknown, unknown, unknown}},
		{"the first message and content count", lines{
			`{"type":"assistant","message":{"content":[` + hello + `],"content":"SECRET"},"message":{"content":"SECRET"}}`,
			`{"type":"assistant","message":7,"message":{"content":"SECRET"}}`,
			`{"type":"assistant","message":{"content":7,"content":"SECRET"}}`},
			events{text("assistant", "hello"), unknown, unknown}},
		{"the type of the line need not be its first key", lines{`{"message":{"content":[` + hello +
			`]},"type":"assistant"}`}, events{text("assistant", "hello")}},
		{"the role in the message does not matter", lines{`{"type":"assistant","message":{"role":"user","content":[` +
			hello + `]}}`}, events{text("assistant", "hello")}},

		// Texts.
		{"a text is copied as it is", lines{assistant(`{"text":" \u0000\ud83d\ude80\n\"\\ ","type":"text"}`)},
			events{text("assistant", " \x00🚀\n\"\\ ")}},
		{"lone surrogates", lines{assistant(`{"type":"text","text":"a\ud83db\ude80"}`)},
			events{text("assistant", "a\ufffdb\ufffd")}},
		{"the first text counts", lines{assistant(`{"type":"text","text":"a","text":"SECRET"}`)},
			events{text("assistant", "a")}},
		{"the first type of a block counts", lines{assistant(`{"type":"text","type":"thinking","text":"a"}`)},
			events{text("assistant", "a")}},
		{"a text that is no string", lines{badText}, events{invalid(badText)}},
		{"a text that is missing", lines{assistant(`{"type":"text"}`)},
			events{invalid(assistant(`{"type":"text"}`))}},
		{"a text that is null", lines{assistant(`{"type":"text","text":null}`)},
			events{invalid(assistant(`{"type":"text","text":null}`))}},
		{"the first text is no string", lines{assistant(`{"type":"text","text":7,"text":"SECRET"}`)},
			events{invalid(assistant(`{"type":"text","text":7,"text":"SECRET"}`))}},
		{"a thinking that is missing", lines{badThinking}, events{invalid(badThinking)}},
		{"a thinking whose text is elsewhere", lines{assistant(`{"type":"thinking","text":"SECRET"}`)},
			events{invalid(assistant(`{"type":"thinking","text":"SECRET"}`))}},
		{"one bad text among good blocks", lines{mixed}, events{invalid(mixed)}},
		{"thinking without its signature", lines{assistant(`{"type":"thinking","thinking":"","signature":"SECRET"}`)},
			events{text("reasoning", "")}},

		// Errors of the API.
		{"an error of the API", lines{with(assistant(hello), apiError)}, events{failure("hello")}},
		{"a blank one", lines{with(assistant(`{"type":"text","text":" "}`), apiError),
			with(assistant(`{"type":"text","text":""}`), apiError)}, events{failure(" "), failure("")}},
		{"one whose text is no string", lines{with(badText, apiError)}, events{invalid(with(badText, apiError))}},
		{"one of a string", lines{with(message("assistant", `"hello"`), apiError)}, events{failure("hello")}},
		{"one of older versions", lines{with(assistant(hello), `"error":"SECRET"`)}, events{failure("hello")}},
		{"no error: blank", lines{with(assistant(hello), `"error":" \t"`), with(assistant(hello), `"error":""`)},
			events{text("assistant", "hello"), text("assistant", "hello")}},
		{"no error: of another type", lines{with(assistant(hello), `"is_api_error_message":"true"`),
			with(assistant(hello), `"is_api_error_message":false`), with(assistant(hello), `"is_api_error_message":1`),
			with(assistant(hello), `"error":{"a":1}`), with(assistant(hello), `"error":true`),
			with(assistant(hello), `"error":null`)}, events{text("assistant", "hello"), text("assistant", "hello"),
			text("assistant", "hello"), text("assistant", "hello"), text("assistant", "hello"),
			text("assistant", "hello")}},
		{"the first of both keys counts", lines{with(assistant(hello), `"is_api_error_message":false,`+apiError),
			with(assistant(hello), `"error":"","error":"x"`)},
			events{text("assistant", "hello"), text("assistant", "hello")}},
		{"either field is enough", lines{with(assistant(hello), `"is_api_error_message":false,"error":"SECRET"`),
			with(assistant(hello), apiError+`,"error":null`)}, events{failure("hello"), failure("hello")}},
		{"other blocks of such a line", lines{with(assistant(bash, `{"type":"thinking","thinking":"hm"}`), apiError)},
			events{call(`"tool_name":"Bash","tool_use_id":"t1"`), text("reasoning", "hm")}},
		{"a long one is truncated", lines{with(assistant(`{"type":"text","text":"`+strings.Repeat("w", 4080)+`中`+
			strings.Repeat("w", 99)+`"}`), apiError)}, events{failure(strings.Repeat("w", 4080) + bounds.Suffix)}},
		{"a user's line has no such error", lines{with(user(hello), apiError)}, events{status("user message")}},

		// Sub-agents.
		{"a sub-agent", lines{with(assistant(hello, `{"type":"thinking","thinking":"hm"}`, bash),
			`"parent_tool_use_id":"p"`)}, events{text("subagent", "hello"), text("subagent", "hm"),
			call(`"tool_name":"Bash","tool_use_id":"t1"`)}},
		{"a string of a sub-agent", lines{with(message("assistant", `"hello"`), `"parent_tool_use_id":"p"`)},
			events{text("subagent", "hello")}},
		{"an error of a sub-agent", lines{with(assistant(hello), apiError+`,"parent_tool_use_id":"p"`)},
			events{failure("hello")}},
		{"results and prompts of a sub-agent", lines{with(user(result, hello), `"parent_tool_use_id":"p"`)},
			events{done(`"tool_use_id":"t1","bytes":{"result":3}`), status("user message")}},
		{"no sub-agent", lines{with(assistant(hello), `"parent_tool_use_id":null`),
			with(assistant(hello), `"parent_tool_use_id":" "`), with(assistant(hello), `"parent_tool_use_id":7`),
			with(assistant(hello), `"parent_tool_use_id":null,"parent_tool_use_id":"p"`)},
			events{text("assistant", "hello"), text("assistant", "hello"), text("assistant", "hello"),
				text("assistant", "hello")}},
		{"the parent before the message", lines{`{"parent_tool_use_id":"p","type":"assistant","message":{"content":[` +
			hello + `]}}`}, events{text("subagent", "hello")}},

		// Blocks of users, and other blocks.
		{"a user's text is never copied", lines{user(`{"type":"text","text":"SECRET"}`, `{"type":"text"}`)},
			events{status("user message"), status("user message")}},
		{"a synthetic one, a replay", lines{with(user(hello), `"isSynthetic":true`), with(user(hello),
			`"isReplay":true`)}, events{status("user message"), status("user message")}},
		{"blocks of the other role", lines{user(bash, `{"type":"thinking","thinking":"SECRET"}`), assistant(result)},
			events{unknown, unknown, unknown}},
		{"unknown blocks", lines{assistant(`{"type":"SECRET","text":"SECRET"}`, `{"type":"Text","text":"SECRET"}`,
			`{"type":7,"text":"SECRET"}`, `{"text":"SECRET"}`, `{}`), user(`{"type":"image","source":"SECRET"}`)},
			events{unknown, unknown, unknown, unknown, unknown, unknown}},
		{"blocks that are no objects", lines{assistant(`"SECRET"`, `7`, `null`, `[{"type":"text","text":"SECRET"}]`),
			user(`true`)}, events{unknown, unknown, unknown, unknown, unknown}},
	})
}

func TestStreamEventsGiveNothing(t *testing.T) {
	lines := []string{`{"type":"stream_event"}`, `{"type":"stream_event","event":7}`,
		`{"type":"stream_event","event":{"type":"content_block_delta","delta":{"type":"text_delta","text":"SECRET"}}}`,
		`{"type":"stream_event","event":{"type":"error","error":{"message":"SECRET"}},"message":{"content":[]}}`,
		`{"type":"stream_event","event":{"type":"content_block_start","content_block":` + bash + `}}`}
	backendtest.Expect(t, "claude_code", feed(t, lines...))
	backendtest.Expect(t, "claude_code", feed(t, append(lines, with(lines[2], `"session_id":"s"`),
		with(lines[2], `"session_id":"s"`))...), backendtest.ExtraHandle("s"))
	// Their calls are not remembered.
	backendtest.Expect(t, "claude_code", feed(t, lines[4], user(result)), done(`"tool_use_id":"t1","bytes":{"result":3}`))
}

func TestSessions(t *testing.T) {
	backendtest.Sessions(t, backend, func(id string) string { return with(start, `"session_id":`+id) }, "system init")
	type lines = []string
	type events = []string
	session, extra := `"session_id":"s"`, backendtest.ExtraHandle("s")
	bad := with(assistant(`{"type":"text"}`), `"session_id":"SECRET"`)
	both := usage(`"input_tokens":1`, "")
	backendtest.Map(t, backend, []backendtest.Case{
		{"behind a text", lines{with(assistant(hello, hello), session), with(start, session)},
			events{text("assistant", "hello"), text("assistant", "hello"), extra, status("system init")}},
		{"on the first status of a line", lines{with(user(result, hello, hello), session)},
			events{done(`"thread_id":"s","tool_use_id":"t1","bytes":{"result":3}`),
				statusData("user message", backendtest.Handle("s")), status("user message")}},
		{"of an unknown line", lines{`{"type":"x","session_id":"s"}`, with(start, session)},
			events{unknown, extra, status("system init")}},
		{"of an unknown subtype", lines{`{"type":"system","subtype":"x","session_id":"s"}`}, events{unknown, extra}},
		{"of a message without content", lines{`{"type":"user","session_id":"s"}`}, events{unknown, extra}},
		{"of a result without usage", lines{with(success, session)},
			events{statusData("result success", backendtest.Handle("s"))}},
		{"of a result with usage", lines{with(success, `"usage":{"input_tokens":1},`+session)},
			events{statusData("result success", both), extra}},
		{"of a failed result", lines{`{"type":"result","subtype":"error_during_execution","session_id":"s"}`},
			events{failure("result error"), extra}},
		{"of an error of the API", lines{with(assistant(hello), `"is_api_error_message":true,`+session)},
			events{failure("hello"), extra}},
		{"of a tool progress", lines{`{"type":"tool_progress","session_id":"s"}`},
			events{statusData("tool_progress", backendtest.Handle("s"))}},
		{"none of a fault", lines{bad, with(start, session)},
			events{invalid(bad), statusData("system init", backendtest.Handle("s"))}},
		{"the first of two keys", lines{with(start, `"session_id":7,"session_id":"SECRET"`), with(start,
			`"session_id":"s","session_id":"SECRET"`)},
			events{status("system init"), statusData("system init", backendtest.Handle("s"))}},
		{"the name is exact", lines{with(start, `"sessionId":"SECRET","sessionID":"SECRET","thread_id":"SECRET"`)},
			events{status("system init")}},
	})
}

func TestCallsAndResults(t *testing.T) {
	type lines = []string
	type events = []string
	id := `"tool_use_id":"t1"`
	named := func(members ...string) string { return done(append(members, id, `"tool_name":"Bash"`)...) }
	of := func(members string) string { return `{"type":"tool_result","tool_use_id":"t1",` + members + `}` }
	sizes := func(n int) string { return fmt.Sprintf(`"bytes":{"result":%d}`, n) }
	output := func(line, stdout string) string { return with(line, `"tool_use_result":`+stdout) }
	backendtest.Map(t, backend, []backendtest.Case{
		// Ids and names.
		{"all ids", lines{with(assistant(bash), `"uuid":"u1","session_id":"s"`), with(start, `"session_id":"s"`),
			with(assistant(bash), `"uuid":" u2 ","session_id":" r "`), with(user(result), `"uuid":"u3"`)},
			events{call(`"tool_name":"Bash","backend_item_id":"u1","thread_id":"s"`, id), backendtest.ExtraHandle("s"),
				status("system init"),
				call(`"tool_name":"Bash","backend_item_id":"u2","thread_id":"r","turn_id":"synthetic-turn-1"`, id),
				named(`"backend_item_id":"u3","thread_id":"r","turn_id":"synthetic-turn-1"`, sizes(3))}},
		{"ids are trimmed", lines{assistant(`{"type":"tool_use","id":"\u00a0t1\n","name":" Bash "}`),
			user(`{"type":"tool_result","tool_use_id":" t1 "}`)}, events{call(id, `"tool_name":"Bash"`), named()}},
		{"blank ids", lines{with(assistant(`{"type":"tool_use","id":" ","name":"\t"}`), `"uuid":"","session_id":" "`),
			with(user(`{"type":"tool_result","tool_use_id":""}`), `"uuid":" "`)}, events{call(), done()}},
		{"ids that are no strings", lines{with(assistant(`{"type":"tool_use","id":7,"name":["SECRET"]}`),
			`"uuid":7,"session_id":{"a":"SECRET"}`), user(`{"type":"tool_result","tool_use_id":{"a":"SECRET"}}`)},
			events{call(), done()}},
		{"no ids", lines{assistant(`{"type":"tool_use"}`), user(`{"type":"tool_result"}`)}, events{call(), done()}},
		{"the first of two keys", lines{with(assistant(`{"type":"tool_use","id":"t1","id":"x","name":"Bash","name":"x"}`),
			`"uuid":"u","uuid":"x"`), user(`{"type":"tool_result","tool_use_id":7,"tool_use_id":"t1"}`)},
			events{call(id, `"tool_name":"Bash","backend_item_id":"u"`), done()}},
		{"the thread is the last that a line had", lines{`{"type":"x","session_id":"s"}`,
			`{"type":"stream_event","session_id":"r"}`, with(assistant(`{"type":"text"}`), `"session_id":"SECRET"`),
			assistant(bash)}, events{unknown, backendtest.ExtraHandle("s"), invalid(with(assistant(`{"type":"text"}`),
			`"session_id":"SECRET"`)), call(`"tool_name":"Bash","thread_id":"r"`, id)}},
		{"turns are counted, and a result does not end one", lines{start, success, assistant(bash), start, start,
			`{"type":"system","subtype":"compact_boundary"}`, `{"type":"system","subtype":"Init"}`, user(result)},
			events{status("system init"), status("result success"),
				call(`"tool_name":"Bash","turn_id":"synthetic-turn-1"`, id), status("system init"), status("system init"),
				status("system compact_boundary"), unknown, named(`"turn_id":"synthetic-turn-3"`, sizes(3))}},

		// Names of results.
		{"the first result takes the name", lines{assistant(bash), user(result, result), user(result)},
			events{call(id, `"tool_name":"Bash"`), named(sizes(3)), done(id, sizes(3)), done(id, sizes(3))}},
		{"a result without a call, and a call behind it", lines{user(result), assistant(bash), user(result)},
			events{done(id, sizes(3)), call(id, `"tool_name":"Bash"`), named(sizes(3))}},
		{"the newest call with an id counts", lines{assistant(bash, `{"type":"tool_use","id":"t1","name":"Read"}`),
			user(result, result)}, events{call(id, `"tool_name":"Bash"`), call(id, `"tool_name":"Read"`),
			done(id, `"tool_name":"Read"`, sizes(3)), done(id, sizes(3))}},
		{"a call in a fault is not remembered", lines{assistant(bash, `{"type":"text"}`), user(result)},
			events{invalid(assistant(bash, `{"type":"text"}`)), done(id, sizes(3))}},
		{"a call of a sub-agent is remembered", lines{with(assistant(bash), `"parent_tool_use_id":"p"`), user(result)},
			events{call(id, `"tool_name":"Bash"`), named(sizes(3))}},
		{"init and result forget no names", lines{assistant(bash), success, start, user(result)},
			events{call(id, `"tool_name":"Bash"`), status("result success"), status("system init"),
				named(`"turn_id":"synthetic-turn-1"`, sizes(3))}},
		{"a block of the other role takes no name", lines{assistant(bash, result), user(result)},
			events{call(id, `"tool_name":"Bash"`), unknown, named(sizes(3))}},

		// Outcomes.
		{"failed", lines{user(of(`"is_error":true`))}, events{broken(id)}},
		{"not failed", lines{user(of(`"is_error":false`), of(`"is_error":"true"`), of(`"is_error":1`),
			of(`"is_error":null`), of(`"is_error":false,"is_error":true`))},
			events{done(id), done(id), done(id), done(id), done(id)}},
		{"an exit code in a text is not parsed", lines{user(of(`"content":"Exit code 3\nx","is_error":true`))},
			events{broken(id, sizes(13))}},
		{"no exit code", lines{with(user(of(`"exit_code":3`)), `"tool_use_result":{"exit_code":3,"exitCode":3}`)},
			events{done(id)}},

		// Sizes.
		{"a string is counted decoded", lines{user(of(`"content":"h\u00e9\ud83d\ude80\n\u0000"`), of(`"content":""`))},
			events{done(id, sizes(9)), done(id)}},
		{"text blocks are added up", lines{user(of(`"content":[{"type":"text","text":"\u00e9"},{"type":"image",` +
			`"source":{"data":"SECRET"},"text":"SECRET"},{"text":"ab","type":"text"},{"type":"text","text":7},` +
			`{"text":"SECRET"},"SECRET",7,{"type":"text"}]`))}, events{done(id, sizes(4))}},
		{"anything else counts 0", lines{user(of(`"content":{"type":"text","text":"x"}`), of(`"content":null`),
			of(`"content":7`), of(`"content":[]`), of(`"text":"x","output":"x"`))},
			events{done(id), done(id), done(id), done(id), done(id)}},
		{"the first content counts", lines{user(of(`"content":7,"content":"abc"`),
			of(`"content":"ab","content":[{"type":"text","text":"abc"}]`))}, events{done(id), done(id, sizes(2))}},
		{"stdout and stderr", lines{output(user(result), `{"stdout":"h\u00e9","stderr":"\u0000","content":"x"}`)},
			events{done(id, `"bytes":{"result":3,"stdout":3,"stderr":1}`)}},
		{"stdout and stderr that are no strings", lines{output(user(result), `{"stdout":7,"stderr":["SECRET"]}`)},
			events{done(id, sizes(3))}},
		{"a result that is no object", lines{output(user(result), `"Error: SECRET"`),
			output(user(result), `[{"stdout":"x"}]`), output(user(result), `null`)},
			events{done(id, sizes(3)), done(id, sizes(3)), done(id, sizes(3))}},
		{"stdout of a line with two results", lines{output(user(result, result), `{"stdout":"x","stderr":"y"}`)},
			events{done(id, sizes(3)), done(id, sizes(3))}},
		{"stdout of a line with one result and a text", lines{output(user(hello, result), `{"stdout":"x"}`)},
			events{status("user message"), done(id, `"bytes":{"result":3,"stdout":1}`)}},
		{"stdout before the message", lines{`{"tool_use_result":{"stdout":"x"},` + user(result)[1:]},
			events{done(id, `"bytes":{"result":3,"stdout":1}`)}},
		{"the first stdout counts", lines{output(user(result), `{"stdout":7,"stdout":"x"}`), output(user(result),
			`{"stderr":"x"},"tool_use_result":{"stdout":"y"}`)},
			events{done(id, sizes(3)), done(id, `"bytes":{"result":3,"stderr":1}`)}},
		{"a call has no sizes", lines{with(assistant(`{"type":"tool_use","id":"t1","content":"x","input":{"a":1}}`),
			`"tool_use_result":{"stdout":"x"}`)}, events{call(id)}},
	})
}

// The names of the 64 newest calls are remembered.
func TestRememberedNames(t *testing.T) {
	use := func(id, name string) string {
		return assistant(`{"type":"tool_use","id":"` + id + `","name":"` + name + `"}`)
	}
	end := func(id string) string { return user(`{"type":"tool_result","tool_use_id":"` + id + `"}`) }
	name := func(lines ...string) string {
		got := feed(t, lines...)
		_, rest, _ := strings.Cut(string(got[len(got)-1].Body), `"tool_name":`)
		name, _, _ := strings.Cut(rest, ",")
		return name
	}
	many := func(n int) (calls []string) {
		for i := range n {
			calls = append(calls, use("c"+strconv.Itoa(i), "n"+strconv.Itoa(i)))
		}
		return calls
	}
	fits, long := strings.Repeat("é", 128), strings.Repeat("é", 128)+"x"
	for _, c := range []struct {
		why   string
		lines []string
		want  string
	}{
		{"the oldest of 64", append(many(64), end("c0")), `"n0"`},
		{"the oldest of 65", append(many(65), end("c0")), `null`},
		{"the second of 65", append(many(65), end("c1")), `"n1"`},
		{"the newest of 65", append(many(65), end("c64")), `"n64"`},
		{"a place is free again", append(append(many(64), end("c9"), use("x", "y")), end("c0")), `"n0"`},
		{"a call again is the newest", append(append(many(64), use("c0", "again"), use("x", "y")), end("c0")), `"again"`},
		{"and the next one is the oldest", append(append(many(64), use("c0", "z"), use("x", "y")), end("c1")), `null`},
		{"a call again needs no second place", append(append(many(64), use("c9", "z")), end("c0")), `"n0"`},
		{"256 bytes", []string{use(fits, fits), end(fits)}, `"` + fits + `"`},
		{"256 bytes, trimmed", []string{use("  "+fits, " "+fits), end(fits + " ")}, `"` + fits + `"`},
		{"an id of 257 bytes", []string{use(long, "n"), end(long)}, `null`},
		{"a name of 257 bytes", []string{use("c", long), end("c")}, `null`},
		{"bytes are decoded", []string{use(strings.Repeat(`\u0001`, 256), "n"), end(strings.Repeat(`\u0001`, 256))},
			`"n"`},
		{"an id that is escaped in another way", []string{use("c", "n"), end(`\u0063`)}, `"n"`},
	} {
		if got := name(c.lines...); got != c.want {
			t.Errorf("%s: the name is %s, want %s", c.why, got, c.want)
		}
	}
}

func TestResults(t *testing.T) {
	type lines = []string
	type events = []string
	fail := func(members string) string {
		return `{"type":"result","subtype":"error_max_turns","is_error":true` + members + `}`
	}
	counted := usage(`"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3,"cache_creation_input_tokens":4`,
		"0.5")
	counts := `"usage":{"cache_creation_input_tokens":4,"input_tokens":1,"server_tool_use":{"input_tokens":9},` +
		`"service_tier":"SECRET","cache_read_input_tokens":3,"total_tokens":9,"output_tokens":2},"total_cost_usd":0.5`
	backendtest.Map(t, backend, []backendtest.Case{
		{"success", lines{success}, events{status("result success")}},
		{"success with usage", lines{with(success, counts+`,"modelUsage":{"SECRET":{"inputTokens":9}},"num_turns":9`)},
			events{statusData("result success", counted)}},
		{"is_error is not true", lines{`{"type":"result","subtype":"success"}`,
			`{"type":"result","subtype":"success","is_error":"true"}`, `{"type":"result","subtype":"success","is_error":1}`,
			`{"type":"result","subtype":"success","is_error":null}`,
			`{"type":"result","subtype":"success","is_error":false,"is_error":true}`},
			events{status("result success"), status("result success"), status("result success"),
				status("result success"), status("result success")}},
		{"success that is an error", lines{`{"type":"result","subtype":"success","is_error":true,"result":"API Error"}`},
			events{failure("API Error")}},
		{"another subtype, without is_error", lines{`{"type":"result","subtype":"error_max_turns"}`,
			`{"type":"result","subtype":"Success"}`, `{"type":"result","subtype":"SECRET","is_error":false}`,
			`{"type":"result","subtype":7}`, `{"type":"result"}`, `{"type":"result","subtype":7,"subtype":"success"}`},
			events{failure("result error"), failure("result error"), failure("result error"), failure("result error"),
				failure("result error"), failure("result error")}},
		{"usage of an error", lines{fail(`,"errors":["e"],` + counts)}, events{failureData("e", counted)}},
		{"result goes before errors", lines{fail(`,"errors":["e"],"result":" r "`)}, events{failure(" r ")}},
		{"a result that is blank", lines{fail(`,"errors":["e"],"result":" \n"`), fail(`,"errors":["e"],"result":""`)},
			events{failure("e"), failure("e")}},
		{"a result that is no string", lines{fail(`,"errors":["e"],"result":{"a":"SECRET"}`),
			fail(`,"errors":["e"],"result":7,"result":"SECRET"`)}, events{failure("e"), failure("e")}},
		{"errors are joined", lines{fail(`,"errors":["a"," b ","c"]`)}, events{failure("a\n b \nc")}},
		{"only the strings of errors", lines{fail(`,"errors":[7,"a",{"message":"SECRET"},"b",null,["SECRET"]]`)},
			events{failure("a\nb")}},
		{"no errors", lines{fail(`,"errors":[]`), fail(`,"errors":[7]`), fail(`,"errors":[" "]`), fail(`,"errors":"SECRET"`),
			fail(`,"errors":{"a":"SECRET"}`), fail(`,"error":"SECRET","message":"SECRET"`), fail(`,"errors":7,"errors":["x"]`)},
			events{failure("result error"), failure("result error"), failure("result error"), failure("result error"),
				failure("result error"), failure("result error"), failure("result error")}},
		{"a long message is truncated", lines{fail(`,"errors":["` + strings.Repeat("é", 2048) + `"]`),
			fail(`,"result":"` + strings.Repeat("é", 2049) + `"`)},
			events{failure(strings.Repeat("é", 2048)), failure(strings.Repeat("é", 2041) + bounds.Suffix)}},
		{"type is the last key", lines{`{"result":"x","subtype":"success","usage":{"input_tokens":1},"type":"result"}`},
			events{statusData("result success", usage(`"input_tokens":1`, ""))}},
		{"usage that is no object", lines{with(success, `"usage":[1]`), with(success, `"usage":"SECRET"`),
			with(success, `"usage":null`), with(success, `"usage":7,"usage":{"input_tokens":1}`)},
			events{status("result success"), status("result success"), status("result success"),
				status("result success")}},
		{"the first counter counts", lines{with(success, `"usage":{"input_tokens":1,"input_tokens":2}`), with(success,
			`"usage":{"input_tokens":"x","input_tokens":2,"output_tokens":3}`)},
			events{statusData("result success", usage(`"input_tokens":1`, "")),
				statusData("result success", usage(`"output_tokens":3`, ""))}},
		{"usage of other lines", lines{`{"type":"assistant","message":{"usage":{"input_tokens":1},"content":"a"}}`,
			with(start, `"usage":{"input_tokens":1},"total_cost_usd":1`)},
			events{text("assistant", "a"), status("system init")}},
	})
}

func TestUsage(t *testing.T) {
	for _, counter := range []string{"input_tokens", "output_tokens", "cache_read_input_tokens",
		"cache_creation_input_tokens"} {
		backendtest.Counters(t, backend, func(n string) string {
			return with(success, `"usage":{"`+counter+`":`+n+`}`)
		}, func(n string) string {
			if n == "" {
				return status("result success")
			}
			return statusData("result success", usage(`"`+counter+`":`+n, ""))
		})
	}
	backendtest.Costs(t, backend, func(n string) string {
		return with(success, `"usage":{"input_tokens":1},"total_cost_usd":`+n)
	}, func(n string) string { return statusData("result success", usage(`"input_tokens":1`, n)) })
	got := feed(t, with(success, `"total_cost_usd":0.5`))
	if len(got) != 1 || !strings.Contains(string(got[0].Body), `"total_cost_usd":0.5`) ||
		!strings.Contains(string(got[0].Body), `"backend.claude_code.usage.v1"`) {
		t.Errorf("a cost alone: %s", got[0].Body)
	}
}

func TestFinalText(t *testing.T) {
	type lines = []string
	say := func(text string) string {
		return `{"type":"result","subtype":"success","is_error":false,"result":` + text + `}`
	}
	failed := `{"type":"result","subtype":"error_during_execution","is_error":true,"result":"oops"}`
	long := strings.Repeat("x", bounds.MaxFinalText+1)
	bad := assistant(`{"type":"text"}`)
	backendtest.Finals(t, backend, []backendtest.Final{
		{"no result", lines{assistant(hello)}, `null`},
		{"one result", lines{assistant(hello), say(`"a"`)}, `"a"`},
		{"copied as it is", lines{say(`" a\n"`)}, `" a\n"`},
		{"the last of several", lines{say(`"a"`), start, with(say(`"b"`), `"origin":{"kind":"task-notification"}`)}, `"b"`},
		{"the last one without an origin", lines{with(say(`"a"`), `"origin":{"kind":"human"}`), say(`"b"`)}, `"b"`},
		{"an empty one changes nothing", lines{say(`"a"`), say(`""`)}, `"a"`},
		{"a blank one changes nothing", lines{say(`"a"`), say(`" \t\n"`)}, `"a"`},
		{"one that is no string changes nothing", lines{say(`"a"`), say(`{"a":1}`), say(`null`),
			`{"type":"result","subtype":"success"}`}, `"a"`},
		{"the first key counts", lines{say(`7,"result":"b"`)}, `null`},
		{"only an empty one", lines{say(`""`)}, `null`},
		{"a failed one makes it null", lines{say(`"a"`), failed}, `null`},
		{"success that is an error makes it null", lines{say(`"a"`),
			`{"type":"result","subtype":"success","is_error":true,"result":"b"}`}, `null`},
		{"a success behind a failed one", lines{failed, say(`"a"`)}, `"a"`},
		{"an empty success behind a failed one", lines{say(`"a"`), failed, say(`""`)}, `null`},
		{"texts, init and faults behind it", lines{say(`"a"`), start, assistant(hello), bad, "{oops", `{"type":"x"}`,
			with(assistant(hello), `"is_api_error_message":true`)}, `"a"`},
		{"of a sub-agent's line", lines{with(assistant(hello), `"parent_tool_use_id":"p"`)}, `null`},
		{"a long one", lines{say(`"` + long + `"`)},
			`"` + long[:bounds.MaxFinalText-len(bounds.Suffix)] + bounds.Suffix + `"`},
	})
}

func TestLongTextsAreSplit(t *testing.T) {
	long := strings.Repeat("x", bounds.MaxText-2)
	backendtest.Expect(t, "claude_code", feed(t,
		with(assistant(`{"type":"text","text":"`+long+`🚀end"}`), `"parent_tool_use_id":"p"`),
		assistant(`{"type":"thinking","thinking":"`+long+`yy"}`)),
		text("subagent", long), text("subagent", "🚀end"), text("reasoning", long+"yy"))
}

// A facet with an id that is too long is dropped.
func TestLongIdsInFacets(t *testing.T) {
	const dropped = `{"kind":"ToolCall","channel":"tool","data":` + bounds.Dropped + `}`
	whole := strings.Repeat("i", 60_000)
	oversize := status("session handle id oversize: len_bytes=60000")
	for _, c := range []struct{ lines, want []string }{
		{[]string{with(assistant(`{"type":"tool_use"}`), `"uuid":"`+whole+`"`)},
			[]string{call(`"backend_item_id":"` + whole + `"`)}},
		{[]string{assistant(`{"type":"tool_use","id":"` + whole + whole + `"}`)}, []string{dropped}},
		{[]string{assistant(`{"type":"tool_use","name":"` + whole + whole + `"}`)}, []string{dropped}},
		{[]string{start, with(assistant(`{"type":"tool_use"}`), `"session_id":"`+whole+`"`)}, []string{
			status("system init"), call(`"turn_id":"synthetic-turn-1","thread_id":"` + whole + `"`), oversize}},
		{[]string{with(start, `"session_id":"`+whole+`"`), assistant(`{"type":"tool_use"}`)}, []string{
			status("system init"), oversize, call(`"turn_id":"synthetic-turn-1","thread_id":"` + whole + `"`)}},
		{[]string{with(start, `"session_id":"`+whole+whole+`"`), assistant(`{"type":"tool_use"}`)}, []string{
			status("system init"), status("session handle id oversize: len_bytes=120000"), dropped}},
	} {
		backendtest.Expect(t, "claude_code", feed(t, c.lines...), c.want...)
	}
}

// hostile returns a run with calls whose ids and names have the given lengths, and
// are full of control characters.
func hostile(session string, calls, id, name int) (begin, end []string) {
	begin = []string{with(start, `"session_id":"`+session+`"`)}
	for i := range calls {
		id := fmt.Sprintf("%03d", i) + strings.Repeat(`\u0001`, id-3)
		name := fmt.Sprintf("%03d", i) + strings.Repeat(`\u001f`, name-3)
		uuid := `"uuid":"` + strings.Repeat(`\u0002`, 300) + `"`
		begin = append(begin, with(assistant(`{"type":"tool_use","id":"`+id+`","name":"`+name+`"}`), uuid))
		end = append(end, with(user(`{"type":"tool_result","tool_use_id":"`+id+`"}`), uuid))
	}
	return begin, end
}

func TestSavedAndRestored(t *testing.T) {
	for _, c := range []struct{ calls, id, name, named int }{{100, 300, 20, 0}, {100, 20, 20, 64}, {100, 256, 256, 64}} {
		begin, end := hostile(strings.Repeat(`\u0003`, 300), c.calls, c.id, c.name)
		got := backendtest.Saved(t, backend, append(append(append(begin, success), end...), assistant(hello), start)...)
		named := 0
		for _, m := range got {
			if m.Token == "tool_result" && !strings.Contains(string(m.Body), `"tool_name":null`) {
				named++
			}
		}
		if named != c.named {
			t.Errorf("ids of %d bytes, names of %d: %d results have a name, want %d", c.id, c.name, named, c.named)
		}
	}
	t.Run("long session", func(t *testing.T) {
		for _, session := range []string{strings.Repeat("s", 60_000), strings.Repeat(`\u0001`, 10_000),
			strings.Repeat("s", 70_000), strings.Repeat(`\u0001`, 11_000)} {
			begin, end := hostile(session, 3, 300, 300)
			backendtest.Saved(t, backend, append(begin, end...)...)
		}
	})
}

func TestStateIsSmall(t *testing.T) {
	for _, size := range []int{0, 300, 1024, 8000, 10_000, 20_000, 60_000, 200_000} {
		for _, fill := range []string{"s", `\u0001`, `\"`, `\u2028`, `\ud800`} {
			begin, _ := hostile(strings.Repeat(fill, size), 64, 256, 256)
			backendtest.StateFits(t, backend, begin...)
		}
	}
}
