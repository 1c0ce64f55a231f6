package codex_test

import (
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Forms of lines that no recording has.
func TestDetailsOfCodex(t *testing.T) {
	item := func(item string) string { return `{"type":"item.completed","item":{"id":"i",` + item + `}}` }
	response := func(payload string) string { return `{"type":"response_item","payload":{` + payload + `}}` }
	event := func(payload string) string { return `{"type":"event_msg","payload":{` + payload + `}}` }
	backendtest.MapDetails(t, codex.Backend{}, []backendtest.DetailCase{
		{"a command that is a list", []string{
			item(`"type":"command_execution","command":["bash","-lc","make all"]`),
			item(`"type":"command_execution","command":["make","all"],"stderr":"no","exit_code":2`),
		}, []string{
			`1.1 tool_result {"command":{"head":"make all"}}`,
			`2.1 tool_result {"command":{"head":"make all"},"stderr":{"head":"no"}}`,
		}},
		{"changes with diffs", []string{
			item(`"type":"file_change","changes":[{"path":"/a","kind":"add","diff":"+x\n"},` +
				`{"path":"/b","kind":{"type":"delete"}},{"path":"","kind":"add"},7]`),
		}, []string{`1.1 tool_result {"files":[{"path":"/a","kind":"added","added":1,"removed":0,"diff":{"head":"+x\n"}},` +
			`{"path":"/b","kind":"deleted"}]}`}},
		{"an MCP tool that failed", []string{
			item(`"type":"mcp_tool_call","server":"s","tool":"t","arguments":{"k":1},"error":{"message":"no such tool"}`),
		}, []string{
			`1.1 tool_result {"server":"s","arguments":{"head":"{\"k\":1}"},"result":{"head":"no such tool"}}`,
		}},
		{"both types of an item", []string{
			`{"type":"item.completed","item":{"id":"i","type":"x","item_type":"command_execution","command":"make"}}`,
			`{"type":"item.completed","item":{"id":"i","item_type":"command_execution","type":"x","command":"make"}}`,
		}, []string{`1.1 tool_result {"command":{"head":"make"}}`, `2.1 tool_result {"command":{"head":"make"}}`}},
		{"the legacy format", []string{
			`{"type":"item.completed","item_id":"i","item_type":"command_execution","command":"make",` +
				`"aggregated_output":"ok"}`,
		}, []string{`1.1 tool_result {"command":{"head":"make"},"output":{"head":"ok"}}`}},
		{"a plan with a step that is no object", []string{
			`{"type":"item.updated","item":{"id":"i","type":"todo_list",` +
				`"items":[{"text":"A","completed":true},7,{"text":"B"}]}}`,
		}, []string{`1.1 status {"plan":[{"text":"A","state":"done"},{"text":"","state":"pending"},` +
			`{"text":"B","state":"pending"}]}`}},
		{"secrets", []string{item(`"type":"command_execution","command":"curl -H 'Authorization: Bearer abcd1234'"`)},
			[]string{`1.1 tool_result {"command":{"head":"curl -H 'Authorization: Bearer [redacted]'"}}`}},
		{"texts and errors are in the events", []string{
			item(`"type":"agent_message","text":"x"`), item(`"type":"reasoning","text":"x"`), `{"type":"error","message":"x"}`,
		}, nil},
		{"a patch in a session log", []string{
			response(`"type":"function_call","call_id":"c","name":"apply_patch","arguments":"{\"input\":\"*** Begin Patch\\n` +
				`*** Update File: a\\n@@\\n-x\\n+y\\n*** Delete File: b\\n*** End Patch\\n\"}"`),
		}, []string{`1.1 tool_call {"files":[{"path":"a","kind":"modified","added":1,"removed":1,` +
			`"diff":{"head":"@@\n-x\n+y\n"}},{"path":"b","kind":"deleted"}]}`}},
		{"a patch of a session log", []string{
			response(`"type":"custom_tool_call","call_id":"c","name":"apply_patch","input":"*** Begin Patch\n` +
				`*** Update File: a\n*** Move to: z\n@@\n-x\n+y\n+*** w\n*** Delete File: b\n` +
				`*** Add File: c\n+1\n*** End Patch\n"`),
		}, []string{`1.1 tool_call {"files":[{"path":"z","kind":"modified","added":2,"removed":1,` +
			`"diff":{"head":"@@\n-x\n+y\n+*** w\n"}},{"path":"b","kind":"deleted"},` +
			`{"path":"c","kind":"added","added":1,"removed":0,"diff":{"head":"+1\n"}}]}`}},
		{"outputs of session logs", []string{
			response(`"type":"function_call","call_id":"c","name":"shell",` +
				`"arguments":"{\"command\":[\"bash\",\"-lc\",\"make\"]}"`),
			response(`"type":"function_call_output","call_id":"c",` +
				`"output":"{\"output\":\"ok\",\"metadata\":{\"exit_code\":3}}"`),
			response(`"type":"local_shell_call","call_id":"d","action":{"command":["make"]}`),
			response(`"type":"function_call_output","call_id":"d","output":"Process exited with code 1\nOutput:\nno"`),
			response(`"type":"function_call_output","call_id":"e","output":"text"`),
		}, []string{
			`1.1 tool_call {"command":{"head":"make"}}`, `2.1 tool_result {"output":{"head":"ok"},"exitCode":3}`,
			`3.1 tool_call {"command":{"head":"make"}}`, `4.1 tool_result {"output":{"head":"no"},"exitCode":1}`,
			`5.1 tool_result {"result":{"head":"text"}}`,
		}},
		{"prompts of session logs", []string{
			event(`"type":"user_message","message":"Fix"`),
			event(`"type":"item_completed","item":{"type":"UserMessage","id":"u","content":[{"type":"text","text":"a"},` +
				`{"type":"image"},{"type":"text","text":"b"}]}`),
			response(`"type":"message","role":"user","content":[{"type":"input_text","text":"instructions"}]`),
			`{"type":"compacted","payload":{"message":"a summary"}}`,
		}, []string{`1.1 detail {"prompt":{"head":"Fix"}}`, `2.1 detail {"prompt":{"head":"a\nb"}}`,
			`4.1 status {"text":{"head":"a summary"}}`}},
	})
}
