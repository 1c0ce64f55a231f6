package known_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
)

// Of each agent, a line of totals behind a command that runs tests by way of another program counts, and
// behind another command it does not.
func TestTotalsBehindMakeCount(t *testing.T) {
	lines := map[string]string{
		"codex": `{"type":"turn.started"}
{"type":"item.completed","item":{"id":"i","type":"command_execution","command":"/bin/bash -lc 'COMMAND'","aggregated_output":"OUTPUT","exit_code":2,"status":"failed"}}
`,
		"claude_code": `{"type":"system","subtype":"init","session_id":"s"}
{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"COMMAND"}}]},"session_id":"s"}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"OUTPUT","is_error":true}]},"session_id":"s"}
`,
		"gemini_cli": `{"type":"init","session_id":"s"}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"t1","parameters":{"command":"COMMAND"}}
{"type":"tool_result","tool_id":"t1","status":"success","output":"OUTPUT"}
`,
		"opencode": `{"type":"tool_use","sessionID":"ses_1","part":{"type":"tool","tool":"bash","callID":"c","state":{"status":"completed","input":{"command":"COMMAND"},"output":"OUTPUT","metadata":{"exit":2}}}}
`,
	}
	for _, a := range known.Agents {
		for command, want := range map[string]bool{"make -C app test": true, "cat notes": false} {
			text := strings.NewReplacer("COMMAND", command, "OUTPUT", `cc\n3 passed, 1 failed\nmake: *** Error 1\n`).
				Replace(lines[a.Kind()])
			fold := normalizer.NewFold(a.Backend, "r", 0)
			fold.Apply(1, runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run"})},
				func(normalizer.Message) {})
			fold.Apply(2, runs.Entry{Kind: runs.Out, Time: 2, Body: []byte(text)}, func(normalizer.Message) {})
			got := fold.Record.Tests
			if (got != nil) != want || want && (got.Passed != 3 || got.Failed != 1) {
				t.Errorf("%s, %s: %+v", a.Kind(), command, got)
			}
		}
	}
}
