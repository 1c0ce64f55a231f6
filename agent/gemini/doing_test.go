package gemini_test

import (
	"testing"

	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestDoingOfRecordings(t *testing.T) {
	backendtest.DoingIsGolden(t, gemini.Backend{}, "testdata/doing.golden", "../../test/corpus/gemini/*.jsonl")
}

func TestDoing(t *testing.T) {
	const begin, end = `{"type":"init","model":"m"}`, `{"type":"result","status":"success"}`
	use := func(tool string) string { return `{"type":"tool_use","tool_id":"t","tool_name":"` + tool + `"}` }
	done := `{"type":"tool_result","tool_id":"t","status":"success"}`
	part := `{"type":"message","role":"assistant","content":"x","delta":true}`
	backendtest.Doing(t, gemini.Backend{}, []backendtest.Case{
		{"a turn", []string{begin, `{"type":"message","role":"user","content":"x"}`, part, part, end},
			[]string{"thinking", "writing", "-"}},
		{"a tool", []string{begin, part, use("run_shell_command"), done, part},
			[]string{"thinking", "writing", "running run_shell_command", "thinking", "writing"}},
		{"a sub-agent", []string{begin, use("invoke_agent"), done}, []string{"thinking", "waiting-for-agent", "thinking"}},
		{"a question", []string{begin, use("ask_user"), done}, []string{"thinking", "waiting-for-answer", "thinking"}},
		{"a turn that failed", []string{begin, `{"type":"result","status":"error"}`}, []string{"thinking", "-"}},
		{"lines that do not tell", []string{`{"type":"error","message":"x"}`, `{"type":"SECRET"}`}, nil},
	})
}
