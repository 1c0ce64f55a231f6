package claude_test

import (
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/runs"
)

// The files are those of Claude Code 2.1.330.
func TestStatusOfAProgram(t *testing.T) {
	const file = `{"pid":5314,"sessionId":"d7af7cc4-cc44-4f90-9a38-7ac0a4195d01","cwd":"/x","startedAt":1795774160529,` +
		`"procStart":"5575647","version":"2.1.330","kind":"interactive","entrypoint":"cli",` +
		`"pidDomain":"linux:3d1219c7c4c5404aaa1f6d2a48adfda4:pid:[4026531836]"`
	const session = "d7af7cc4-cc44-4f90-9a38-7ac0a4195d01"
	for name, c := range map[string]struct {
		rest string
		want runs.Presence
	}{
		"idle": {`,"status":"idle","updatedAt":9,"statusUpdatedAt":7}`, runs.Presence{Does: runs.Rests, Since: 7}},
		"busy": {`,"status":"busy","statusUpdatedAt":7}`, runs.Presence{Does: runs.Works, Since: 7}},
		"a permission": {`,"status":"waiting","statusUpdatedAt":7,"waitingFor":"permission prompt"}`,
			runs.Presence{Does: runs.Waits, Since: 7}},
		"a question": {`,"status":"waiting","statusUpdatedAt":7,"waitingFor":"input needed"}`,
			runs.Presence{Does: runs.Waits, Since: 7}},
		"a menu is open": {`,"status":"waiting","statusUpdatedAt":7,"waitingFor":"dialog open"}`, runs.Presence{Since: 7}},
		"an old version": {`}`, runs.Presence{}},
		"a new status":   {`,"status":"dreaming"}`, runs.Presence{}},
	} {
		got, ok := claude.Agent.Sessions.Status([]byte(file + c.rest))
		want := agent.Status{Session: session, Presence: c.want, PID: 5314, Start: 5575647, Namespace: "pid:[4026531836]"}
		if !ok || got != want {
			t.Errorf("%s: %+v, %t; want %+v", name, got, ok, want)
		}
	}
	for _, bad := range []string{"", "{", "7", `{"pid":1}`, `{"pid":-1,"sessionId":"x"}`, `{"pid":"1","sessionId":"x"}`,
		`{"pid":1.5,"sessionId":"x"}`, `{"pid":1,"sessionId":7}`} {
		if s, ok := claude.Agent.Sessions.Status([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, s)
		}
	}
	mac := `{"pid":7,"sessionId":"x","procStart":"Fri Nov 27 10:09:20 2026"}`
	if s, ok := claude.Agent.Sessions.Status([]byte(mac)); !ok || s.PID != 7 || s.Start != 0 {
		t.Errorf("a date: %+v, %t", s, ok)
	}
}

func TestLogRestsAfterItsLastTurn(t *testing.T) {
	message := func(role, rest string) string {
		return `{"type":"` + role + `","message":{"role":"` + role + `",` + rest + `}}`
	}
	const interrupted = `"content":[{"type":"text","text":"[Request interrupted by user]"}]`
	for line, want := range map[string][2]bool{ // rests, known
		message("assistant", `"content":[],"stop_reason":"end_turn"`):       {true, true},
		message("assistant", `"content":[],"stop_reason":"tool_use"`):       {false, true},
		message("assistant", `"content":[],"stop_reason":null`):             {false, true},
		message("user", `"content":"Go."`):                                  {false, true},
		message("user", `"content":"<command-name>/model</command-name>"`):  {false, false},
		message("user", interrupted):                                        {true, true},
		message("user", `"content":[{"type":"tool_result","content":"x"}]`): {false, true},
		`{"type":"system","subtype":"turn_duration","durationMs":1}`:        {true, true},
		`{"type":"system","subtype":"local_command"}`:                       {false, false},
		`{"type":"mode","mode":"normal"}`:                                   {false, false},
		`{"type":"user"`:                                                    {false, false},
		"":                                                                  {false, false},
	} {
		rests, known := claude.Agent.Sessions.Rests([]byte(line))
		if (known || want[1]) && (rests != want[0] || known != want[1]) {
			t.Errorf("%s: rests %t, known %t; want %v", line, rests, known, want)
		}
	}
	got := claude.Agent.Sessions.Name("projects/-home-x/ID/subagents/agent-1.jsonl")
	if got != "ID/subagents/agent-1.jsonl" {
		t.Errorf("name %q", got)
	}
}
