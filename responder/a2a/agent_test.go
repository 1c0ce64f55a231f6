package a2a_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// streams are the streams of an endpoint.
func (d *endpoint) streams() *servicetest.Streams {
	return &servicetest.Streams{T: d.t, Operator: d.write, Bus: d.bus, Service: d.service}
}

// send sends a message with options, in a context or a new one, and does not wait.
func (d *endpoint) send(id, context, options string) gjson.Result {
	d.t.Helper()
	_, got := d.post("/a2a", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"configuration":`+
		`{"returnImmediately":true},"message":{"messageId":%q,"contextId":%q,"role":"ROLE_USER","parts":[{"text":"go"},`+
		`{"data":%s}]}}}`, id, context, options), "A2A-Version", "1.0")
	return got
}

// A message names an agent, or a context, whose task's agent resumes its session. The skills
// of the profile do the same.
func TestTasksOfAllAgents(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	s := d.streams()
	check := func(what string, got gjson.Result, kind, thread string) {
		t.Helper()
		if got.Get("error").Exists() || strings.Contains(got.Raw, "REJECTED") || strings.Contains(got.Raw, "FAILED") {
			t.Errorf("%s: %s", what, got.Raw)
			return
		}
		if task := s.Task(); task.Agent != kind || task.Thread != thread {
			t.Errorf("%s: a task of %s on %q, want %s on %q", what, task.Agent, task.Thread, kind, thread)
		}
	}
	for _, one := range s.Sessions() {
		kind, short := one.Agent.Kind(), one.Agent.Short
		id := func(n string) string { return "message-" + short + "-" + n }
		for _, name := range slices.Compact([]string{short, kind}) {
			check(name, d.send(id("agent-"+name), "", fmt.Sprintf(`{"agent":%q}`, name)), kind, "")
		}
		for _, context := range []string{one.ID, one.Run} {
			check("in "+context, d.send(id(context), context, `{"mode":"read-only"}`), kind, one.ID)
		}
		check(short+"-run", d.invoke(skill(id("run"), short+"-run", `{"task":"go"}`)), kind, "")
		check(short+"-run in a context", d.invoke(skill(id("run-on"), short+"-run",
			`{"task":"go","context_id":"`+one.ID+`"}`)), kind, one.ID)
		check("codex-resume", d.invoke(skill(id("resume"), "codex-resume",
			`{"task":"go","threadId":"`+one.ID+`"}`)), kind, one.ID)
	}

	for options, want := range map[string]string{
		`{"agent":"unknown"}`:                    "agent: must be one of codex, claude, gemini, opencode",
		`{"agent":"opencode","outputSchema":{}}`: "outputSchema: is not for opencode: it cannot keep to a schema",
	} {
		got := d.send("message-"+options, "", options)
		if task := got.Get("result.task"); task.Get("status.state").String() != "TASK_STATE_REJECTED" ||
			task.Get("status.message.parts.0.text").String() != want {
			t.Errorf("%s: %s", options, got.Raw)
		}
	}
	for context, want := range map[string]string{
		"T-session-claude": "belongs to Claude Code, which alone can resume it",
		"none":             "message.contextId: names no context that is known here",
	} {
		if got := d.send("message-in-"+context, context, `{"agent":"gemini"}`); !strings.Contains(got.Raw, want) {
			t.Errorf("in %s: %s", context, got.Raw)
		}
	}
	d.begin("codex_cloud", "T-cloud-1", runs.Start{Source: "cloud"}).exit(runs.ReasonExited, 0)
	if got := d.send("message-cloud", "T-cloud-1", `{}`); got.Get("error.code").Int() != -32004 || !strings.HasPrefix(
		got.Get("error.message").String(), "message.contextId: its task: runs of codex_cloud cannot be resumed") {
		t.Errorf("of Codex Cloud: %s", got.Raw)
	}
	for _, name := range []string{"unknown-run", "claude_code-run", "-run"} {
		const want = "must be one of codex-run, claude-run, gemini-run, opencode-run, codex-resume"
		if got := d.invoke(skill("message-"+name, name, `{}`)); !strings.Contains(got.Get("error.message").String(), want) {
			t.Errorf("the skill %s: %s", name, got.Raw)
		}
	}
}

// The result of a task has what its agent tells of itself.
func TestResultHasWhatTheAgentTells(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	d.begin("claude_code", "T-claude", runs.Start{Source: "run", Worker: "w1", Version: "2.1.330"}).
		out(`{"type":"result","subtype":"success","is_error":false,"result":"Done.","total_cost_usd":0.5,`+
			`"usage":{"input_tokens":1,"output_tokens":2},"modelUsage":{"claude-a":{"inputTokens":3,"outputTokens":4,"costUSD":0.5}}}`).
		exit(runs.ReasonExited, 0)
	_, task := d.ask("GET", "/a2a/v1/tasks/T-claude", "", "A2A-Version", "1.0")
	data := task.Get("artifacts.0.parts.@reverse.0.data")
	for name, want := range map[string]string{
		"agent": `"claude_code"`, "agent_version": `"2.1.330"`, "cost_usd": "0.5", "usage.total.output_tokens": "4",
		"models.#": "1", "models.0.name": `"claude-a"`, "models.0.input_tokens": "3", "ext.linesman.final_text": `"Done."`,
	} {
		if got := data.Get(name).Raw; got != want {
			t.Errorf("%s is %s, want %s: %s", name, got, want, task.Raw)
		}
	}
}
