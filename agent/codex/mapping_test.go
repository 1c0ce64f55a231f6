package codex_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/bounds"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// feed folds the lines of a run that has not ended.
func feed(lines ...string) ([]normalizer.Message, *normalizer.Fold) {
	return backendtest.Fold(codex.Backend{}, backendtest.Output([]byte(strings.Join(lines, "\n")+"\n")))
}

func status(message string) string {
	return fmt.Sprintf(`{"kind":"Status","channel":"status","message":%q}`, message)
}

func statusData(message, data string) string {
	return fmt.Sprintf(`{"kind":"Status","channel":"status","message":%q,"data":%s}`, message, data)
}

func failure(message string) string {
	return `{"kind":"Error","channel":"error","message":` + string(bounds.AppendString(nil, message)) + `}`
}

func text(channel, text string) string {
	return `{"kind":"TextOutput","channel":"` + channel + `","text":` + string(bounds.AppendString(nil, text)) + `}`
}

func handle(id string) string {
	return `{"schema":"agent_api.session.handle.v1","session":{"id":` + string(bounds.AppendString(nil, id)) + `}}`
}

const unknown = `{"kind":"Unknown"}`

// tool returns a tool event whose facet has the given members. The other members
// have their defaults.
func tool(kind, members string) string {
	facet := map[string]any{
		"backend_item_id": nil, "thread_id": nil, "turn_id": nil, "exit_code": nil,
		"tool_name": nil, "tool_use_id": nil,
		"bytes": map[string]any{"stdout": 0, "stderr": 0, "diff": 0, "result": 0},
	}
	var given map[string]any
	if err := json.Unmarshal([]byte("{"+members+"}"), &given); err != nil {
		panic(members)
	}
	if counts, ok := given["bytes"].(map[string]any); ok {
		maps.Copy(facet["bytes"].(map[string]any), counts)
		delete(given, "bytes")
	}
	maps.Copy(facet, given)
	b, _ := json.Marshal(map[string]any{
		"kind": kind, "channel": "tool", "data": map[string]any{"schema": "agent_api.tools.structured.v1",
			"tool": facet},
	})
	return string(b)
}

func started(members string) string { return tool("ToolCall", `"phase":"start",`+members) }
func updated(members string) string { return tool("ToolCall", `"phase":"delta",`+members) }
func done(members string) string    { return tool("ToolResult", `"phase":"complete",`+members) }
func broken(members string) string {
	return tool("ToolResult", `"phase":"fail","status":"failed",`+members)
}

func parseError(problem string, size int) string {
	return failure(fmt.Sprintf("codex stream parse error (redacted): %s (line_bytes=%d)", problem, size))
}

func normalizeError(problem string, size int) string {
	return failure(fmt.Sprintf("codex stream normalize error (redacted): %s (line_bytes=%d)", problem, size))
}

