package opencode_test

import (
	"testing"

	"github.com/linesman/linesman/agent/opencode"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestDoingOfRecordings(t *testing.T) {
	backendtest.DoingIsGolden(t, opencode.Backend{}, "testdata/doing.golden", "../../test/corpus/opencode/*.jsonl")
}

func TestDoing(t *testing.T) {
	const begin, end = `{"type":"step_start"}`, `{"type":"step_finish","part":{"reason":"stop"}}`
	text := `{"type":"text","part":{"text":"x"}}`
	tool := `{"type":"tool_use","part":{"tool":"bash","callID":"c","state":{"status":"completed"}}}`
	backendtest.Doing(t, opencode.Backend{}, []backendtest.Case{
		{"a turn", []string{begin, text, end}, []string{"thinking", "writing", "-"}},
		{"steps", []string{begin, text, tool, `{"type":"step_finish","part":{"reason":"tool-calls"}}`, begin, text, end},
			[]string{"thinking", "writing", "thinking", "writing", "-"}},
		{"reasoning", []string{begin, text, `{"type":"reasoning","part":{"text":"x"}}`}, []string{"thinking", "writing", "thinking"}},
		{"lines that do not tell", []string{`{"type":"error","error":{"name":"x"}}`, `{"type":"SECRET"}`, tool}, []string{"-"}},
	})
}
