package a2a_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

// invoke sends a message under the profile of AdCP.
func (d *endpoint) invoke(message string, header ...string) gjson.Result {
	d.t.Helper()
	_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":`+message+`}}`,
		append([]string{"A2A-Version", "1.0", "A2A-Extensions", "https://example.com/trace/v1, " + a2a.ProfileURI},
			header...)...)
	return got
}

func skill(id, name, input string) string {
	return `{"messageId":"` + id + `","role":"ROLE_USER","parts":[{"text":"for people"},{"data":{"skill":"` + name +
		`","input":` + input + `}}]}`
}

// checkCall checks what the profile says of the task of a call, and returns the
// data.
func checkCall(t *testing.T, got gjson.Result, state string) gjson.Result {
	t.Helper()
	task := got.Get("result.task")
	if task.Get("status.state").String() != state || task.Get("id").String() == "" ||
		task.Get("contextId").String() == "" {
		t.Errorf("the call is no task that is %s: %s", state, got.Raw)
	}
	if task.Get("artifacts.0.metadata").Exists() || task.Get("artifacts.#").Int() != 1 {
		t.Errorf("artifacts: %s", got.Raw)
	}
	data := task.Get("artifacts.0.parts.@reverse.0.data")
	if data.Get("status").String() == "" || data.Get("task_id").String() == task.Get("id").String() {
		t.Errorf("data: %s", data.Raw)
	}
	adcptest.Envelope(t, []byte(data.Raw))
	return data
}

