package known_test

import (
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// The counts of tokens in a record mean the same for all agents, though not all of them
// count cached tokens as input.
func TestTokensMeanTheSame(t *testing.T) {
	for short, line := range map[string]string{
		"codex": `{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":6,"output_tokens":3}}`,
		"claude": `{"type":"result","subtype":"success","usage":{"input_tokens":4,"cache_read_input_tokens":6,` +
			`"output_tokens":3}}`,
		"gemini": `{"type":"result","status":"success","stats":{"input_tokens":10,"cached":6,"input":4,` +
			`"output_tokens":3}}`,
		"opencode": `{"type":"step_finish","part":{"reason":"stop","tokens":{"input":4,"output":3,"cache":{"read":6}}}}`,
	} {
		a, _ := known.Agents.Find(short)
		_, fold := backendtest.Fold(a.Backend, backendtest.Output([]byte(line+"\n")))
		if got := fold.Record.Spent().Total; got == nil || *got != (runs.Usage{Input: 10, CachedInput: 6, Output: 3}) {
			t.Errorf("%s: %+v", short, got)
		}
	}
}