// The lines of a new run, and all resulting events.
func TestLineBecomes(t *testing.T) {
	type events []string
	for _, c := range []struct {
		why   string
		lines string // separated by newlines
		want  events
	}{
		// Invalid lines.
		{"no JSON", `{oops`, events{parseError("invalid JSON", 5)}},
		{"two values", `{} {}`, events{parseError("invalid JSON", 5)}},
		{"a number out of range", `{"type":"x","n":1e999}`, events{parseError("invalid JSON", 22)}},
		{"no UTF-8", "{\"type\":\"x\xff\"}", events{parseError("invalid UTF-8", 13)}},
		{"neither UTF-8 nor JSON", "{oops\xff", events{parseError("invalid UTF-8", 6)}},
		{"no object", `["type"]`, events{normalizeError("missing type", 8)}},
		{"a string", `"type"`, events{normalizeError("missing type", 6)}},
		{"no type", `{}`, events{normalizeError("missing type", 2)}},
		{"a type that is no string", `{"type":7}`, events{normalizeError("missing type", 10)}},
		{"a type that is null", `{"type":null}`, events{normalizeError("missing type", 13)}},

		// Line endings and blank lines.
		{"a carriage return is not counted", "{oops\r", events{parseError("invalid JSON", 5)}},
		{"only one is removed", "{oops\r\r", events{parseError("invalid JSON", 6)}},
		{"CRLF", "{\"type\":\"turn.failed\"}\r\n{\"type\":\"turn.failed\"}\r",
			events{status("turn failed"), status("turn failed")}},
		{"blanks give nothing", "\n \t\v\f\r\n\u0085\u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\n\r", nil},
		{"no white space: zero width", "\u200b", events{parseError("invalid JSON", 3)}},
		{"a byte order mark is only at the beginning", "\ufeff\n\ufeff", events{parseError("invalid JSON", 3)}},
		{"white space around", " \t{\"type\" : \"turn.failed\"}\t ", events{status("turn failed")}},
		{"other separators do not end a line", "{\"type\":\"error\",\"message\":\"a\u2028b\u0085c\"}",
			events{failure("a\u2028b\u0085c")}},

		// Types.
		{"thread", `{"type":"thread.started","thread_id":"t"}`, events{statusData("thread started", handle("t"))}},
		{"thread resumed", `{"type":"thread.resumed","thread_id":"t"}`,
			events{statusData("thread started", handle("t"))}},
		{"thread id is trimmed", `{"type":"thread.started","thread_id":" \u00a0t\n"}`,
			events{statusData("thread started", handle("t"))}},
		{"conversation id", `{"type":"thread.started","conversation_id":"c","id":"i"}`,
			events{statusData("thread started", handle("c"))}},
		{"id", `{"type":"thread.started","thread_id":" ","conversation_id":7,"id":"i"}`,
			events{statusData("thread started", handle("i"))}},
		{"thread id goes first", `{"type":"thread.started","id":"i","conversation_id":"c","thread_id":"t"}`,
			events{statusData("thread started", handle("t"))}},
		{"no thread id", `{"type":"thread.started"}`, events{normalizeError("missing thread_id", 25)}},
		{"no usable thread id", `{"type":"thread.started","thread_id":" \n"}`,
			events{normalizeError("missing thread_id", 43)}},
		{"turn", `{"type":"turn.started"}`, events{status("turn started")}},
		{"turn completed", `{"type":"turn.completed"}`, events{status("turn completed")}},
		{"turn failed, and why", `{"type":"turn.failed","error":{"message":"why"}}`,
			events{status("turn failed"), failure("why")}},
		{"the newest error line told it", `{"type":"error","message":"a"}` + "\n" + `{"type":"error","message":"why"}` + "\n" +
			`{"type":"turn.failed","error":{"message":"why"}}` + "\n" + `{"type":"turn.failed","error":{"message":"a"}}`,
			events{failure("a"), failure("why"), status("turn failed"), status("turn failed"), failure("a")}},
		{"an error line of the turn before", `{"type":"error","message":"why"}` + "\n" + `{"type":"turn.started"}` + "\n" +
			`{"type":"turn.failed","error":{"message":"why"}}`,
			events{failure("why"), status("turn started"), status("turn failed"), failure("why")}},
		{"an error line of the process before", `{"type":"turn.started"}` + "\n" + `{"type":"error","message":"why"}` + "\n" +
			`{"type":"thread.started","thread_id":"t"}` + "\n" + `{"type":"turn.started"}` + "\n" +
			`{"type":"turn.failed","error":{"message":"why"}}`,
			events{status("turn started"), failure("why"), statusData("thread started", handle("t")), status("turn started"),
				status("turn failed"), failure("why")}},
		{"no text is no reason", `{"type":"turn.failed","error":{"message":7}}` + "\n" + `{"type":"turn.failed","error":"why"}`,
			events{status("turn failed"), status("turn failed")}},
		{"usage", `{"type":"turn.completed","usage":{"input_tokens":123,"cached_input_tokens":0,"output_tokens":45}}`,
			events{statusData("turn completed", `{"schema":"backend.codex.usage.v1","usage":{"input_tokens":123,`+
				`"cached_input_tokens":0,"output_tokens":45}}`)}},
		{"usage of five", `{"type":"turn.completed","usage":{"reasoning_output_tokens":5,"input_tokens":1,` +
			`"x":{"input_tokens":9},"cached_input_tokens":2,"cache_write_input_tokens":3,"output_tokens":4}}`,
			events{statusData("turn completed", `{"schema":"backend.codex.usage.v1","usage":{"input_tokens":1,`+
				`"cached_input_tokens":2,"cache_write_input_tokens":3,"output_tokens":4,`+
				`"reasoning_output_tokens":5}}`)}},
		{"usage that is no integer", `{"type":"turn.completed","usage":{"input_tokens":"SECRET","output_tokens":1.5,` +
			`"cached_input_tokens":-7}}`,
			events{statusData("turn completed", `{"schema":"backend.codex.usage.v1",`+
				`"usage":{"cached_input_tokens":-7}}`)}},
		{"usage without a counter", `{"type":"turn.completed","usage":{"words":3}}`, events{status("turn completed")}},
		{"usage that is no object", `{"type":"turn.completed","usage":[1,2]}`, events{status("turn completed")}},
		{"error", `{"type":"error","message":"Reconnecting... 1/5"}`, events{failure("Reconnecting... 1/5")}},
		{"error without words", `{"type":"error","message":""}`, events{failure("")}},
		{"error without a message", `{"type":"error"}`, events{parseError("invalid payload", 16)}},
		{"error whose message is no string", `{"type":"error","message":{"a":"SECRET"}}`,
			events{parseError("invalid payload", 41)}},
		{"error whose message is elsewhere", `{"type":"error","error":{"message":"x"}}`,
			events{parseError("invalid payload", 40)}},
		{"unknown type", `{"type":"item.plan.delta","item":{"id":"i","type":"agent_message","text":"SECRET"}}`,
			events{unknown}},
		{"type in another case", `{"type":"Turn.Started"}`, events{unknown}},
		{"empty type", `{"type":""}`, events{unknown}},
		{"escaped key and type", `{"\u0074ype":"turn.st\u0061rted"}`, events{status("turn started")}},
		{"escaped keys inside", `{"type":"item.completed","\u0069tem":{"i\u0064":"i",` +
			`"t\u0079pe":"agent\u005fmessage","te\u0078t":"x"}}`, events{text("assistant", "x")}},
		{"keys count in full", `{"typ":"error","types":"error","type\u0000":"error","type":"turn.failed"}`,
			events{status("turn failed")}},

		// Text items.
		{"message", `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"Done."}}`,
			events{text("assistant", "Done.")}},
		{"empty message", `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":""}}`,
			events{text("assistant", "")}},
		{"message with escapes", `{"type":"item.completed","item":{"type":"agent_message",` +
			`"text":"\u0000\ud83d\ude80\n\"\\\/\u00e9"}}`, events{text("assistant", "\x00🚀\n\"\\/é")}},
		{"lone surrogates", `{"type":"item.completed","item":{"type":"agent_message",` +
			`"text":"a\ud83db\ude80\ud83d\ud83d"}}`, events{text("assistant", "a\ufffdb\ufffd\ufffd\ufffd")}},
		{"message without text", `{"type":"item.completed","item":{"id":"i","type":"agent_message"}}`,
			events{parseError("invalid payload", 66)}},
		{"message whose text is no string", `{"type":"item.completed","item":{"type":"agent_message",` +
			`"text":["SECRET"]}}`, events{parseError("invalid payload", 75)}},
		{"reasoning", `{"type":"item.completed","item":{"type":"reasoning","text":"Hm."}}`,
			events{text("reasoning", "Hm.")}},
		{"reasoning without text", `{"type":"item.completed","item":{"type":"reasoning","text":null}}`,
			events{parseError("invalid payload", 65)}},
		{"snapshots are sent in full, each time", `{"type":"item.started","item":{"type":"agent_message","text":"a"}}
{"type":"item.updated","item":{"type":"agent_message","text":"ab"}}
{"type":"item.completed","item":{"type":"agent_message",` +
			`"text":"abc"}}`, events{text("assistant", "a"), text("assistant", "ab"), text("assistant", "abc")}},

		// Other items.
		{"to-do list", `{"type":"item.started","item":{"type":"todo_list","items":[{"text":"SECRET",` +
			`"completed":false}]}}
{"type":"item.updated","item":{"type":"todo_list"}}
{"type":"item.completed","item":{"type":"todo_list"}}`,
			events{status("todo list started"), status("todo list updated"), status("todo list completed")}},
		{"warning", `{"type":"item.completed","item":{"id":"item_0","type":"error","message":"unknown model"}}`,
			events{failure("unknown model")}},
		{"warning without a message", `{"type":"item.completed","item":{"type":"error","message":1}}`,
			events{parseError("invalid payload", 61)}},
		{"unknown item", `{"type":"item.completed","item":{"id":"i","type":"plan","text":"SECRET"}}`, events{unknown}},
		{"item without a type", `{"type":"item.completed","item":{"id":"i","text":"SECRET"}}`, events{unknown}},
		{"item whose type is no string", `{"type":"item.completed","item":{"type":["agent_message"]}}`,
			events{unknown}},
		{"empty item", `{"type":"item.updated","item":{}}`, events{unknown}},
		{"item that is a number", `{"type":"item.completed","item":7}`, events{parseError("invalid payload", 34)}},
		{"item that is null", `{"type":"item.started","item":null}`, events{parseError("invalid payload", 35)}},
		{"no item", `{"type":"item.started"}`, events{parseError("invalid payload", 23)}},

		// Tools, and the lengths in their facets.
		{"command", `{"type":"item.started","item":{"id":"item_0","type":"command_execution","command":"SECRET",` +
			`"aggregated_output":"","exit_code":null,"status":"in_progress"}}
{"type":"item.updated","item":{"id":"item_0","type":"command_execution","aggregated_output":"h\u00e9\n",` +
			`"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_0","type":"command_execution","aggregated_output":"h\u00e9llo\n",` +
			`"stderr":"é","exit_code":0,"status":"completed"}}`, events{
			started(`"backend_item_id":"item_0","kind":"command_execution","status":"running"`),
			updated(`"backend_item_id":"item_0","kind":"command_execution","status":"running","bytes":{"stdout":4}`),
			done(`"backend_item_id":"item_0","kind":"command_execution","status":"completed","exit_code":0,` +
				`"bytes":{"stdout":7,"stderr":2}`),
		}},
		{"command: nothing else is counted", `{"type":"item.completed","item":{"type":"command_execution","diff":"d",` +
			`"result":[1],"results":[1],"tool":"x"}}`,
			events{done(`"kind":"command_execution","status":"completed"`)}},
		{"command whose fields have other types", `{"type":"item.completed","item":{"id":7,` +
			`"type":"command_execution","aggregated_output":{"a":1},"stderr":5,"exit_code":"1","status":3}}`,
			events{done(`"kind":"command_execution","status":"completed"`)}},
		{"file change", `{"type":"item.completed","item":{"id":"item_2","type":"file_change",` +
			`"changes":[{"path":"/SECRET","kind":"update"}],"status":"completed"}}`,
			events{done(`"backend_item_id":"item_2","kind":"file_change","status":"completed"`)}},
		{"file change with diff and exit code", `{"type":"item.completed","item":{"type":"file_change","diff":"+é\n",` +
			`"exit_code":3,"stdout":"x","result":[1]}}`,
			events{done(`"kind":"file_change","status":"completed","exit_code":3,"bytes":{"diff":4}`)}},
		{"MCP call", `{"type":"item.started","item":{"id":"item_0","type":"mcp_tool_call","server":"SECRET",` +
			`"tool":"echo","arguments":{"text":"SECRET"},"result":null,"error":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_0","type":"mcp_tool_call","tool":"echo","arguments":{"a":1},` +
			`"result":{ "b" : 2.50, "c" : [ ] },"error":{"message":"SECRET"},"exit_code":1,"status":"completed"}}`,
			events{
				started(`"backend_item_id":"item_0","kind":"mcp_tool_call","status":"running","tool_name":"echo"`),
				done(`"backend_item_id":"item_0","kind":"mcp_tool_call","status":"completed","tool_name":"echo",` +
					`"bytes":{"result":16}`),
			}},
		{"MCP results of all kinds", `{"type":"item.completed","item":{"type":"mcp_tool_call",` +
			`"result":"\u00e9\u0001\""}}
{"type":"item.completed","item":{"type":"mcp_tool_call","result":false}}
{"type":"item.completed","item":{"type":"mcp_tool_call","result":100.0}}
{"type":"item.completed","item":{"type":"mcp_tool_call","result":[]}}
{"type":"item.completed","item":{"type":"mcp_tool_call","result":null}}`, events{
			done(`"kind":"mcp_tool_call","status":"completed","bytes":{"result":12}`), // "é\u0001\"" with its quotes
			done(`"kind":"mcp_tool_call","status":"completed","bytes":{"result":5}`),
			done(`"kind":"mcp_tool_call","status":"completed","bytes":{"result":5}`),
			done(`"kind":"mcp_tool_call","status":"completed","bytes":{"result":2}`),
			done(`"kind":"mcp_tool_call","status":"completed"`),
		}},
		{"MCP tool whose name is no string", `{"type":"item.completed","item":{"type":"mcp_tool_call",` +
			`"tool":{"x":"SECRET"}}}`, events{done(`"kind":"mcp_tool_call","status":"completed"`)}},
		{"web search, whose id comes twice", `{"type":"item.started","item":{"id":"item_0","type":"web_search",` +
			`"id":"ws_1","query":"SECRET","action":{"type":"other"}}}
{"type":"item.completed","item":{"id":"item_0","type":"web_search","id":"ws_1","query":"SECRET",` +
			`"results":[{"a":"é"}],"result":"x"}}`, events{
			started(`"backend_item_id":"item_0","kind":"web_search","status":"running"`),
			done(`"backend_item_id":"item_0","kind":"web_search","status":"completed","bytes":{"result":12}`),
		}},
		{"call of another agent", `{"type":"item.completed","item":{"id":"item_0","type":"collab_tool_call",` +
			`"tool":"spawn_agent","prompt":"SECRET","result":[1],"exit_code":1,` +
			`"agents_states":{"t":{"status":"completed"}},"status":"completed"}}`,
			events{done(`"backend_item_id":"item_0","kind":"collab_tool_call","status":"completed",` +
				`"tool_name":"spawn_agent"`)}},
		{"item id is trimmed", `{"type":"item.completed","item":{"id":"  item_0\t","type":"web_search"}}`,
			events{done(`"backend_item_id":"item_0","kind":"web_search","status":"completed"`)}},
		{"blank item id", `{"type":"item.completed","item":{"id":"  ","type":"web_search"}}`,
			events{done(`"kind":"web_search","status":"completed"`)}},
		{"item.created", `{"type":"item.created","item":{"type":"web_search"}}`,
			events{started(`"kind":"web_search","status":"running"`)}},
		{"item.delta", `{"type":"item.delta","item":{"type":"web_search"}}`,
			events{updated(`"kind":"web_search","status":"running"`)}},

		// The first of duplicate keys counts.
		{"type twice", `{"type":"turn.failed","type":"turn.started"}`, events{status("turn failed")}},
		{"type twice, the first useless", `{"type":7,"type":"turn.started"}`,
			events{normalizeError("missing type", 32)}},
		{"item twice", `{"type":"item.completed","item":{"type":"agent_message","text":"a"},` +
			`"item":{"type":"reasoning","text":"b"}}`, events{text("assistant", "a")}},
		{"item twice, the first useless", `{"type":"item.completed","item":7,"item":{"type":"reasoning","text":"b"}}`,
			events{parseError("invalid payload", 73)}},
		{"text twice", `{"type":"item.completed","item":{"type":"agent_message","text":"a","text":"b"}}`,
			events{text("assistant", "a")}},
		{"usage twice", `{"type":"turn.completed","usage":{"input_tokens":1,"input_tokens":2},` +
			`"usage":{"output_tokens":3}}`,
			events{statusData("turn completed", `{"schema":"backend.codex.usage.v1","usage":{"input_tokens":1}}`)}},
		{"message twice", `{"type":"error","message":"a","message":"b"}`, events{failure("a")}},
		{"a key and the same key escaped", `{"type":"item.completed","item":{"type":"agent_message","t\u0065xt":"a",` +
			`"text":"b"}}`, events{text("assistant", "a")}},

		// Failed items of older versions.
		{"failed tool", `{"type":"item.failed","item":{"id":"i","type":"command_execution","aggregated_output":"x",` +
			`"exit_code":5,"status":"completed"}}`, events{broken(`"backend_item_id":"i","kind":"command_execution"`)}},
		{"failed tool, named at the top", `{"type":"item.failed","item_id":"i","item_type":"file_change","diff":"x",` +
			`"error":{"message":"SECRET"}}`, events{broken(`"backend_item_id":"i","kind":"file_change"`)}},
		{"failed MCP call keeps its name", `{"type":"item.failed","item":{"type":"mcp_tool_call","tool":"echo",` +
			`"result":[1]}}`, events{broken(`"kind":"mcp_tool_call","tool_name":"echo"`)}},
		{"failed item of no tool", `{"type":"item.failed","item":{"type":"agent_message","text":"x",` +
			`"error":{"message":"why"}}}`, events{failure("why")}},
		{"failed item, error at the top", `{"type":"item.failed","item_id":"i","item_type":"reasoning",` +
			`"error":{"message":"why"}}`, events{failure("why")}},
		{"failed item of no type", `{"type":"item.failed","item_id":"i","error":{"message":"why"}}`,
			events{failure("why")}},
		{"failed item that is not there", `{"type":"item.failed","error":{"message":"why"}}`, events{failure("why")}},
		{"failed item that is a number", `{"type":"item.failed","item":7,"error":{"message":"why"}}`,
			events{parseError("invalid payload", 57)}},
		{"failed item without error", `{"type":"item.failed","item":{"type":"todo_list"}}`,
			events{parseError("invalid payload", 50)}},
		{"failed item whose error is no object", `{"type":"item.failed","item":{"type":"reasoning","error":"SECRET"}}`,
			events{parseError("invalid payload", 67)}},

		// Legacy formats.
		{"item at the top", `{"type":"item.completed","item_id":"i","item_type":"command_execution",` +
			`"command":"SECRET","aggregated_output":"abc","exit_code":2,"status":"failed"}`,
			events{broken(`"backend_item_id":"i","kind":"command_execution","exit_code":2,"bytes":{"stdout":3}`)}},
		{"its fields before its type", `{"text":"x","item_type":"agent_message","type":"item.completed"}`,
			events{text("assistant", "x")}},
		{"its item_type goes before its type", `{"type":"item.completed","item":{"item_type":"assistant_message",` +
			`"type":"SECRET","text":"a"}}
{"type":"item.completed","item":{"type":"SECRET","item_type":"assistant_message","text":"b","item_type":"SECRET"}}
{"type":"item.completed","item":{"type":"agent_message","item_type":7,"text":"c"}}`,
			events{text("assistant", "a"), text("assistant", "b"), text("assistant", "c")}},
		{"only a type at the top", `{"type":"item.completed","item_type":"agent_message","text":"x"}`,
			events{text("assistant", "x")}},
		{"error at the top", `{"type":"item.completed","item_type":"error","message":"x"}`, events{failure("x")}},
		{"the item's own fields go before those at the top", `{"type":"item.completed","item_id":"j",` +
			`"item_type":"reasoning","text":"top","item":{"id":"i","type":"agent_message","text":"own"},"stdout":"x"}`,
			events{text("assistant", "own")}},
		{"fields at the top are not the item's, before or after it", `{"type":"item.completed","stdout":"abc",` +
			`"exit_code":1,"item":{"type":"command_execution"},"stderr":"de","status":"failed"}`,
			events{done(`"kind":"command_execution","status":"completed"`)}},
		{"a useless item and an older form", `{"type":"item.completed","item":7,"item_type":"agent_message",` +
			`"text":"x"}`, events{parseError("invalid payload", 73)}},
		{"text and content", `{"type":"item.completed","item":{"type":"agent_message","text":"x","content":"y",` +
			`"delta":"z"}}
{"type":"item.completed","item":{"type":"agent_message","delta":"z","text":"x",` +
			`"content":{"text":"y"}}}`, events{text("assistant", "x"), text("assistant", "z")}},
		{"content object", `{"type":"item.completed","item":{"id":"i","type":"agent_message","content":{"text":"x"}}}`,
			events{text("assistant", "x")}},
		{"content object at the top", `{"type":"item.completed","item_type":"agent_message","content":{"text":"x",` +
			`"type":"y"}}`, events{text("assistant", "x")}},
		{"content string", `{"type":"item.completed","item":{"type":"reasoning","content":"x"}}`,
			events{text("reasoning", "x")}},
		{"content string of a tool", `{"type":"item.completed","item":{"type":"command_execution","content":"SECRET"}}`,
			events{done(`"kind":"command_execution","status":"completed"`)}},
		{"content that is a list", `{"type":"item.completed","item":{"type":"agent_message",` +
			`"content":[{"text":"SECRET"}]}}`, events{parseError("invalid payload", 87)}},
		{"content of a command", `{"type":"item.completed","item":{"id":"i","type":"command_execution",` +
			`"content":{"id":"SECRET","type":"SECRET","stdout":"abc","stderr":"de","exit_code":0,` +
			`"status":"completed"}}}`,
			events{done(`"backend_item_id":"i","kind":"command_execution","status":"completed","exit_code":0,` +
				`"bytes":{"stdout":3,"stderr":2}`)}},
		{"content of a warning", `{"type":"item.completed","item":{"type":"error","content":{"message":"x"}}}`,
			events{failure("x")}},
		{"content of an MCP call", `{"type":"item.completed","item":{"type":"mcp_tool_call","content":{"tool":"t",` +
			`"result":[1]}}}`, events{done(`"kind":"mcp_tool_call","status":"completed","tool_name":"t",` +
			`"bytes":{"result":3}`)}},
		{"delta object", `{"type":"item.delta","item":{"type":"agent_message","delta":{"text":"x"}}}`,
			events{text("assistant", "x")}},
		{"delta object of the other name", `{"type":"item.delta","item":{"type":"agent_message",` +
			`"delta":{"text_delta":"x"}}}`, events{text("assistant", "x")}},
		{"delta string", `{"type":"item.updated","item":{"type":"agent_message","delta":"x"}}`,
			events{text("assistant", "x")}},
		{"delta at the top", `{"type":"item.delta","item_id":"i","item_type":"agent_message",` +
			`"delta":{"text_delta":"x"}}`, events{text("assistant", "x")}},
		{"delta of a command", `{"type":"item.delta","item_id":"i","item_type":"command_execution",` +
			`"delta":{"stdout":"ab","err":"c"}}`,
			events{updated(`"backend_item_id":"i","kind":"command_execution","status":"running","bytes":{"stdout":2,` +
				`"stderr":1}`)}},
		{"text_delta", `{"type":"item.delta","item":{"type":"reasoning","text_delta":"x"}}`,
			events{text("reasoning", "x")}},
		{"names of output", `{"type":"item.completed","item":{"type":"command_execution","output":"ab","err":"c"}}
{"type":"item.completed","item":{"type":"command_execution","stdout":"ab","error_output":"c"}}
{"type":"item.completed","item":{"type":"command_execution","aggregated_output":"ab","stderr":"c"}}`, events{
			done(`"kind":"command_execution","status":"completed","bytes":{"stdout":2,"stderr":1}`),
			done(`"kind":"command_execution","status":"completed","bytes":{"stdout":2,"stderr":1}`),
			done(`"kind":"command_execution","status":"completed","bytes":{"stdout":2,"stderr":1}`),
		}},
		{"names of a diff", `{"type":"item.completed","item":{"type":"file_change","patch":"abc"}}
{"type":"item.completed","item":{"type":"file_change","diff":"abc"}}`, events{
			done(`"kind":"file_change","status":"completed","bytes":{"diff":3}`),
			done(`"kind":"file_change","status":"completed","bytes":{"diff":3}`),
		}},
	} {
		t.Run(c.why, func(t *testing.T) {
			got, _ := feed(c.lines)
			backendtest.Expect(t, "codex", got, c.want...)
			for _, m := range got {
				if strings.Contains(string(m.Body), "SECRET") {
					t.Errorf("leaks: %s", m.Body)
				}
			}
		})
	}
}

