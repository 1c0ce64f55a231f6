package codex_test

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/codex"
	"github.com/linesman/linesman/normalizer"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestSessionLogContract(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Backend:  codex.Backend{},
		Corpus:   "../../test/corpus/codex-sessions/*",
		Followed: true,
		Checks:   5,
		Golden:   "testdata/golden/sessions",
		Shown: []string{
			"type", "payload.type", "payload.id", "payload.role", "payload.name", "payload.call_id", "payload.status",
			"payload.cli_version", "payload.thread_id", "payload.turn_id", "payload.message", "payload.error.message",
			"payload.content[].type", "payload.content[].text", "payload.summary[].type", "payload.summary[].text",
			"payload.item.type", "payload.item.id", "payload.item.status", "payload.item.tool",
		},
		Recorded: []string{"payload.item.aggregated_output", "payload.cwd", "payload.model", "payload.item.content[].text",
			"payload.thread_name"},
	})
}

// rolloutLine returns a line of a session log.
func rolloutLine(typ, payload string) string {
	return fmt.Sprintf(`{"timestamp":"2026-11-21T09:42:15.438Z","ordinal":1,"type":%q,"payload":%s}`, typ, payload)
}

func eventMsg(payload string) string     { return rolloutLine("event_msg", payload) }
func responseItem(payload string) string { return rolloutLine("response_item", payload) }

