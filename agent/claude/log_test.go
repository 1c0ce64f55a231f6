package claude_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/claude"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestSessionLogContract(t *testing.T) {
	for _, folder := range []string{"*", "*/*/subagents"} {
		backendtest.Run(t, backendtest.Suite{
			Backend:  claude.Backend{},
			Corpus:   "../../test/corpus/claude-sessions/" + folder,
			Followed: true,
			Checks:   5,
			Golden:   "testdata/golden/sessions",
			Shown: []string{
				"type", "subtype", "sessionId", "agentId", "uuid", "version", "promptSource", "message.id",
				"message.stop_reason", "message.content[].type", "message.content[].text", "message.content[].thinking",
				"message.content[].id", "message.content[].name", "message.content[].tool_use_id",
			},
			Recorded: []string{
				"message.content[].input.command", "message.content[].input.file_path", "cwd",
				"message.model", "message.content", "customTitle", "aiTitle",
				"message.content[].input.todos[].content", "message.content[].input.todos[].status",
				"message.content[].content", "toolUseResult.filePath", "toolUseResult.type",
			},
		})
	}
}

// The log of a fork begins with a copy of the messages of the other session.
func TestForkHasItsOwnMessages(t *testing.T) {
	for file, want := range map[string]struct {
		text  string
		turns int64
	}{
		"forks/claude-fork.jsonl": {"Third.", 1},
		"claude-sessions/2.1.330-fork/c18aa021-1fc6-4782-acf7-f706f71172eb.jsonl": {"42 again.", 1},
	} {
		log, err := os.ReadFile(filepath.Join("../../test/corpus", file))
		if err != nil {
			t.Fatal(err)
		}
		messages, fold := backendtest.Fold(claude.Backend{}, backendtest.Output(log))
		var all []byte
		for _, m := range messages {
			all = append(all, m.Body...)
		}
		r := fold.Record
		count := func(text string) int { return bytes.Count(all, []byte(text)) }
		if s := r.Spent(); s.Own == nil || s.Own.Input != 1200 || s.Own.Output != 80 || *s.Total != *s.Own ||
			r.TurnsDone != want.turns || r.ToolCalls != 0 || r.InTurn ||
			count("TextOutput") != 1 || count(want.text) == 0 || count("turn started") != 1 {
			t.Errorf("%s: %s\n%s", file, r.JSON(), all)
		}
	}
}

// logged returns a line of a session log.
func logged(members string) string {
	return `{"parentUuid":"p","isSidechain":false,` + members + `,"uuid":"u","timestamp":"2026-11-21T09:41:55.996Z",` +
		`"entrypoint":"cli","cwd":"SECRET","sessionId":"s","version":"2.1.330","gitBranch":"SECRET"}`
}

// reply returns a line of a message of the agent.
func reply(id, stop, block string) string {
	return logged(`"type":"assistant","message":{"id":"` + id + `","role":"assistant","content":[` + block +
		`],"stop_reason":` + stop + `,"usage":{"input_tokens":1,"output_tokens":2,"speed":"SECRET"}}`)
}

