package a2a_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/a2a"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/adcptest"
)

// older sends a message of 0.3 with one data part, as the SDK of AdCP does.
func (d *endpoint) older(more, data string, header ...string) gjson.Result {
	d.t.Helper()
	_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message",`+more+
		`"role":"user","parts":[{"kind":"data","data":`+data+`}]}}}`, header...)
	return got
}

// A call of 0.3 is a completed task whatever came of it. The envelope is its only part.
func TestSkillsAreCalledIn03(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	call := func(id, data string, header ...string) gjson.Result {
		t.Helper()
		got := d.older(`"messageId":"`+id+`",`, data, header...)
		task := got.Get("result")
		if task.Get("kind").String() != "task" || task.Get("status.state").String() != "completed" ||
			task.Get("artifacts.#").Int() != 1 || task.Get("artifacts.0.parts.#").Int() != 1 {
			t.Errorf("%s: %s", data, got.Raw)
		}
		said := task.Get("artifacts.0.parts.0.data")
		adcptest.Envelope(t, []byte(said.Raw))
		want := ""
		if said.Get("status").String() == "submitted" {
			want = said.Get("task_id").String()
		}
		if task.Get("artifacts.0.metadata.adcp_task_id").String() != want || task.Get("contextId").String() == "" {
			t.Errorf("%s: %s", data, got.Raw)
		}
		return said
	}
	run := call("m-0123456789abcdef", `{"skill":"codex-run","parameters":{"task":"go","context_id":"campaign 7"}}`)
	id := run.Get("task_id").String()
	if run.Get("status").String() != "submitted" || id == "" || run.Get("context_id").String() != "campaign 7" {
		t.Fatalf("%s", run.Raw)
	}
	for i, header := range [][]string{nil, {"A2A-Extensions", a2a.ProfileURI, "A2A-Version", "0.3"}} {
		again := call("m-0123456789abcdef", `{"skill":"codex-run","input":{"task":"go","context_id":"campaign 7"}}`, header...)
		if again.Get("task_id").String() != id || !again.Get("replayed").Bool() {
			t.Errorf("again %d: %s", i, again.Raw)
		}
	}
	for _, c := range []struct{ data, status, code string }{
		{`{"skill":"codex-run","parameters":{"task":"go","mode":"all"}}`, "rejected", "VALIDATION_ERROR"},
		{`{"skill":"tasks/get","parameters":{"task_id":"nothing","include_result":true}}`, "rejected", "REFERENCE_NOT_FOUND"},
		{`{"skill":"get_adcp_capabilities","parameters":{"adcp_major_version":3}}`, "completed", ""},
		{`{"skill":"get_adcp_capabilities","parameters":{"adcp_major_version":4}}`, "rejected", "VERSION_UNSUPPORTED"},
		{`{"skill":"tasks_get","parameters":{"task_id":"` + id + `"}}`, "submitted", ""},
	} {
		if got := call(c.status+c.code, c.data); got.Get("status").String() != c.status ||
			got.Get("adcp_error.code").String() != c.code {
			t.Errorf("%s: %s", c.data, got.Raw)
		}
	}
	d.work("bad").out(begins).exit(runs.ReasonExited, 1)
	if got := call("p-bad", `{"skill":"tasks/get","parameters":{"task_id":"bad","include_result":true}}`); got.Get(
		"result.adcp_error.code").String() != "TOOL_ERROR" {
		t.Errorf("that it failed: %s", got.Raw)
	}
	for _, data := range []string{
		`{"skill":"get_products","parameters":{}}`, `{"skill":"codex-status"}`, `{"skill":7,"parameters":{}}`,
		`{"skill":"codex-status","parameters":{},"input":{}}`, `{"skill":"codex-status","parameters":{},"more":1}`,
		`{"skill":"codex-status","parameters":[]}`,
	} {
		if got := d.older(`"messageId":"bad",`, data); got.Get("error.code").Int() != -32602 {
			t.Errorf("%s: %s", data, got.Raw)
		}
	}
}

// The context of a call groups calls, and its task is ignored: clients repeat both.
func TestACallGoesOnWithNothing(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	d.work("before").out(begins).exit(runs.ReasonExited, 0)
	for i, context := range []string{thread, "before", "anything é", strings.Repeat("x", 600)} {
		more := fmt.Sprintf(`"messageId":"call-%d","contextId":%q,"taskId":"before",`, i, context)
		got := d.older(more, `{"skill":"codex-run","parameters":{"task":"go"}}`).Get("result")
		data := got.Get("artifacts.0.parts.0.data")
		if got.Get("contextId").String() != context || data.Get("status").String() != "submitted" ||
			data.Get("thread_id").Exists() || data.Get("context_id").Exists() {
			t.Errorf("%s: %s", context, got.Raw)
		}
		if v, _ := d.service.Get(data.Get("task_id").String()); v.Thread != "" || v.Labels.Value(runs.LabelContext) != "" {
			t.Errorf("%s: %+v", context, v)
		}
	}
}

func TestTheCardHasTheSkills(t *testing.T) {
	t.Parallel()
	d := newLab(t).endpoint(nil)
	_, card := d.ask("GET", "/.well-known/agent-card.json", "")
	_, got := d.post("/a2a", `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message",`+
		`"messageId":"m","role":"user","parts":[{"kind":"data","data":{"skill":"none","input":{}}}]}}}`)
	_, names, _ := strings.Cut(got.Get("error.message").String(), "must be one of ")
	var all []string
	for _, s := range card.Get("skills").Array() {
		if all = append(all, s.Get("id").String()); s.Get("name").String() == "" {
			t.Errorf("no name: %s", s.Raw)
		}
	}
	if names != strings.Join(all, ", ") {
		t.Errorf("the card has %q, and %q can be called", all, names)
	}
}