func TestSessionLogMapping(t *testing.T) {
	status := func(message string) string { return backendtest.Status(message, "") }
	call := responseItem(`{"type":"function_call","id":"fc_1","name":"exec_command","arguments":"SECRET","call_id":"c1"}`)
	answer := responseItem(`{"type":"function_call_output","call_id":"c1","output":"SECRET"}`)
	command := eventMsg(`{"type":"item_completed","thread_id":"t","turn_id":"u","item":{"type":"CommandExecution","id":"c1",` +
		`"command":["SECRET"],"cwd":"SECRET","status":"failed","aggregated_output":"SECRET","exit_code":3}}`)
	called := backendtest.Tool("ToolCall", `"backend_item_id":"c1","kind":"function_call","phase":"start",`+
		`"status":"running","tool_name":"exec_command"`)
	answered := backendtest.Tool("ToolResult", `"backend_item_id":"c1","kind":"function_call","phase":"complete",`+
		`"status":"completed","tool_name":"exec_command","bytes":{"result":6}`)
	ended := backendtest.Tool("ToolResult", `"backend_item_id":"c1","turn_id":"u","kind":"command_execution",`+
		`"phase":"fail","status":"failed","exit_code":3,"bytes":{"stdout":6},"thread_id":"t"`)
	usage := `{"input_tokens":1,"cached_input_tokens":2,"output_tokens":3,"total_tokens":4}`
	backendtest.Map(t, codex.Backend{}, []backendtest.Case{
		{"the first line", []string{rolloutLine("session_meta", `{"id":"t","cwd":"SECRET","cli_version":"0.169.0",`+
			`"base_instructions":{"text":"SECRET"},"git":{"branch":"SECRET"}}`)},
			[]string{backendtest.Status("thread started", backendtest.Handle("t"))}},
		{"a fork begins with a copy of its parent's log", []string{rolloutLine("session_meta", `{"id":"t"}`),
			rolloutLine("session_meta", `{"id":"parent"}`)},
			[]string{backendtest.Status("thread started", backendtest.Handle("t"))}},
		{"a turn", []string{eventMsg(`{"type":"task_started","turn_id":"u"}`),
			eventMsg(`{"type":"task_complete","turn_id":"u","last_agent_message":"SECRET"}`)},
			[]string{status("turn started"), status("turn completed")}},
		{"its names to come", []string{eventMsg(`{"type":"turn_started","turn_id":"u"}`),
			eventMsg(`{"type":"turn_complete","error":null}`)}, []string{status("turn started"), status("turn completed")}},
		{"a turn that failed", []string{eventMsg(`{"type":"task_complete","error":{"message":"No.","codex_error_info":"SECRET"}}`)},
			[]string{backendtest.Failure("No.", ""), status("turn failed")}},
		{"an interruption", []string{eventMsg(`{"type":"turn_aborted","reason":"interrupted"}`)}, []string{status("turn aborted")}},
		{"a compaction", []string{rolloutLine("compacted", `{"message":"SECRET","replacement_history":["SECRET"]}`)},
			[]string{status("context compacted")}},
		{"an error", []string{eventMsg(`{"type":"error","message":"No."}`)}, []string{backendtest.Failure("No.", "")}},
		{"tokens", []string{eventMsg(`{"type":"token_count","info":{"total_token_usage":` + usage + `},"rate_limits":"SECRET"}`)},
			[]string{backendtest.Status("token count", `{"schema":"backend.codex.usage.v1","usage":`+
				`{"input_tokens":1,"cached_input_tokens":2,"output_tokens":3}}`)}},
		{"no tokens", []string{eventMsg(`{"type":"token_count","info":null}`),
			eventMsg(`{"type":"token_count","info":{"total_token_usage":{"input_tokens":0,"output_tokens":0}}}`)},
			[]string{status("token count"), status("token count")}},
		{"a text is there twice", []string{
			eventMsg(`{"type":"item_completed","item":{"type":"AgentMessage","content":[{"type":"Text","text":"Hi."}]}}`),
			eventMsg(`{"type":"agent_message","message":"Hi."}`),
			responseItem(`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Hi."}]}`)},
			[]string{backendtest.Text("assistant", "Hi.")}},
		{"an unknown block beside a text", []string{responseItem(`{"type":"message","role":"assistant","content":[` +
			`{"type":"output_text","text":"Hi."},{"type":"SECRET","text":"SECRET"}]}`)},
			[]string{backendtest.Unknown, backendtest.Text("assistant", "Hi.")}},
		{"an unknown block alone", []string{responseItem(`{"type":"message","role":"assistant","content":[` +
			`{"type":"SECRET","text":"SECRET"}]}`)}, []string{backendtest.Unknown}},
		{"a summary of reasoning, too", []string{
			eventMsg(`{"type":"item_completed","item":{"type":"Reasoning","summary_text":["A","B"],"raw_content":["SECRET"]}}`),
			eventMsg(`{"type":"agent_reasoning","text":"A"}`),
			responseItem(`{"type":"reasoning","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}],` +
				`"content":[{"type":"reasoning_text","text":"SECRET"}],"encrypted_content":"SECRET"}`),
			responseItem(`{"type":"reasoning","summary":[],"encrypted_content":"SECRET"}`)},
			[]string{backendtest.Text("reasoning", "A\nB")}},
		{"a command that ended before its call was answered", []string{call, command, answer}, []string{called,
			ended, backendtest.ExtraHandle("t")}},
		{"a command that ran on", []string{call, answer, command}, []string{called, answered,
			ended, backendtest.ExtraHandle("t")}},
		{"a call that only the model knows of", []string{call, answer, answer}, []string{called, answered}},
		{"an answer to a call in an earlier run", []string{answer, answer},
			[]string{backendtest.Tool("ToolResult", `"backend_item_id":"c1","kind":"function_call","phase":"complete",`+
				`"status":"completed","bytes":{"result":6}`)}},
		{"a search", []string{responseItem(`{"type":"web_search_call","id":"w","status":"completed","action":{"query":"SECRET"}}`),
			eventMsg(`{"type":"item_completed","item":{"type":"WebSearch","id":"w","query":"SECRET"}}`)},
			[]string{backendtest.Tool("ToolResult", `"backend_item_id":"w","kind":"web_search","phase":"complete",`+
				`"status":"completed"`)}},
		{"an image, and a message of another agent", []string{
			responseItem(`{"type":"image_generation_call","id":"g","status":"completed","revised_prompt":"SECRET","result":"SECRET"}`),
			responseItem(`{"type":"agent_message","author":"SECRET","content":[{"type":"input_text","text":"SECRET"}]}`)},
			[]string{backendtest.Tool("ToolResult", `"backend_item_id":"g","kind":"image_generation","phase":"complete",`+
				`"status":"completed"`)}},
		{"what a subscriber does not need", []string{
			rolloutLine("turn_context", `{"cwd":"SECRET"}`), rolloutLine("world_state", `{"state":"SECRET"}`),
			rolloutLine("token_usage_record", `{"usage":{"input_tokens":7}}`),
			rolloutLine("inter_agent_communication_metadata", `{"x":"SECRET"}`),
			responseItem(`{"type":"message","role":"user","content":[{"type":"input_text","text":"SECRET"}]}`),
			responseItem(`{"type":"message","role":"developer","content":[{"type":"output_text","text":"SECRET"}]}`),
			responseItem(`{"type":"message","role":"system","content":[{"type":"output_text","text":"SECRET"}]}`),
			responseItem(`{"type":"additional_tools","role":"developer","tools":["SECRET"]}`),
			eventMsg(`{"type":"user_message","message":"SECRET"}`),
			eventMsg(`{"type":"patch_apply_end","success":true,"stdout":"SECRET","changes":{"/SECRET":{"type":"add"}}}`),
			eventMsg(`{"type":"mcp_tool_call_end","call_id":"c","result":"SECRET"}`),
			eventMsg(`{"type":"item_completed","item":{"type":"UserMessage","content":[{"type":"text","text":"SECRET"}]}}`),
			eventMsg(`{"type":"thread_settings_applied","thread_settings":{"cwd":"SECRET"}}`)}, nil},
		{"unknown", []string{eventMsg(`{"type":"SECRET"}`), responseItem(`{"type":"message","role":"SECRET"}`),
			responseItem(`{"type":7}`), eventMsg(`{"type":"item_completed","item":{"type":"SECRET"}}`),
			rolloutLine("event_msg", `"SECRET"`), rolloutLine("x", `{}`)}, slices.Repeat([]string{backendtest.Unknown}, 6)},
		{"malformed", []string{responseItem(`{"type":"message","role":"assistant","content":"SECRET"}`)},
			[]string{backendtest.Fault(codex.Backend{}, "parse", "invalid payload",
				responseItem(`{"type":"message","role":"assistant","content":"SECRET"}`))}},
	})
}

