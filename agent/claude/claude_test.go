package claude_test

import (
	"testing"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestContract(t *testing.T) {
	for version, folder := range map[string]string{"2.1.197": "", "2.1.330": "/2.1.330"} {
		t.Run(version, func(t *testing.T) {
			backendtest.Run(t, backendtest.Suite{
				Backend: claude.Backend{},
				Corpus:  "../../test/corpus/claude" + folder,
				Checks:  10,
				Golden:  "testdata/golden" + folder,
				Shown: []string{
					"type", "subtype", "session_id", "uuid", "parent_tool_use_id", "result", "errors[]", "error",
					"message.content[].type", "message.content[].text", "message.content[].thinking",
					"message.content[].id", "message.content[].name", "message.content[].tool_use_id",
				},
				Recorded: []string{
					"model",
					"message.content[].input.command", "message.content[].input.file_path",
					"message.content[].input.todos[].content", "message.content[].input.todos[].status",
					"message.content[].content", "tool_use_result.filePath", "tool_use_result.type",
				},
			})
		})
	}
}

func FuzzLine(f *testing.F) {
	backendtest.FuzzLine(f, claude.Backend{}, "../../test/corpus/claude/2.1.330",
		reply("m", `"end_turn"`, `{"type":"text","text":"x"}`),
		logged(`"type":"user","promptSource":"typed","message":{"role":"user","content":"x"}`),
		logged(`"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}`),
		logged(`"type":"system","subtype":"compact_boundary"`), `{"type":"cost-state","totalCostUSD":1}`, `{"type":"tag"}`)
}
