package tools_test

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// skill calls a tool for clients of AdCP, and checks what holds for every answer.
func skill(t *testing.T, d *tools.Set, tool string, pairs ...any) enveloped {
	t.Helper()
	got, err := d.Call(t.Context(), tool, json.RawMessage(args(pairs...)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return enveloping(t, tool, got)
}

func names(list []v36.Tool) (all []string) {
	for _, one := range list {
		all = append(all, one.Name)
	}
	return all
}

func TestToolsForClientsOfAdCP(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	list, also := s.tools.Named(tools.ADCPTools), s.tools.Also(tools.AllTools)
	want := []string{"codex-run", "claude-run", "gemini-run", "opencode-run", "codex-resume", "codex-status",
		"codex-cancel", "get_task_status", "get_adcp_capabilities"}
	for _, name := range want {
		if !slices.Contains(names(list), name) {
			t.Errorf("%s is not listed: %q", name, names(list))
		}
	}
	if got := names(also); !slices.Equal(got, append(names(list), "tasks/get", "tasks_get")) ||
		len(s.tools.Named(tools.AllTools)) != 15 {
		t.Errorf("beside the fifteen: %q", got)
	}
	for _, one := range list {
		schema := gjson.ParseBytes(one.InputSchema)
		for name, has := range map[string]bool{
			"format": false, "adcp_version": true, "adcp_major_version": true, "ext": true, "context": true, "agent": strings.
					HasSuffix(one.Name, "resume") || strings.HasSuffix(one.Name, "status") && one.Name != "get_task_status",
		} {
			if schema.Get("properties."+name).Exists() != has {
				t.Errorf("%s: %s: %v", one.Name, name, !has)
			}
		}
		for _, fixed := range s.tools.List() {
			if strings.Contains(string(fixed.InputSchema), "adcp_version") {
				t.Errorf("%s has a parameter that v3.6 has not", fixed.Name)
			}
		}
		// An error is in the envelope, too, also if the arguments cannot be read.
		for _, bad := range []string{`{"format":"json"}`, `[`, `{"ext":1}`} {
			if one.Name == "get_adcp_capabilities" && strings.Contains(bad, "format") {
				continue // which ignores it
			}
			got, err := s.tools.Call(t.Context(), one.Name, json.RawMessage(bad), nil)
			if err != nil {
				t.Fatal(err)
			}
			if a := enveloping(t, one.Name, got); a.Error == nil || a.Status != "rejected" {
				t.Errorf("%s: %s: %s", one.Name, bad, got.Envelope)
			}
		}
	}
}

func TestReleasesAreNegotiated(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	for fields, want := range map[string]string{
		`{}`: "3.1", `{"adcp_major_version":3}`: "3.1", `{"adcp_version":"3.1"}`: "3.1", `{"adcp_version":"3.0"}`: "3.0",
		`{"adcp_version":"3.2-beta.5","adcp_major_version":3}`: "3.1", `{"adcpVersion":"3.0"}`: "3.0",
		`{"adcp_version":"3.0-rc.1"}`: "3.1", `{"adcp_version":"3.17"}`: "3.1",
		`{"adcp_major_version":4}`: "", `{"adcp_version":"2.5"}`: "", `{"adcp_version":"3.1","adcp_major_version":2}`: "",
		`{"adcp_version":"3"}`: "", `{"adcp_version":"3.1.0"}`: "", `{"adcp_version":3.1}`: "", `{"adcp_version":null}`: "",
		`{"adcp_major_version":"3"}`: "", `{"adcp_version":"3.1 <secret>"}`: "", `{"adcp_version":"99999999999.0"}`: "",
	} {
		for _, tool := range []string{"codex-status", "get_adcp_capabilities", "_codex_local_status"} {
			request := `{"limit":"wrong",` + fields[1:]
			if want != "" {
				request = fields
			}
			if tool == "_codex_local_status" && fields == `{}` {
				continue // there the fields ask for the envelope
			}
			got, err := s.tools.Call(t.Context(), tool, json.RawMessage(strings.Replace(request, ",}", "}", 1)), nil)
			if err != nil {
				t.Fatal(err)
			}
			a := enveloping(t, tool, got)
			version := gjson.GetBytes(got.Envelope, "adcp_version").String()
			if want != "" {
				if a.Error != nil || version != want {
					t.Errorf("%s %s: %q: %s", tool, fields, version, got.Envelope)
				}
				continue
			}
			details := gjson.GetBytes(got.Envelope, "adcp_error.details")
			if a.Status != "rejected" || a.Error == nil || a.Error.Code != "VERSION_UNSUPPORTED" || version != "3.1" ||
				a.Error.Recovery != "correctable" || !strings.HasPrefix(a.Error.Field, "adcp_") ||
				details.Get("supported_versions").Raw != `["3.0","3.1"]` || details.Get("supported_majors").Raw != "[3]" ||
				!details.Get("build_version").Exists() || strings.Contains(string(got.Envelope), "secret") {
				t.Errorf("%s %s: %s", tool, fields, got.Envelope)
			}
		}
	}
	got, err := s.tools.Call(t.Context(), "_codex_local_status", json.RawMessage(`{"format":"json","adcp_version":"2.5"}`), nil)
	if err != nil || got.IsError || gjson.GetBytes(got.Envelope, "version").String() != "3.6" {
		t.Errorf("another format: %v, %s", err, got.Envelope)
	}
}

// Every request takes the fields of AdCP. Those that a retry must repeat count for its key.
func TestFieldsOfEveryRequest(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	hook := map[string]any{"url": "no address"}
	request := func(more ...any) []any {
		return append([]any{"task", "Fix it.", "idempotency_key", key("fields"), "adcp_major_version", 3}, more...)
	}
	first := skill(t, s.tools, "codex-run", request("ext", map[string]any{"a": 1}, "context", map[string]any{"b": 2})...)
	first.is(t, "submitted", "")
	again := skill(t, s.tools, "codex-run", request("ext", map[string]any{"a": 1}, "context", map[string]any{"c": 3})...)
	if again.is(t, "submitted", ""); !again.Replayed || again.TaskID != first.TaskID {
		t.Errorf("again: %s", again.Envelope)
	}
	for _, more := range [][]any{request("ext", map[string]any{"a": 2}), request("ext", map[string]any{"a": 1},
		"adcp_version", "3.1")} {
		clash := skill(t, s.tools, "codex-run", more...)
		if clash.is(t, "rejected", "IDEMPOTENCY_CONFLICT"); gjson.GetBytes(clash.Envelope, "errors.0.field").Exists() {
			t.Errorf("a conflict: %s", clash.Envelope)
		}
	}
	skill(t, s.tools, "codex-run", "task", "Fix it.").is(t, "rejected", "VALIDATION_ERROR")
	skill(t, s.tools, "codex-status", "push_notification_config", hook, "ext", map[string]any{}).is(t, "completed", "")
	skill(t, s.tools, "codex-cancel", "push_notification_config", hook, "task_id", first.TaskID, "idempotency_key",
		key("cancel")).is(t, "canceled", "")
	s.Await(first.TaskID, servicetest.Ended)
	skill(t, s.tools, "get_task_status", "task_id", first.TaskID, "account", 1, "push_notification_config", 7,
		"protocols", "x").is(t, "canceled", "")
	skill(t, s.tools, "claude-run", "task", "Fix it.", "idempotency_key", key("claude"), "agent", "codex").is(t,
		"rejected", "VALIDATION_ERROR")
	a := skill(t, s.tools, "claude-run", "task", "Fix it.", "idempotency_key", key("claude"))
	a.is(t, "submitted", "")
	if v, _ := s.Service.Get(a.TaskID); v.Agent != "claude_code" {
		t.Errorf("the agent is %s: %s", v.Agent, a.Envelope)
	}
}

func TestCapabilitiesForClientsOfAdCP(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	a := skill(t, s.tools, "get_adcp_capabilities", "adcp_major_version", 3, "protocols", []string{"media_buy"}, "context",
		map[string]any{"x": 1})
	a.is(t, "completed", "")
	got := gjson.ParseBytes(a.Envelope)
	for path, want := range map[string]string{
		"adcp.major_versions": "[3]", "adcp.supported_versions": `["3.0","3.1"]`, "adcp.build_version": `"0.0.0-dev"`,
		"adcp.idempotency": `{"supported":true,"replay_ttl_seconds":86400}`, "supported_protocols": "[]",
		"webhook_signing":                          `{"supported":false,"legacy_hmac_fallback":true}`,
		"ext.linesman.agents.claude_code.skills.0": `"claude-run"`, "context.x": "1", "identity": "",
	} {
		if got.Get(path).Raw != want {
			t.Errorf("%s is %s, want %s", path, got.Get(path).Raw, want)
		}
	}
	if b := skill(t, newStage(t, nil).tools, "get_adcp_capabilities"); gjson.GetBytes(b.Envelope,
		"adcp.idempotency").Raw != `{"supported":false}` {
		t.Errorf("without keys: %s", b.Envelope)
	}
}

// A poll has the members that the contract requires, under each of its names, and succeeds whatever the run did.
func TestPollsOfClientsOfAdCP(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	queued := envelope(t, s.tools, "_codex_local_exec", "task", "Wait.", "idempotency_key", key("queued"),
		"governance_context", "gov-1")
	skilled := skill(t, s.tools, "codex-run", "task", "Wait.", "idempotency_key", key("skilled"))
	s.Begin("codex", "T-good", runs.Start{Source: "queue", Type: "codex-run"}).
		Out([]byte(`{"type":"thread.started","thread_id":"` + thread + `"}` + "\n" +
			`{"type":"item.completed","item":{"id":"i","type":"agent_message","text":"Done."}}` + "\n" +
			`{"type":"turn.completed","usage":{"input_tokens":1,"output_tokens":1}}` + "\n")).Exit(0)
	s.Begin("claude_code", "T-bad", runs.Start{Source: "run"}).Exit(1)
	s.Begin("codex", "T-busy", runs.Start{Source: "queue"}).Out([]byte(
		`{"type":"item.started","item":{"id":"p","type":"todo_list","items":[{"text":"a","completed":true},` +
			`{"text":"b","completed":false}]}}` + "\n"))
	s.Await("T-good", servicetest.Ended)
	s.Await("T-bad", servicetest.Ended)
	s.Await("T-busy", func(v runs.Header) bool { return v.Progress != nil })
	for run, want := range map[string]struct{ status, kind string }{
		queued.TaskID: {"submitted", "_codex_local_exec"}, skilled.TaskID: {"submitted", "codex-run"},
		"T-good": {"completed", "codex-run"}, "T-bad": {"failed", "claude-run"}, "T-busy": {"working", "codex-run"},
	} {
		for i, name := range []string{"get_task_status", "tasks/get", "tasks_get"} {
			a := skill(t, s.tools, name, "task_id", run, "include_result", i > 0, "context", map[string]any{"x": 1})
			got := gjson.ParseBytes(a.Envelope)
			created, err := time.Parse(time.RFC3339, got.Get("created_at").String())
			updated, err2 := time.Parse(time.RFC3339, got.Get("updated_at").String())
			ended := want.status == "completed" || want.status == "failed"
			if a.IsError || a.Status != want.status || a.TaskID != run || got.Get("task_type").String() != want.kind ||
				got.Get("protocol").String() != "linesman" || err != nil || err2 != nil || updated.Before(created) ||
				got.Get("completed_at").Exists() != ended || got.Get("has_webhook").Raw != "false" ||
				got.Get("result").Exists() != (ended && i > 0) || got.Get("context.x").Int() != 1 || len(a.Errors) != 0 {
				t.Errorf("%s of %s: %s", name, run, a.Envelope)
			}
			if run == queued.TaskID && a.Governance != "gov-1" {
				t.Errorf("its token: %s", a.Envelope)
			}
			if run == "T-good" && i > 0 && (got.Get("result.status").String() != "completed" ||
				got.Get("result.ext.linesman.final_text").String() != "Done." || got.Get("result.errors").Exists()) {
				t.Errorf("its result: %s", a.Envelope)
			}
			if failed := got.Get("error"); run == "T-bad" && (failed.Get("code").String() != "TOOL_ERROR" ||
				i > 0 && (got.Get("result.adcp_error.message").String() != failed.Get("message").String() ||
					got.Get("result.errors.0.code").String() != "TOOL_ERROR")) {
				t.Errorf("its error: %s", a.Envelope)
			}
			if p := got.Get("progress"); run == "T-busy" && (p.Get("total_steps").Int() != 2 ||
				p.Get("step_number").Int() != 2 || !p.Get("percentage").Exists()) {
				t.Errorf("its progress: %s", a.Envelope)
			}
		}
	}
	for _, release := range []string{"3.0", "3.1"} { // of all that is in an answer
		a := skill(t, s.tools, "tasks/get", "task_id", "T-good", "include_result", true, "adcp_version", release)
		if got := gjson.ParseBytes(a.Envelope); got.Get("adcp_version").String() != release ||
			got.Get("result.adcp_version").String() != release {
			t.Errorf("the release: %s", a.Envelope)
		}
	}
	for _, bad := range []string{"T-nothing", "no id", strings.Repeat("x", 100)} {
		skill(t, s.tools, "tasks/get", "task_id", bad).is(t, "rejected", "REFERENCE_NOT_FOUND")
	}
	twice, err := s.tools.Call(t.Context(), "tasks/get", json.RawMessage(`{"task_id":"T-good","*":1,"*":2,"x":1,"x":2}`), nil)
	if err != nil || twice.IsError { // what is ignored may have any name
		t.Errorf("%v: %s", err, twice.Envelope)
	}
	skill(t, s.tools, "tasks/get").is(t, "rejected", "VALIDATION_ERROR")
	skill(t, s.tools, "tasks/get", "task_id", 7).is(t, "rejected", "VALIDATION_ERROR")
}

// A poll right after a submission has its type, too, although there is no record yet.
func TestTheTypeOfATaskIsKnownAtOnce(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	for i := range 5 {
		n := strconv.Itoa(i)
		done := skill(t, s.tools, "codex-resume", "task", "Go on.", "threadId", thread[:35]+n, "idempotency_key",
			key("resume-"+n))
		done.is(t, "submitted", "")
		a := skill(t, s.tools, "tasks/get", "task_id", done.TaskID)
		if got := gjson.GetBytes(a.Envelope, "task_type").String(); got != "codex-resume" {
			t.Errorf("the type is %s: %s", got, a.Envelope)
		}
	}
}

// What a completed run is warned of would make its answer an error for clients of AdCP: only open runs have warnings.
func TestACompletedAnswerHasNoErrors(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	s.Begin("codex", "T-done", runs.Start{Source: "queue"}).Out([]byte(`{"type":"turn.completed"}` + "\n")).Exit(0)
	s.Await("T-done", servicetest.Ended)
	for _, tool := range []string{"_codex_local_status", "_codex_local_results", "_codex_local_wait"} {
		if a := envelope(t, s.tools, tool, "task_id", "T-done"); a.Status != "completed" || len(a.Errors) > 0 {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
	}
}

// A task that would continue an open run is refused: nothing was queued, and that run is not the caller's.
func TestATaskThatContinuesAnOpenRunIsRefused(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	s.talk("T-local-talks", true)
	s.Await("T-local-talks", func(v runs.Header) bool { return v.Thread != "" })
	v, _ := s.Service.Get("T-local-talks")
	for tool, field := range map[string]string{"codex-resume": "threadId", "codex-run": "context_id"} {
		a := skill(t, s.tools, tool, "task", "Go on.", field, v.Thread, "live", true, "idempotency_key", key("busy-"+tool))
		a.is(t, "rejected", "VALIDATION_ERROR")
		if got := gjson.GetBytes(a.Envelope, "adcp_error.details.task_id").String(); a.TaskID != "" || !a.IsError ||
			got != v.ID {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
	}
}