func TestSessionLogMapping(t *testing.T) {
	status := func(message string) string { return backendtest.Status(message, "") }
	used := `{"schema":"backend.claude_code.usage.v1","usage":{"input_tokens":1,"output_tokens":2}}`
	handled := func(events ...string) []string { return append(events, backendtest.ExtraHandle("s")) }
	first := func(message string) string { return backendtest.Status(message, backendtest.Handle("s")) }
	text := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	prompt := logged(`"type":"user","promptSource":"typed","message":{"role":"user","content":"SECRET"}`)
	backendtest.Map(t, claude.Backend{}, []backendtest.Case{
		{"a turn", []string{prompt, reply("m", `"end_turn"`, text("Hi."))}, []string{first("turn started"),
			backendtest.Text("assistant", "Hi."), backendtest.Status("turn completed", used)}},
		{"each block of a message has its usage", []string{prompt,
			reply("m", `"end_turn"`, `{"type":"thinking","thinking":"Hm.","signature":"SECRET"}`),
			reply("m", `"end_turn"`, text("A")), reply("m", `"end_turn"`, text("B"))},
			[]string{first("turn started"), backendtest.Text("reasoning", "Hm."), backendtest.Text("assistant", "A"),
				backendtest.Status("turn completed", used), backendtest.Text("assistant", "B")}},
		{"a message in two lines", []string{prompt, reply("m", "null", text("A")), reply("m", `"tool_use"`,
			`{"type":"tool_use","id":"t","name":"Bash","input":{"command":"SECRET"}}`)},
			[]string{first("turn started"), backendtest.Text("assistant", "A"), backendtest.Tool("ToolCall",
				`"backend_item_id":"u","thread_id":"s","turn_id":"synthetic-turn-1","kind":"tool_use","phase":"start",`+
					`"status":"running","tool_name":"Bash","tool_use_id":"t"`), backendtest.Status("message completed", used)}},
		{"a result", []string{logged(`"type":"user","message":{"role":"user","content":[{"type":"tool_result",` +
			`"tool_use_id":"t","content":"SECRET","is_error":true},{"type":"text","text":"SECRET"}]},` +
			`"toolUseResult":{"stdout":"SECRET","stderr":"S","filePath":"SECRET"}`)},
			handled(backendtest.Tool("ToolResult", `"backend_item_id":"u","thread_id":"s","kind":"tool_result",`+
				`"phase":"fail","status":"failed","tool_use_id":"t","bytes":{"stdout":6,"stderr":1,"result":6}`))},
		{"an interruption", []string{prompt, logged(`"type":"user","message":{"role":"user","content":[` +
			text("[Request interrupted by user for tool use]SECRET") + `]}`)},
			[]string{first("turn started"), status("turn aborted")}},
		{"user lines that are not prompts", []string{
			logged(`"type":"user","isMeta":true,"promptSource":"typed","message":{"role":"user","content":"SECRET"}`),
			logged(`"type":"user","message":{"role":"user","content":"<bash-input>SECRET"}`),
			logged(`"type":"user","message":{"role":"user","content":[{"type":"image","source":"SECRET"}]}`)}, handled()},
		{"an API error", []string{prompt, logged(`"type":"assistant","isApiErrorMessage":true,"error":"SECRET",` +
			`"message":{"id":"m","stop_reason":"stop_sequence","content":[` + text("No.") + `]}`)},
			[]string{first("turn started"), backendtest.Failure("No.", ""), status("turn failed")}},
		{"a sub-agent in a log of its own", []string{strings.Replace(reply("m", `"end_turn"`, text("A")),
			`"isSidechain":false`, `"isSidechain":true,"agentId":"a"`, 1)},
			[]string{backendtest.Text("subagent", "A"), backendtest.Status("turn completed", used),
				backendtest.ExtraHandle("a")}},
		{"a sub-agent in the log of its parent", []string{strings.Replace(reply("m", `"end_turn"`, text("A")),
			`"isSidechain":false`, `"isSidechain":true`, 1)}, handled(backendtest.Text("subagent", "A"))},
		{"the system", []string{logged(`"type":"system","subtype":"compact_boundary","content":"SECRET"`),
			logged(`"type":"system","subtype":"api_error","error":{"message":"SECRET"}`),
			logged(`"type":"system","subtype":"local_command","content":"SECRET"`)},
			[]string{first("system compact_boundary"), status("system api_error")}},
		{"the cost", []string{`{"type":"cost-state","sessionId":"s","totalCostUSD":0.5,"modelUsage":{"SECRET":1}}`,
			`{"type":"cost-state","sessionId":"s","totalCostUSD":"SECRET"}`},
			[]string{backendtest.Status("cost", `{"schema":"backend.claude_code.usage.v1","usage":{},"total_cost_usd":0.5}`),
				backendtest.ExtraHandle("s"), status("cost")}},
		{"what a subscriber does not need", []string{`{"type":"summary","summary":"SECRET","leafUuid":"SECRET"}`,
			`{"type":"file-history-snapshot","messageId":"m","snapshot":"SECRET"}`,
			`{"type":"file-history-delta","trackingPath":"SECRET"}`,
			`{"type":"queue-operation","sessionId":"s","content":"SECRET"}`,
			`{"type":"last-prompt","sessionId":"s","lastPrompt":"SECRET"}`,
			`{"type":"relocated","sessionId":"s","relocatedCwd":"SECRET"}`,
			`{"type":"api-request-blob","sessionId":"s","message":{"content":[` + text("SECRET") + `]}}`,
			`{"type":"attachment","sessionId":"s","attachment":{"content":"SECRET"}}`}, handled()},
		{"unknown", []string{logged(`"type":"SECRET"`), logged(`"type":"system","subtype":"SECRET"`),
			`{"type":"SECRET","sessionId":"s"}`},
			[]string{backendtest.Unknown, backendtest.ExtraHandle("s"), backendtest.Unknown, backendtest.Unknown}},
		{"malformed", []string{reply("m", "null", `{"type":"text","text":7}`)}, []string{backendtest.Fault(claude.Backend{},
			"parse", "invalid payload", reply("m", "null", `{"type":"text","text":7}`))}},
	})
}

