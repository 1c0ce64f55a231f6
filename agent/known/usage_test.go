package known_test

import (
	"encoding/json"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// The counts of tokens in a record and in an event mean the same for all agents, though not all of them
// count cached tokens as input, and those of reasoning as output.
func TestTokensMeanTheSame(t *testing.T) {
	plain := runs.Usage{Input: 10, CachedInput: 6, Output: 3}
	reasoned := runs.Usage{Input: 10, CachedInput: 6, Output: 7, ReasoningOutput: 4}
	const turn = `{"jsonrpc":"2.0","id":2,"result":{"stopReason":"end_turn","usage":{`
	for _, c := range []struct {
		agent, line string
		want        runs.Usage
	}{
		{"codex", `{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":6,"output_tokens":3}}`, plain},
		{"codex", `{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":6,"output_tokens":7,` +
			`"reasoning_output_tokens":4}}`, reasoned},
		{"codex", turn + `"totalTokens":17,"inputTokens":4,"cachedReadTokens":6,"outputTokens":7,"thoughtTokens":4}}}`,
			reasoned},
		{"claude", `{"type":"result","subtype":"success","usage":{"input_tokens":4,"cache_read_input_tokens":6,` +
			`"output_tokens":3}}`, plain},
		{"gemini", `{"type":"result","status":"success","stats":{"input_tokens":10,"cached":6,"input":4,` +
			`"output_tokens":3}}`, plain},
		{"gemini", `{"type":"result","status":"success","stats":{"total_tokens":13,"input_tokens":10,"cached":6,"input":4,` +
			`"output_tokens":3}}`, plain},
		{"gemini", `{"type":"result","status":"success","stats":{"total_tokens":17,"input_tokens":10,"cached":6,"input":4,` +
			`"output_tokens":3}}`, reasoned},
		{"gemini", `{"type":"result","status":"success","stats":{"total_tokens":-9223372036854775808,"input_tokens":10,` +
			`"cached":6,"output_tokens":3}}`, plain},
		{"opencode", `{"type":"step_finish","part":{"reason":"stop","tokens":{"input":4,"output":3,"cache":{"read":6}}}}`,
			plain},
		{"opencode", `{"type":"step_finish","part":{"reason":"stop","tokens":{"total":17,"input":4,"output":3,` +
			`"reasoning":4,"cache":{"read":6}}}}`, reasoned},
		{"opencode", turn + `"totalTokens":17,"inputTokens":4,"cachedReadTokens":6,"outputTokens":3,"thoughtTokens":4}}}`,
			reasoned},
	} {
		a, _ := known.Agents.Find(c.agent)
		messages, fold := backendtest.Fold(a.Backend, backendtest.Output([]byte(c.line+"\n")))
		if got := fold.Record.Spent().Total; got == nil || *got != c.want {
			t.Errorf("%s: %s: the record has %+v, want %+v", c.agent, c.line, got, c.want)
		}
		told := false
		for _, m := range messages {
			var e struct {
				Data struct {
					Schema string
					Usage  map[string]int64
				}
			}
			if err := json.Unmarshal(m.Body, &e); err != nil {
				t.Fatal(err)
			}
			if e.Data.Usage == nil {
				continue
			}
			told = true
			if got := a.CountersOf(e.Data.Schema).Usage(e.Data.Usage); got != c.want {
				t.Errorf("%s: %s: the event has %+v, want %+v", c.agent, c.line, got, c.want)
			}
		}
		if !told {
			t.Errorf("%s: %s: no event has the tokens", c.agent, c.line)
		}
	}
}
