package gemini_test

import (
	"testing"

	"github.com/linesman/linesman/agent/gemini"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestContract(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Backend:  gemini.Backend{},
		Corpus:   "../../test/corpus/gemini",
		Checks:   15,
		Golden:   "testdata/golden",
		Shown:    shown,
		Recorded: recorded,
	})
}

func FuzzLine(f *testing.F) { backendtest.FuzzLine(f, gemini.Backend{}, "../../test/corpus/gemini") }

var (
	shown = []string{
		"type", "session_id", "role", "content", "tool_name", "tool_id", "status", "message", "error.message",
	}
	recorded = []string{"parameters.command", "parameters.file_path", "output", "model"}
)