// Whatever a log holds of the user and of the instructions stays in it.
func TestOnlyWordsOfTheAgentLeaveASessionLog(t *testing.T) {
	backendtest.Tainted(t, codex.Backend{}, "../../test/corpus/codex-sessions/*/*.jsonl", func(line map[string]any) {
		payload, _ := line["payload"].(map[string]any)
		content, _ := payload["content"].([]any)
		if role := payload["role"]; role == nil || role == "assistant" {
			return
		}
		for _, part := range content {
			part.(map[string]any)["text"] = "SECRET"
		}
	})
}

// The first line of a log tells which session it is of, and whether that is headless.
func TestOriginOfSessions(t *testing.T) {
	sessions := make(map[string][]string)
	for file, want := range map[string]bool{
		"interactive": false, "shell-ok": true, "subagent": true, "0.63-shell-ok": true,
	} {
		for line := range firstLines(t, "../../test/corpus/codex-sessions/"+file+"/*.jsonl") {
			o, known := codex.Agent.Sessions.Origin(line)
			if !known || o.Headless != want || len(o.Session) != 36 {
				t.Errorf("%s: %q, %t, %t, want %t", file, o.Session, o.Headless, known, want)
			}
			sessions[file] = append(sessions[file], o.Session)
		}
	}
	if two := sessions["subagent"]; len(two) != 2 || two[0] != two[1] {
		t.Errorf("a sub-agent has another session than its parent: %q", two)
	}
	line := rolloutLine("session_meta", `{"id":"x","originator":"linesman"}`) // of a live run
	if o, known := codex.Agent.Sessions.Origin([]byte(line)); !known || !o.Headless {
		t.Errorf("%+v", o)
	}
	for _, line := range []string{"", "{", `{"type":"session_meta","payload":7}`, rolloutLine("event_msg", `{}`)} {
		if _, known := codex.Agent.Sessions.Origin([]byte(line)); known {
			t.Errorf("%q tells it", line)
		}
	}
	for path, want := range map[string]bool{
		"sessions/2026/11/21/rollout-2026-11-21T09-42-15-01a1fd7c-2962-7480-bee8-860dd513208c.jsonl": true,
		"archived_sessions/rollout-x.jsonl": true, "archived_sessions/rollout-x.jsonl.zst": false,
		"packages/rollout-x.jsonl":        false,
		"sessions/2026/11/21/other.jsonl": false, "rollout-x.jsonl": false, "sessions/2026/11/21/x/rollout-x.jsonl": false,
	} {
		if codex.Agent.Sessions.Has(path) != want {
			t.Errorf("%s: want %t", path, want)
		}
	}
}

