package known_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

// notice is the data of a notice of drift.
type notice struct {
	Schema  string    `json:"schema"`
	Agent   string    `json:"agent"`
	Version *string   `json:"version"`
	What    runs.What `json:"what"`
	Hash    string    `json:"name_hash"`
}

// notices returns the notices of drift among messages, and checks their form.
func notices(t *testing.T, messages []normalizer.Message) (found []notice) {
	t.Helper()
	for _, m := range messages {
		var e struct {
			Kind, Channel, Message string
			Data                   json.RawMessage
		}
		if json.Unmarshal(m.Body, &e) != nil || !strings.Contains(string(e.Data), "backend.drift.v1") {
			continue
		}
		var n notice
		d := json.NewDecoder(strings.NewReader(string(e.Data)))
		d.DisallowUnknownFields()
		if err := d.Decode(&n); err != nil {
			t.Errorf("data %s: %v", e.Data, err)
		}
		if e.Kind != "Status" || e.Channel != "status" || e.Message != "drift (redacted): unknown "+string(n.What) {
			t.Errorf("notice %s", m.Body)
		}
		found = append(found, n)
	}
	return found
}

func hash(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])[:12]
}

// Each agent's dialect reports each place where something unknown can stand: once in a
// run, behind the events of the line, without its name. The record has the name.
func TestUnknownThingsBecomeOneNoticeEach(t *testing.T) {
	for _, c := range []struct {
		agent string
		what  runs.What
		name  string
		line  string
	}{
		{"codex", runs.DriftType, "turn.paused", `{"type":"turn.paused"}`},
		{"codex", runs.DriftField, "sandbox", `{"type":"turn.started","sandbox":"SECRET"}`},
		{"codex", runs.DriftItem, "item/image", `{"type":"item.completed","item":{"type":"image"}}`},
		{"codex", runs.DriftField, "item.memoryId",
			`{"type":"item.completed","item":{"type":"agent_message","text":"x","memoryId":"SECRET"}}`},
		{"codex", runs.DriftStatus, "command_execution/paused",
			`{"type":"item.completed","item":{"type":"command_execution","status":"paused"}}`},
		{"codex", runs.DriftField, "usage.audio_tokens", `{"type":"turn.completed","usage":{"audio_tokens":1}}`},
		{"claude", runs.DriftType, "goal", `{"type":"goal","session_id":"s"}`},
		{"claude", runs.DriftType, "system/goal_state", `{"type":"system","subtype":"goal_state","session_id":"s"}`},
		{"claude", runs.DriftField, "init.goal", `{"type":"system","subtype":"init","goal":"SECRET"}`},
		{"claude", runs.DriftField, "message.mood", `{"type":"assistant","message":{"content":[],"mood":"SECRET"}}`},
		{"claude", runs.DriftItem, "assistant/video",
			`{"type":"assistant","message":{"content":[{"type":"video"},{"type":"video"}]}}`},
		{"claude", runs.DriftField, "message.content.tone",
			`{"type":"assistant","message":{"content":[{"type":"text","text":"x","tone":"SECRET"}]}}`},
		{"claude", runs.DriftStatus, "result/paused", `{"type":"result","subtype":"paused"}`},
		{"claude", runs.DriftField, "usage.audio_tokens",
			`{"type":"result","subtype":"success","usage":{"audio_tokens":1}}`},
		{"gemini", runs.DriftType, "thought", `{"type":"thought"}`},
		{"gemini", runs.DriftField, "mood", `{"type":"init","mood":"SECRET"}`},
		{"gemini", runs.DriftItem, "message/system", `{"type":"message","role":"system","content":"SECRET"}`},
		{"gemini", runs.DriftStatus, "tool_result/paused", `{"type":"tool_result","status":"paused"}`},
		{"gemini", runs.DriftStatus, "result/paused", `{"type":"result","status":"paused"}`},
		{"gemini", runs.DriftField, "stats.thoughts", `{"type":"result","status":"success","stats":{"thoughts":1}}`},
		{"opencode", runs.DriftType, "patch", `{"type":"patch"}`},
		{"opencode", runs.DriftField, "mood", `{"type":"step_start","mood":"SECRET"}`},
		{"opencode", runs.DriftField, "part.mood", `{"type":"text","part":{"text":"x","mood":"SECRET"}}`},
		{"opencode", runs.DriftStatus, "tool_use/paused", `{"type":"tool_use","part":{"state":{"status":"paused"}}}`},
		{"opencode", runs.DriftField, "part.state.mood",
			`{"type":"tool_use","part":{"state":{"status":"completed","mood":"SECRET"}}}`},
		{"opencode", runs.DriftStatus, "step_finish/paused", `{"type":"step_finish","part":{"reason":"paused"}}`},
		{"opencode", runs.DriftField, "part.tokens.audio",
			`{"type":"step_finish","part":{"reason":"stop","tokens":{"audio":1}}}`},
	} {
		t.Run(c.agent+" "+c.name, func(t *testing.T) {
			a, _ := known.Agents.Find(c.agent)
			messages, fold := backendtest.Fold(a.Backend, backendtest.Output([]byte(c.line+"\n"+c.line+"\n")))
			want := []notice{{"backend.drift.v1", a.Kind(), nil, c.what, hash(c.name)}}
			if got := notices(t, messages); !slices.Equal(got, want) {
				t.Errorf("notices %v, want %v", got, want)
			}
			if m := messages[len(messages)-1]; strings.Contains(string(m.Body), "drift") {
				t.Errorf("the notice of the first line is the last message: %s", m.Body)
			}
			for _, m := range messages {
				if word := c.name[strings.LastIndexAny(c.name, "./")+1:]; strings.Contains(string(m.Body), word) ||
					strings.Contains(string(m.Body), "SECRET") {
					t.Errorf("leaks: %s", m.Body)
				}
			}
			d := fold.Record.Drift
			if d == nil || len(d.Things) != 1 || d.Things[0].What != c.what || d.Things[0].Name != c.name ||
				d.Things[0].Line != 1 || d.Things[0].Count < 2 || d.Count != d.Things[0].Count || d.Others {
				t.Errorf("the record has %+v", d)
			}
			backendtest.Saved(t, a.Backend, c.line, c.line)
		})
	}
}

