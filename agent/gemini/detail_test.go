package gemini_test

import (
	"testing"

	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// Forms of lines that no recording has.
func TestDetailsOfGemini(t *testing.T) {
	call := func(name, parameters string) string {
		return `{"type":"tool_use","tool_name":"` + name + `","tool_id":"c","parameters":` + parameters + `}`
	}
	backendtest.MapDetails(t, gemini.Backend{}, []backendtest.DetailCase{
		{"a plan", []string{
			call("write_todos", `{"todos":[{"description":"A","status":"completed"},`+
				`{"description":"B","status":"in_progress"}]}`),
		}, []string{`1.1 tool_call {"plan":[{"text":"A","state":"done"},{"text":"B","state":"active"}]}`}},
		{"a search", []string{call("google_web_search", `{"query":"nats"}`)},
			[]string{`1.1 tool_call {"arguments":{"head":"nats"}}`}},
		{"an error without output", []string{call("read_file", `{}`),
			`{"type":"tool_result","tool_id":"c","status":"error","error":{"message":"none"}}`},
			[]string{`2.1 tool_result {"result":{"head":"none"}}`}},
		{"parameters of other types", []string{call("run_shell_command", `7`), call("replace", `{"file_path":7}`)}, nil},
	})
}