func firstLines(t *testing.T, pattern string) iter.Seq[[]byte] {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal("no recordings", err)
	}
	return func(yield func([]byte) bool) {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if line, _, _ := bytes.Cut(text, []byte{'\n'}); !yield(line) {
				return
			}
		}
	}
}

func TestFactsOfASessionLog(t *testing.T) {
	arguments := func(tool, text string) string {
		return responseItem(fmt.Sprintf(`{"type":"function_call","call_id":"c","name":%q,"arguments":%q}`, tool, text))
	}
	for _, c := range []struct{ line, activity string }{
		{arguments("exec_command", `{"cmd":"go test ./..."}`), "Running go test ./..."},
		{arguments("shell", `{"command":["bash","-lc","go vet"]}`), "Running go vet"},
		{arguments("exec_command", `{"cmd":"go`), "Calling exec_command"},
		{arguments("apply_patch", `*** Begin Patch`), "Editing files"},
		{arguments("update_plan", `{"plan":[{"step":"A","status":"completed"},{"step":"B","status":"pending"}]}`), "B"},
		{arguments("echo", `{"cmd":"x"}`), "Calling echo"},
	} {
		_, fold := backendtest.Fold(codex.Backend{}, backendtest.Output([]byte(c.line+"\n")))
		if got := fold.Record.Activity; got != c.activity {
			t.Errorf("%s: activity %q, want %q", c.line, got, c.activity)
		}
	}
	_, fold := backendtest.Fold(codex.Backend{}, backendtest.Output([]byte(arguments("update_plan",
		`{"plan":[{"step":"A","status":"completed"},{"step":"B","status":"pending"}]}`)+"\n")))
	if p := fold.Record.Progress; p == nil || p.Done != 1 || p.Total != 2 {
		t.Errorf("progress %+v", p)
	}
}

func TestStateOfASessionLogFits(t *testing.T) {
	long := strings.Repeat(`\u0000`, normalizer.MaxThread/len(`\u0000`)-1)
	lines := []string{rolloutLine("session_meta", `{"id":"t`+long+`"}`),
		eventMsg(`{"type":"task_started","turn_id":"` + strings.Repeat("u", normalizer.MaxTurn-2) + `"}`)}
	for i := range 70 {
		id := fmt.Sprintf(`\u0000%0254d`, i)
		lines = append(lines, responseItem(`{"type":"function_call","call_id":"`+id+`","name":"`+id+`"}`))
	}
	backendtest.StateFits(t, codex.Backend{}, lines...)
}

// Of a session log types are compared with what is known, and no fields.
func TestDriftOfASessionLog(t *testing.T) {
	lines := []string{rolloutLine("turn_context", `{"new":1}`),
		eventMsg(`{"type":"item_completed","new":1,"item":{"type":"UserMessage","new":1}}`), eventMsg(`{"type":"new_message"}`),
		responseItem(`{"type":"new_response"}`), eventMsg(`{"type":"item_completed","item":{"type":"NewItem"}}`)} // of that only a hash is kept
	_, fold := backendtest.Fold(codex.Backend{}, backendtest.Output([]byte(strings.Join(lines, "\n")+"\n")))
	var got []string
	for _, thing := range fold.Record.Drift.Things {
		got = append(got, string(thing.What)+" "+thing.Name)
	}
	if want := []string{"item event_msg/new_message", "item response_item/new_response", "item "}; !slices.Equal(
		got, want) {
		t.Errorf("drift %q, want %q", got, want)
	}
}