// Many unknown things are counted, but few are listed and told.
func TestNoticesOfDriftAreBounded(t *testing.T) {
	for _, a := range known.Agents {
		var out strings.Builder
		for i := range 100 {
			fmt.Fprintf(&out, "{\"type\":\"new_%d\"}\n", i)
		}
		out.WriteString(`{"type":"x"` + strings.Repeat(`,"y":1`, 1000) + "}\n")
		messages, fold := backendtest.Fold(a.Backend, backendtest.Output([]byte(out.String())))
		d := fold.Record.Drift
		if n := len(notices(t, messages)); n != 12 || len(d.Things) != n || !d.Others ||
			d.Count < 101 || d.Count > 200 {
			t.Errorf("%s: %d notices, and the record has %d, %d in all", a.Short, n, len(d.Things), d.Count)
		}
	}
}

// The version that a line or the worker tells is in the record and in notices.
func TestNoticeOfDriftHasTheVersion(t *testing.T) {
	for short, c := range map[string]struct{ told, line, want string }{
		"codex":  {"0.169.0", `{"type":"x"}`, "0.169.0"},
		"claude": {"", `{"type":"system","subtype":"init","claude_code_version":"2.1.330","x":1}`, "2.1.330"},
		"gemini": {"SECRET", `{"type":"x"}`, ""},
	} {
		a, _ := known.Agents.Find(short)
		log := backendtest.Output([]byte(c.line + "\n"))
		log[0].Body = runs.Encode(runs.Start{Source: "run", Version: c.told})
		messages, fold := backendtest.Fold(a.Backend, log)
		n := notices(t, messages)
		if len(n) != 1 || fold.Record.Version != c.want || (n[0].Version == nil) != (c.want == "") ||
			n[0].Version != nil && *n[0].Version != c.want {
			t.Errorf("%s: %v, and the record has version %q", short, n, fold.Record.Version)
		}
	}
}

// The protocol of Codex before 0.44 becomes one notice, whatever its lines say.
func TestProtocolBeforeCodex044BecomesOneNotice(t *testing.T) {
	a, _ := known.Agents.Find("codex")
	messages, fold := backendtest.Fold(a.Backend, backendtest.Output([]byte(`{"model":"m","approval":"never"}
{"prompt":"SECRET"}
{"id":"0","msg":{"type":"task_started"}}
{"id":"0","msg":{"type":"agent_message","message":"SECRET"}}
`)))
	if len(messages) != 1 || len(notices(t, messages)) != 1 || fold.Record.Drift.Things[0].What != runs.DriftProtocol ||
		fold.Record.Unknown != 4 || fold.Record.Malformed != 0 {
		t.Errorf("%d messages, record %s", len(messages), fold.Record.JSON())
	}
}
