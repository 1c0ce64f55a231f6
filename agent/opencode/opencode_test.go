package opencode_test

import (
	"testing"

	"github.com/linesman/linesman/agent/opencode"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestContract(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Backend:  opencode.Backend{},
		Corpus:   "../../test/corpus/opencode",
		Checks:   15,
		Golden:   "testdata/golden",
		Shown:    shown,
		Recorded: recorded,
	})
}

func FuzzLine(f *testing.F) {
	backendtest.FuzzLine(f, opencode.Backend{}, "../../test/corpus/opencode")
}

var (
	shown = []string{
		"type", "sessionID", "part.id", "part.messageID", "part.text", "part.tool", "part.callID", "part.reason",
		"part.state.status", "error.name", "error.data.message",
	}
	recorded = []string{
		"part.state.output", "part.state.input.command", "part.state.input.filePath",
		"part.state.metadata.todos[].content", "part.state.metadata.todos[].status",
	}
)
