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
		`{"type":"turn.completed","conversation_id":"t","usage":{"input_tokens":1,"input_tokens":"2"}}`, "",
	)
}
