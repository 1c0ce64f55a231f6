package agent_test

import (
	"fmt"
	"testing"

	"github.com/linesman/linesman/agent"
	"github.com/linesman/linesman/runs"
)

// What the agents pass to a hook, of which only the session and what it does leave it.
func TestHookInput(t *testing.T) {
	const session = "d7af7cc4-cc44-4f90-9a38-7ac0a4195d01"
	event := func(name, more string) string {
		return fmt.Sprintf(`{"session_id":%q,"transcript_path":"/secret","cwd":"/secret","hook_event_name":%q%s}`,
			session, name, more)
	}
	for name, c := range map[string]struct {
		input string
		want  runs.Does
	}{
		"a permission":       {event("PermissionRequest", `,"tool_name":"Bash","tool_input":{"command":"secret"}`), runs.Waits},
		"a notice of it":     {event("Notification", `,"notification_type":"permission_prompt","message":"secret"`), runs.Waits},
		"a dialog":           {event("Notification", `,"notification_type":"elicitation_dialog"`), runs.Waits},
		"a prompt":           {event("Notification", `,"notification_type":"idle_prompt"`), runs.Rests},
		"an old version":     {event("Notification", `,"message":"Claude needs your permission to use Bash"`), runs.Waits},
		"an old version's 2": {event("Notification", `,"message":"Claude is waiting for your input"`), runs.Rests},
		"another notice":     {event("Notification", `,"notification_type":"auth_success","message":"permission"`), ""},
		"a start":            {event("SessionStart", `,"source":"startup"`), runs.Works},
		"another event":      {event("PreToolUse", ""), ""},
		"no id":              {`{"hook_event_name":"PermissionRequest"}`, ""},
		"a path for an id":   {`{"session_id":"../../x","hook_event_name":"PermissionRequest"}`, ""},
		"no JSON":            {"{", ""},
		"nothing":            {"", ""},
	} {
		s, ok := agent.HookInput([]byte(c.input), 7)
		if ok != (c.want != "") || ok && (s.Does != c.want || s.Session != session || s.Since != 7) {
			t.Errorf("%s: %+v, %t; want %q", name, s, ok, c.want)
		}
		if !ok {
			continue
		}
		file, err := agent.HookFile(s)
		want := fmt.Sprintf(`{"session":%q,"does":%q,"since":7}`, session, c.want)
		if err != nil || string(file) != want {
			t.Errorf("%s: file %s, %v; want %s", name, file, err, want)
		}
		if back, ok := agent.HookStatus(file); !ok || back != s {
			t.Errorf("%s: read back: %+v, %t", name, back, ok)
		}
	}
	for _, bad := range []string{"", "{", `{"session":"x","does":"works"}`, `{"session":"` + session + `"}`} {
		if s, ok := agent.HookStatus([]byte(bad)); ok {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func TestDirectoriesThatHaveLogs(t *testing.T) {
	s := agent.Sessions{Files: []string{"sessions/*/rollout-*.jsonl", "archived/rollout-*.jsonl"}}
	for dir, want := range map[string]bool{
		"sessions": true, "sessions/2026": true, "archived": true, "packages": false,
		"sessions/2026/11": false, "archived/x": false,
	} {
		if s.Below(dir) != want {
			t.Errorf("%s: want %t", dir, want)
		}
	}
}