// The status of an item, and the status and phase in its facet.
func TestItemStatus(t *testing.T) {
	for _, c := range []struct{ status, started, completed, phase string }{
		{``, "running", "completed", "complete"},
		{`"in_progress"`, "running", "unknown", "complete"},
		{`"running"`, "running", "unknown", "complete"},
		{`"pending"`, "pending", "unknown", "complete"},
		{`"completed"`, "completed", "completed", "complete"},
		{`"failed"`, "failed", "failed", "fail"},
		{`"declined"`, "failed", "failed", "fail"},
		{`"SECRET"`, "unknown", "unknown", "complete"},
		{`""`, "unknown", "unknown", "complete"},
		{`"Completed"`, "unknown", "unknown", "complete"},
		{`"fa\u0069led"`, "failed", "failed", "fail"},
		{`null`, "running", "completed", "complete"},
		{`7`, "running", "completed", "complete"},
	} {
		item := `,"item":{"type":"command_execution"`
		if c.status != "" {
			item += `,"status":` + c.status
		}
		item += "}}"
		got, _ := feed(`{"type":"item.started"`+item, `{"type":"item.updated"`+item, `{"type":"item.completed"`+item)
		backendtest.Expect(t, "codex", got,
			started(`"kind":"command_execution","status":"`+c.started+`"`),
			updated(`"kind":"command_execution","status":"`+c.started+`"`),
			tool("ToolResult", `"kind":"command_execution","phase":"`+c.phase+`","status":"`+c.completed+`"`))
	}
}

func TestExitCodeIsAnInt32OrNull(t *testing.T) {
	for raw, want := range map[string]string{
		"0": "0", "-1": "-1", "2147483647": "2147483647", "-2147483648": "-2147483648",
		"2147483648": "null", "-2147483649": "null", "1.0": "null", "1e2": "null", `"1"`: "null", "true": "null",
		"null": "null", "[1]": "null",
	} {
		got, _ := feed(`{"type":"item.completed","item":{"type":"command_execution","exit_code":` + raw + `}}`)
		backendtest.Expect(t, "codex", got, done(`"kind":"command_execution","status":"completed","exit_code":`+want))
	}
}
