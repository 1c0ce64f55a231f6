package normalizer_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// That an agent was started without its sandbox is the first event of its run, once; of other runs it is none.
func TestWarningOfAnExternalSandboxIsTheFirstEvent(t *testing.T) {
	const line = `{"type":"thread.started","thread_id":"01a1fe74-f5b4-7e33-89c9-b25c3e636bcc"}` + "\n"
	const want = `{"agent_kind":"codex","kind":"Status","channel":"status","text":null,"message":"DANGEROUS: external sandbox ` +
		`exec policy enabled (agent_api.exec.external_sandbox.v1=true)","data":null}`
	code := 0
	for _, unboxed := range []bool{true, false} {
		start := runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "queue", Unboxed: unboxed})}
		queued := runs.Entry{Kind: runs.Queued, Time: 1, Body: runs.Encode(runs.Start{Source: "queue"})}
		log := []runs.Entry{
			queued, start, start, {Kind: runs.Out, Time: 2, Body: []byte(line + messageLine + completeLine)},
			{Kind: runs.Exited, Time: 3, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})},
		}
		messages, fold := backendtest.Fold(codex.Backend{}, log)
		found := 0
		for i, m := range messages {
			if strings.Contains(string(m.Body), "DANGEROUS") {
				if found++; i != 0 || string(m.Body) != want || m.Line != 0 || m.Part != 1 {
					t.Errorf("message %d of line %d, part %d: %s", i, m.Line, m.Part, m.Body)
				}
			}
		}
		if unboxed != (found == 1) || fold.Record.Unboxed != unboxed {
			t.Errorf("external sandbox %t: %d warnings", unboxed, found)
		}
		backendtest.Check(t, "codex", messages)
	}
}

// A program that refuses an option ends its run with a fixed text, and nothing of what it printed.
func TestRefusedOptionEndsWithAFixedText(t *testing.T) {
	code := 2
	messages, _ := backendtest.Fold(codex.Backend{}, []runs.Entry{
		{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "queue", Flags: []string{"--add-dir"}})},
		{Kind: runs.ErrOut, Time: 2, Body: []byte("error: unexpected argument '--add-dir=/secret' found")},
		{Kind: runs.Exited, Time: 3, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})},
	})
	if len(messages) != 2 || !strings.Contains(string(messages[0].Body), `"kind":"Error"`) ||
		!strings.Contains(string(messages[0].Body), `"message":"`+runs.OptionRefused+`"`) ||
		!strings.Contains(string(messages[1].Body), `"error":{"kind":"backend","message":"`+runs.OptionRefused+`"}`) {
		t.Errorf("%d messages, the first: %s", len(messages), messages[0].Body)
	}
}