func TestLogRestsAfterItsLastTurn(t *testing.T) {
	for line, want := range map[string][2]bool{ // rests, known
		rolloutLine("event_msg", `{"type":"task_started"}`):      {false, true},
		rolloutLine("event_msg", `{"type":"task_complete"}`):     {true, true},
		rolloutLine("event_msg", `{"type":"turn_aborted"}`):      {true, true},
		rolloutLine("event_msg", `{"type":"token_count"}`):       {false, false},
		rolloutLine("response_item", `{"type":"task_complete"}`): {false, false},
		rolloutLine("event_msg", `7`):                            {false, false},
		"{":                                                      {false, false},
	} {
		if rests, known := codex.Agent.Sessions.Rests([]byte(line)); rests != want[0] || known != want[1] {
			t.Errorf("%s: rests %t, known %t; want %v", line, rests, known, want)
		}
	}
}

// Up to 0.77 Codex logs no turns, and each process counts the tokens from zero.
func TestLogsWithoutTurns(t *testing.T) {
	for folder, want := range map[string]struct {
		turns, input int64
		partial      bool
		final        string
	}{
		"0.63-shell-ok":   {1, 2400, false, "Two files."},
		"0.77-shell-fail": {1, 4800, false, "All of them ran."},
		"0.77-resume":     {2, 1200, true, "42."},
	} {
		files, err := filepath.Glob("../../test/corpus/codex-sessions/" + folder + "/*.jsonl")
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		log, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		_, fold := backendtest.Fold(codex.Backend{}, backendtest.Output(log))
		r := fold.Record
		r.End(runs.Exit{Reason: runs.ReasonEOF}, 1)
		if s := r.Spent(); r.State != runs.StateCompleted || r.TurnsDone != want.turns || r.TurnsBad != 0 || s.Total == nil ||
			s.Total.Input != want.input || s.Partial != want.partial || r.FinalText == nil || *r.FinalText != want.final {
			t.Errorf("%s: %s", folder, r.JSON())
		}
	}
}

// calls counts the calls that an observer was told of.
type calls int

func (c *calls) CallEnded(string, string, string, int64)    { *c++ }
func (*calls) TurnEnded(runs.Turn, int64)                   {}
func (*calls) Asked(string)                                 {}
func (*calls) Settled(kind, outcome, by string, took int64) {}
func (*calls) Message(string)                               {}

// A command that runs on after its call was answered has two results, and is one call.
func TestACallThatEndsTwiceCountsOnce(t *testing.T) {
	call := responseItem(`{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"c1"}`)
	answer := responseItem(`{"type":"function_call_output","call_id":"c1","output":"x"}`)
	ended := eventMsg(`{"type":"item_completed","item":{"type":"CommandExecution","id":"c1","status":"failed","exit_code":3}}`)
	long := strings.Repeat("l", 500) // is open, and not listed
	other := responseItem(`{"type":"function_call","name":"exec_command","arguments":"{}","call_id":"` + long + `"}`)
	for _, c := range []struct {
		lines            []string
		calls, more, end int64
	}{
		{[]string{call, answer, ended}, 1, 0, 1}, {[]string{call, ended, answer}, 1, 0, 1}, {[]string{ended}, 1, 0, 1},
		{[]string{call, answer, ended, ended}, 1, 0, 1}, {[]string{call, answer, other, ended}, 2, 1, 1},
	} {
		f, n := normalizer.NewFold(codex.Backend{}, "r", 0), calls(0)
		f.Observe(&n)
		for i, e := range backendtest.Output([]byte(strings.Join(c.lines, "\n") + "\n")) {
			f.Apply(uint64(i+1), e, func(normalizer.Message) {})
		}
		if r := f.Record; r.ToolCalls != c.calls || r.MoreCalls != c.more || int64(n) != c.end || len(r.OpenCalls) > 0 {
			t.Errorf("%q: %d calls, %d ended, %d open and not listed; want %d, %d, %d", c.lines, r.ToolCalls, n, r.MoreCalls,
				c.calls, c.end, c.more)
		}
	}
}

// A line has no event for each of any number of blocks.
func TestSessionLogWithManyUnknownBlocks(t *testing.T) {
	list := "{}" + strings.Repeat(",{}", 100_000)
	got := backendtest.Feed(t, codex.Backend{}, responseItem(`{"type":"message","role":"assistant","content":[`+list+`]}`))
	if n := len(got); n < 4096 || n > 4100 {
		t.Errorf("%d events", n)
	}
}
