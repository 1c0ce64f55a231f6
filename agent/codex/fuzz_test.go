package codex_test

import (
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func FuzzLine(f *testing.F) {
	backendtest.FuzzLine(f, codex.Backend{}, "../../test/corpus/codex",
		`{"type":"item.completed","item_id":"i","item_type":"command_execution","content":{"stdout":"x"},"delta":"y"}`,
		`{"type":"item.failed","item":{"type":"reasoning","error":{"message":"\ud83d"}}}`, `{"\u0074ype":1e400}`,
		"{\"type\":\"x\xff\"}", "\u2028 ", "[[[[",
		eventMsg(`{"type":"item_completed","thread_id":"t","item":{"type":"FileChange","id":"c","status":"completed",`+
			`"changes":{"/a":{"type":"add"},"/b":{"type":"update"}}}}`),
		eventMsg(`{"type":"task_complete","error":{"message":"x"}}`), rolloutLine("world_state", `{}`),
		eventMsg(`{"type":"token_count","info":{"total_token_usage":{"input_tokens":1}}}`),
		responseItem(`{"type":"function_call","call_id":"c","name":"update_plan","arguments":"{\"plan\":[{\"step\":\"x\"}]}"}`),
		responseItem(`{"type":"reasoning","summary":[{"type":"summary_text","text":"x"}]}`),
		`{"type":"turn.completed","conversation_id":"t","usage":{"input_tokens":1,"input_tokens":"2"}}`, "",
	)
}
