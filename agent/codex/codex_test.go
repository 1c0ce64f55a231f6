package codex_test

import (
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestContract(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Backend: codex.Backend{},
		Corpus:  "../../test/corpus/codex",
		Golden:  "testdata/golden",
		Shown: []string{
			"type", "thread_id", "message", "error.message",
			"item.type", "item.id", "item.status", "item.text", "item.message", "item.tool",
		},
		Recorded: []string{
			"item.command", "item.aggregated_output", "item.items[].text", "item.changes[].path",
			"item.changes[].kind",
		},
	})
}