func TestProfileCallsSkillsWhereItIsActivated(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	run := checkCall(t, d.invoke(skill("m-1", "codex-run",
		`{"task":"go","context":{"trace":12345678901234567890,"a":1},"governance_context":"gov-1"}`)), "TASK_STATE_COMPLETED")
	id := run.Get("task_id").String()
	if run.Get("status").String() != "submitted" || id == "" ||
		run.Get("context").Raw != `{"trace":12345678901234567890,"a":1}` ||
		run.Get("governance_context").String() != "gov-1" {
		t.Fatalf("submitted: %s", run.Raw)
	}
	again := checkCall(t, d.invoke(skill("m-1", "codex-run",
		`{"task":"go","context":{"trace":12345678901234567890,"a":1},"governance_context":"gov-1"}`)), "TASK_STATE_COMPLETED")
	if again.Get("task_id").String() != id || !again.Get("replayed").Bool() {
		t.Errorf("the same message: %s", again.Raw)
	}
	for i, status := range []string{"submitted", "completed"} {
		if i == 1 {
			d.finish(id)
		}
		got := checkCall(t, d.invoke(skill("p-"+status, "get_task_status",
			`{"task_id":"`+id+`","include_result":true,"context":{"x":1}}`)), "TASK_STATE_COMPLETED")
		if got.Get("status").String() != status || got.Get("task_id").String() != id ||
			got.Get("governance_context").String() != "gov-1" || got.Get("context.x").Int() != 1 {
			t.Errorf("%s: %s", status, got.Raw)
		}
		if strings.Contains(got.Raw, "sentinel") {
			t.Errorf("output as it was written: %s", got.Raw)
		}
	}
	resumed := checkCall(t, d.invoke(skill("m-2", "codex-resume", `{"threadId":"`+thread+`","task":"more"}`)),
		"TASK_STATE_COMPLETED")
	cancelled := checkCall(t, d.invoke(skill("m-3", "codex-cancel", `{"task_id":"`+resumed.Get("task_id").String()+`"}`)),
		"TASK_STATE_COMPLETED")
	if cancelled.Get("status").String() != "canceled" {
		t.Errorf("cancelled: %s", cancelled.Raw)
	}
	listed := checkCall(t, d.invoke(skill("m-4", "codex-status", `{}`)), "TASK_STATE_COMPLETED")
	if listed.Get("status").String() != "completed" {
		t.Errorf("status: %s", listed.Raw)
	}
	d.work("bad").out(begins, secret).exit(runs.ReasonExited, 1)
	failed := checkCall(t, d.invoke(skill("p-bad", "get_task_status", `{"task_id":"bad","include_result":true}`)),
		"TASK_STATE_COMPLETED")
	if failed.Get("status").String() != "failed" || failed.Get("adcp_error").Exists() ||
		failed.Get("error.code").String() != "TOOL_ERROR" || failed.Get("result.adcp_error.code").String() != "TOOL_ERROR" ||
		strings.Contains(failed.Raw, "sentinel") {
		t.Errorf("that it failed was asked for: %s", failed.Raw)
	}
	failed = checkCall(t, d.invoke(skill("p-bad-2", "codex-status", `{"task_id":"bad"}`)), "TASK_STATE_COMPLETED")
	if failed.Get("status").String() == "" || strings.Contains(failed.Raw, "sentinel-output") {
		t.Errorf("and of the tool: %s", failed.Raw)
	}
	for what, tt := range map[string]struct{ message, code string }{
		"raw output":      {skill("b-6", "codex-status", `{"verb\u006fse":true}`), "VALIDATION_ERROR"},
		"another format":  {skill("b-7", "codex-status", `{"format":"json"}`), "VALIDATION_ERROR"},
		"another agent":   {skill("b-8", "claude-run", `{"task":"go","agent":"codex"}`), "VALIDATION_ERROR"},
		"a blank task":    {skill("b-1", "codex-run", `{"task":" "}`), "VALIDATION_ERROR"},
		"an unknown name": {skill("b-2", "codex-run", `{"task":"go","modus":"x"}`), "VALIDATION_ERROR"},
		"an unknown run":  {skill("b-3", "get_task_status", `{"task_id":"nothing"}`), "REFERENCE_NOT_FOUND"},
		"no run":          {skill("b-4", "get_task_status", `{}`), "VALIDATION_ERROR"},
		"another request": {skill("m-1", "codex-run", `{"task":"another"}`), "IDEMPOTENCY_CONFLICT"},
		"another skill":   {skill("b-5", "get_products", `{}`), ""},
	} {
		got := d.invoke(tt.message)
		if tt.code == "" {
			if got.Get("error.code").Int() != -32602 {
				t.Errorf("%s: %s", what, got.Raw)
			}
			continue
		}
		if data := checkCall(t, got, "TASK_STATE_FAILED"); data.Get("adcp_error.code").String() != tt.code {
			t.Errorf("%s: %s", what, data.Raw)
		}
	}
	_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":`+skill("s-1",
		"codex-status", `{}`)+`}}`, "A2A-Extensions", a2a.ProfileURI)
	if got.Get("result.task.status.state").String() != "TASK_STATE_COMPLETED" {
		t.Errorf("as a stream: %s", got.Raw)
	}
	if _, got = d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"configuration":{"returnImmediately":true},"message":`+skill("s-2", "codex-run", `{"task":"go"}`)+`}}`); got.Get("result.task.status.state").String() != "TASK_STATE_REJECTED" {
		t.Errorf("without the extension the data are options: %s", got.Raw)
	}
}

// The vectors of the contract: their skills are not ours, their shapes are.
func TestProfileVectors(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(adcptest.Root(t), "..", "test-vectors", "a2a-profile-extension-v3.json"))
	if err != nil {
		t.Fatal(err)
	}
	d := newLab(t).endpoint(nil)
	vectors := gjson.ParseBytes(raw)
	if vectors.Get("extension_uri").String() != a2a.ProfileURI {
		t.Errorf("the profile is %s", vectors.Get("extension_uri"))
	}
	seen := 0
	for _, v := range vectors.Get("invocation_vectors").Array() {
		seen++
		header := []string{}
		v.Get("headers").ForEach(func(name, value gjson.Result) bool {
			header = append(header, name.String(), value.String())
			return true
		})
		message := strings.NewReplacer(`"get_products"`, `"codex-status"`, `"create_media_buy"`, `"codex-run"`,
			`"sync_creatives"`, `"codex-status"`).Replace(v.Get("message").Raw)
		if v.Get("valid").Bool() { // their input is for another agent
			message = strings.Replace(message, v.Get("message.parts.@reverse.0.data.input").Raw, `{"task_id":"nothing"}`, 1)
		}
		_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":`+message+
			`,"configuration":{"returnImmediately":true}}}`, header...)
		id := v.Get("id").String()
		switch {
		case id == "profile-not-activated-invalid":
			if got.Get("result.task.status.state").String() != "TASK_STATE_REJECTED" {
				t.Errorf("%s: %s", id, got.Raw)
			}
		case v.Get("valid").Bool():
			if state := got.Get("result.task.status.state").String(); state != "TASK_STATE_FAILED" &&
				state != "TASK_STATE_COMPLETED" || !got.Get("result.task.artifacts.0.parts.@reverse.0.data.status").Exists() {
				t.Errorf("%s: %s", id, got.Raw)
			}
		default:
			if code := got.Get("error.code").Int(); code != -32602 && code != -32005 {
				t.Errorf("%s: %s", id, got.Raw)
			}
		}
	}
	if seen < 9 {
		t.Errorf("%d vectors", seen)
	}
	_, card := d.ask("GET", "/.well-known/agent-card.json", "")
	for _, v := range vectors.Get("advertisement_vectors").Array() {
		if !v.Get("valid").Bool() {
			continue
		}
		want := v.Get("agent_card.capabilities.extensions.0")
		got := card.Get("capabilities.extensions.0")
		if got.Get("uri").String() != want.Get("uri").String() || got.Get("params").Exists() != want.Get("params").Exists() ||
			card.Get("extensions").Exists() {
			t.Errorf("advertised: %s", got.Raw)
		}
	}
	if !json.Valid([]byte(card.Raw)) || !card.Get(`skills.#(id=="get_task_status")`).Exists() {
		t.Errorf("skills: %s", card.Get("skills").Raw)
	}
}