// Whatever a log holds of the user and of the instructions stays in it.
func TestOnlyWordsOfTheAgentLeaveASessionLog(t *testing.T) {
	backendtest.Tainted(t, claude.Backend{}, "../../test/corpus/claude-sessions/*/*.jsonl", func(line map[string]any) {
		if line["type"] != "assistant" {
			secret(line)
		}
	})
}

// secret adds a word to all texts but those that say what a line is.
func secret(v any) any {
	switch v := v.(type) {
	case string:
		return v + "SECRET"
	case []any:
		for i := range v {
			v[i] = secret(v[i])
		}
	case map[string]any:
		for key, value := range v {
			if !slices.Contains([]string{"type", "subtype", "sessionId", "uuid", "agentId", "tool_use_id", "version"}, key) {
				v[key] = secret(value)
			}
		}
	}
	return v
}

// The first message of a log tells which session it is of, and whether that is headless.
func TestOriginOfSessions(t *testing.T) {
	for _, c := range []struct {
		folder string
		want   bool
	}{{"interactive", false}, {"interactive-interrupt", false}, {"tools", true}, {"2.1.330-subagent/*/subagents", true}} {
		files, err := filepath.Glob("../../test/corpus/claude-sessions/" + c.folder + "/*.jsonl")
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		told := false
		for line := range bytes.Lines(text) {
			if o, known := claude.Agent.Sessions.Origin(line); known && !told {
				told = true
				sub := strings.Contains(c.folder, "subagents")
				if o.Headless != c.want || o.Sub != sub || len(o.Session) != 36 ||
					strings.HasPrefix(filepath.Base(files[0]), o.Session) == sub {
					t.Errorf("%s: %+v", c.folder, o)
				}
			}
		}
		if !told {
			t.Errorf("%s: not told", c.folder)
		}
	}
	for entry, want := range map[string]bool{"sdk-cli": true, "sdk-ts": true, "cli": false} {
		if o, known := claude.Agent.Sessions.Origin([]byte(logged(`"type":"user","entrypoint":"` + entry + `"`))); !known ||
			o.Headless != want {
			t.Errorf("%s: %+v", entry, o)
		}
	}
	for path, want := range map[string]bool{
		"projects/-home-dev/3e3aa6c6.jsonl": true, "projects/-home-dev/3e3aa6c6/subagents/agent-a1.jsonl": true,
		"projects/-home-dev/3e3aa6c6/other/agent-a1.jsonl": false, "history.jsonl": false,
		"projects/-home-dev/3e3aa6c6.json": false, "-home-dev/3e3aa6c6.jsonl": false,
	} {
		if claude.Agent.Sessions.Has(path) != want {
			t.Errorf("%s: want %t", path, want)
		}
	}
}

// Of a session log types are compared with what is known, and the blocks of messages.
func TestDriftOfASessionLog(t *testing.T) {
	lines := []string{logged(`"type":"user","new":1,"message":{"role":"user","new":1,"content":"x"}`),
		logged(`"type":"new_type"`), logged(`"type":"system","subtype":"new_subtype"`), `{"type":"mode","new":1}`}
	_, fold := backendtest.Fold(claude.Backend{}, backendtest.Output([]byte(strings.Join(lines, "\n")+"\n")))
	var got []string
	for _, thing := range fold.Record.Drift.Things {
		got = append(got, string(thing.What)+" "+thing.Name)
	}
	if want := []string{"type new_type", "type system/new_subtype"}; !slices.Equal(got, want) {
		t.Errorf("drift %q, want %q", got, want)
	}
}
