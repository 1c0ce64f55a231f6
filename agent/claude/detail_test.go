package claude_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Forms of lines that no recording has.
func TestDetailsOfClaude(t *testing.T) {
	call := func(name, input string) string {
		return `{"type":"assistant","message":{"content":[{"type":"tool_use","id":"c","name":"` + name + `","input":` +
			input + `}]}}`
	}
	short := `{"old_string":"x","new_string":"y"}`
	long := `{"old_string":"` + strings.Repeat(`\u006c`, 5000) + `","new_string":""}`
	replaced := "-" + strings.Repeat("l", runs.DetailWindow/len(`\u006c`)) + `\n`
	backendtest.MapDetails(t, claude.Backend{}, []backendtest.DetailCase{
		{"edits of which one is not read whole, or is of several places", []string{
			call("MultiEdit", `{"file_path":"/a","edits":[`+long+","+short+`]}`),
			call("MultiEdit", `{"file_path":"/a","edits":[`+short+","+long+`]}`),
			call("MultiEdit", `{"file_path":"/a","edits":[{"old_string":"x","new_string":"y","replace_all":true},`+short+`]}`),
		}, []string{
			`1.1 tool_call {"files":[{"path":"/a","kind":"modified","diff":{"head":"` + replaced + `-x\n+y\n"}}]}`,
			`2.1 tool_call {"files":[{"path":"/a","kind":"modified","diff":{"head":"-x\n+y\n` + replaced + `"}}]}`,
			`3.1 tool_call {"files":[{"path":"/a","kind":"modified","diff":{"head":"-x\n+y\n-x\n+y\n"}}]}`,
		}},
		{"edits", []string{
			call("MultiEdit", `{"file_path":"/a","edits":[{"old_string":"x","new_string":"y"},`+
				`{"old_string":"","new_string":"z"}]}`),
			call("Edit", `{"file_path":"/a","old_string":"x","new_string":"y","replace_all":true}`),
			call("NotebookEdit", `{"notebook_path":"/n","new_source":"x"}`),
			call("Edit", `{}`),
		}, []string{
			`1.1 tool_call {"files":[{"path":"/a","kind":"modified","added":2,"removed":1,"diff":{"head":"-x\n+y\n+z\n"}}]}`,
			`2.1 tool_call {"files":[{"path":"/a","kind":"modified","diff":{"head":"-x\n+y\n"}}]}`,
			`3.1 tool_call {"files":[{"path":"/n","kind":"modified","diff":{"head":"+x\n"}}]}`,
		}},
		{"a plan", []string{
			call("TodoWrite", `{"todos":[{"content":"A","status":"completed"},`+
				`{"content":"B","status":"in_progress"},{"content":"C"}]}`),
		}, []string{`1.1 tool_call {"plan":[{"text":"A","state":"done"},{"text":"B","state":"active"},` +
			`{"text":"C","state":"pending"}]}`}},
		{"sub-agents and the web", []string{
			call("Task", `{"prompt":"Count","description":"count"}`), call("WebSearch", `{"query":"nats"}`),
			call("WebFetch", `{"url":"https://u:p@example.com/","prompt":"x"}`), call("Grep", `{"pattern":"x"}`),
		}, []string{
			`1.1 tool_call {"prompt":{"head":"Count"},"text":{"head":"count"}}`,
			`2.1 tool_call {"arguments":{"head":"nats"}}`,
			`3.1 tool_call {"arguments":{"head":"https://[redacted]@example.com/"}}`,
			`4.1 tool_call {"arguments":{"head":"{\"pattern\":\"x\"}"}}`,
		}},
		{"several results in a line", []string{
			`{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"Bash","input":{"command":"x"}},` +
				`{"type":"tool_use","id":"b","name":"Bash","input":{"command":"y"}}]}}`,
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"b","content":"of b"},` +
				`{"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"of a"}],"is_error":true}]},` +
				`"tool_use_result":{"stdout":"of none"}}`,
		}, []string{
			`1.1 tool_call {"command":{"head":"x"}}`, `1.2 tool_call {"command":{"head":"y"}}`,
			`2.1 tool_result {"output":{"head":"of b"}}`, `2.2 tool_result {"output":{"head":"of a"}}`,
		}},
		{"stderr of a command", []string{
			call("Bash", `{"command":"x"}`),
			`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"c","content":"both"}]},` +
				`"tool_use_result":{"stdout":"out","stderr":"err"}}`,
		}, []string{`1.1 tool_call {"command":{"head":"x"}}`,
			`2.1 tool_result {"output":{"head":"out"},"stderr":{"head":"err"}}`}},
		{"prompts of session logs", []string{
			`{"type":"user","sessionId":"s","parentUuid":null,"message":{"content":"of a sub-agent"}}`,
			`{"type":"user","sessionId":"s","parentUuid":"p","promptSource":"typed",` +
				`"message":{"content":[{"type":"text","text":"Fix"}]}}`,
			`{"type":"user","sessionId":"s","parentUuid":"p","promptSource":"system","message":{"content":"no prompt"}}`,
			`{"type":"user","sessionId":"s","parentUuid":"p","message":{"content":"no prompt"}}`,
			`{"type":"user","sessionId":"s","parentUuid":null,"isMeta":true,"message":{"content":"no prompt"}}`,
		}, []string{`1.2 detail {"prompt":{"head":"of a sub-agent"}}`, `2.2 detail {"prompt":{"head":"Fix"}}`}},
	})
}
