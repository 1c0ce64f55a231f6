package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/linesman/linesman/responder"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

func TestWritingModesNeedConfirm(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, tool := range []string{"_codex_local_run", "_codex_local_exec", "_codex_local_resume"} {
		for _, mode := range []string{"workspace-write", "danger-full-access"} {
			base := with(good[tool], "mode", mode)
			refused(t, ask(t, s.tools, tool, args(base...)), "confirm", false)
			refused(t, ask(t, s.tools, tool, args(with(base, "confirm", false)...)), "confirm", false)
			if a := ask(t, s.tools, tool, args(with(base, "confirm", true)...)); a.IsError {
				t.Errorf("%s %s: confirmed, and refused: %s", tool, mode, a.Envelope)
			}
		}
	}
}

// TestTaskIsQueuedAsItWasAskedFor reads what a worker would get.
func TestTaskIsQueuedAsItWasAskedFor(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("codex", "T-before", runs.Start{Source: "queue", Attributes: runs.Attributes{Dir: "/srv/project"}}).
		Out([]byte(`{"type":"thread.started","thread_id":"01a1fd7b-f84f-78d0-8880-a6cacce2ab1b"}` + "\n")).Exit(1)
	base := runs.Task{Attributes: runs.Attributes{Agent: "codex", Mode: runs.ReadOnly}, Prompt: "Fix it."}
	for _, c := range []struct {
		tool string
		args []any
		want func(*runs.Task)
	}{
		{"_codex_local_exec", []any{"task", "Fix it."}, func(*runs.Task) {}},
		{"_codex_local_exec", []any{"task", "Fix it.", "working_dir", "/srv/x", "mode", "workspace-write", "confirm", true,
			"skip_git_repo_check", true,
			"model", "m-1", "output_schema", map[string]any{"type": "object"}, "idle_timeout_sec", 60, "timeoutSec", 90},
			func(w *runs.Task) {
				w.Dir, w.Mode, w.SkipGit, w.Model, w.Schema, w.Idle, w.Hard = "/srv/x", runs.WorkspaceWrite, true, "m-1",
					json.RawMessage(`{"type":"object"}`), 60, 90
			}},
		{"_codex_local_run", []any{"task", "Fix it.", "async", true, "envPolicy", "allow-list", "envAllowList",
			[]string{"LANG", "TERM"}}, func(w *runs.Task) {
			w.Env = runs.EnvPolicy{Policy: runs.InheritList, Allow: []string{"LANG", "TERM"}}
		}},
		{"_codex_local_resume", []any{"task", "Fix it.", "threadId", "01A1FD7B-F84F-78d0-8880-a6cacce2ab1b"},
			func(w *runs.Task) {
				w.Thread, w.Dir = "01A1FD7B-F84F-78d0-8880-a6cacce2ab1b", "/srv/project"
			}},
		{"_codex_local_resume", []any{"task", "Fix it.", "thread_id", "01a1fd7b-0000-78d0-8880-a6cacce2ab1b"},
			func(w *runs.Task) {
				w.Thread = "01a1fd7b-0000-78d0-8880-a6cacce2ab1b"
			}},
	} {
		a := ask(t, s.tools, c.tool, args(c.args...))
		want := runs.QueuedTask{Run: submitted(t, a), Task: base}
		c.want(&want.Task)
		if c.tool == "_codex_local_run" {
			want.Env.Policy = first(want.Env.Policy, runs.InheritNone)
		}
		if got := s.take(t); string(runs.Encode(got)) != string(runs.Encode(want)) {
			t.Errorf("%s %v:\n got %s\nwant %s", c.tool, c.args, runs.Encode(got), runs.Encode(want))
		}
		if a.Data["capability"] != "background" {
			t.Errorf("capability %v", a.Data["capability"])
		}
	}
}

// TestTaskWithoutADirectoryWorksInThatOfItsThreadOrElseOfItsClient reads what a
// worker would get. The directory of a client counts for a thread of which no
// run is known, too.
func TestTaskWithoutADirectoryWorksInThatOfItsThreadOrElseOfItsClient(t *testing.T) {
	t.Parallel()
	const known, unknown = "01a1fd7b-f84f-78d0-8880-a6cacce2ab1b", "01a1fd7b-0000-78d0-8880-a6cacce2ab1b"
	s := newStage(t, nil)
	ctx := responder.WithDir(t.Context(), "/srv/client")
	s.Begin("codex", "T-before", runs.Start{Source: "queue", Attributes: runs.Attributes{Dir: "/srv/project"}}).
		Out([]byte(`{"type":"thread.started","thread_id":"` + known + `"}` + "\n")).Exit(1)
	for _, c := range []struct {
		tool string
		args []any
		want string
	}{
		{"_codex_local_exec", nil, "/srv/client"},
		{"_codex_local_exec", []any{"workingDir", "/srv/x"}, "/srv/x"},
		{"_codex_local_exec", []any{"context_id", known}, "/srv/project"},
		{"_codex_local_exec", []any{"context_id", unknown}, "/srv/client"},
		{"_codex_local_resume", []any{"threadId", known}, "/srv/project"},
		{"_codex_local_resume", []any{"threadId", unknown}, "/srv/client"},
		{"_codex_local_exec", []any{"workingDir", "/srv/x", "context_id", known}, "/srv/x"},
	} {
		submitted(t, start(ctx, t, s.tools, c.tool, args(append([]any{"task", "Go."}, c.args...)...), nil)())
		if got := s.take(t).Dir; got != c.want {
			t.Errorf("%s %v: works in %q, want %q", c.tool, c.args, got, c.want)
		}
	}
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// take is the next task of the queue, as a worker gets it.
func (s *stage) take(t *testing.T) runs.QueuedTask {
	t.Helper()
	task := s.Task()
	// The queued entry is stored after the task: a worker waits for it, too.
	s.Await(task.Run, func(runs.Header) bool { return true })
	return task
}

func TestPreviewOnlyPlans(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	submitted(t, ask(t, s.tools, "_codex_local_run", `{"task":"Fix it.","mode":"preview","async":true}`))
	got := s.take(t)
	if got.Mode != runs.ReadOnly || !strings.HasPrefix(got.Prompt, "Plan only") || !strings.HasSuffix(got.Prompt,
		"\n\nFix it.") {
		t.Errorf("a preview is %s of %q", got.Mode, got.Prompt)
	}
	long := strings.Repeat("é", 10_000)
	submitted(t, ask(t, s.tools, "_codex_local_run", args("task", long, "mode", "preview", "async", true)))
	if got := s.take(t); !strings.HasPrefix(got.Prompt, "Plan only") || !strings.HasSuffix(got.Prompt, "\n\n"+long) {
		t.Errorf("a preview of a long task is of %d bytes", len(got.Prompt))
	}
	refused(t, ask(t, s.tools, "_codex_local_run", args("task", long+"é", "async", true)), "task", false)
	submitted(t, ask(t, s.tools, "_codex_local_run", args("task", long, "async", true)))
}

func TestResumeTakesThreadsOnly(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	for _, id := range []string{"thread_xyz", "my thread", "--last", "01a1fd7bf84f78d08880a6cacce2ab1b",
		"01a1fd7b-f84f-78d0-8880-a6cacce2ab1"} {
		refused(t, ask(t, s.tools, "_codex_local_resume", args("threadId", id, "task", "Go on.")), "threadId", false)
	}
}

func TestLimitsOfTheResponderNameTheParameter(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	refused(t, ask(t, s.tools, "_codex_local_exec", args("task", "x", "timeout_sec", 7200)), "timeout_sec", false)
	refused(t, ask(t, s.tools, "_codex_local_exec", args("task", "x", "timeoutSec", 7200)), "timeoutSec", false)
}

func TestGitGateGuardsOnlyWhereItIsConfigured(t *testing.T) {
	t.Parallel()
	open, gated := newStage(t, nil), newStage(t, func(c *responder.Config) { c.GitGate = true })
	for _, task := range []string{"Run git reset --hard", "git push -f origin main", "then GIT CLEAN -fdx",
		"git push origin --force"} {
		submitted(t, ask(t, open.tools, "_codex_local_exec", args("task", task)))
		refused(t, ask(t, gated.tools, "_codex_local_exec", args("task", task)), "allow_destructive_git", false)
		submitted(t, ask(t, gated.tools, "_codex_local_exec", args("task", task, "allow_destructive_git", true)))
	}
	submitted(t, ask(t, gated.tools, "_codex_local_exec",
		args("task", "Explain what a git rebasement is; push the button; remove this repo")))
}

// TestForegroundRunAnswersAtTheEnd plays the worker while the call waits.
func TestForegroundRunAnswersAtTheEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	out, stderr := recording(t, "patch")
	var told []v36.Progress
	end := start(t.Context(), t, s.tools, "_codex_local_run",
		`{"task":"Patch it.","mode":"workspace-write","confirm":true,"format":"json"}`,
		func(p v36.Progress) { told = append(told, p) })
	id := s.take(t).Run
	l := s.Begin("codex", id, runs.Start{Source: "queue", Worker: "w1"})
	l.Out(out[:len(out)/2])
	s.Await(id, servicetest.Active)
	l.Out(out[len(out)/2:]).Err(stderr).Exit(0)
	a := end()
	ext, _ := a.Data["ext"].(map[string]any)
	if a.IsError || a.Data["task_id"] != id || a.Data["capability"] != "foreground" || ext["state"] != "completed" ||
		a.Data["thread_id"] == nil {
		t.Errorf("got %s", a.Envelope)
	}
	last := v36.Progress{Percent: -1}
	for _, p := range told {
		if p.Percent < last.Percent || p == last {
			t.Errorf("progress %v after %v", p, last)
		}
		last = p
	}
	if last.Percent != 100 || len(told) < 2 {
		t.Errorf("progress ended at %v after %d", last, len(told))
	}
	if r := ask(t, s.tools, "_codex_local_results", args("task_id", id, "format",
		"json")); r.Data["state"] != "completed" {
		t.Errorf("its results: %s", r.Envelope)
	}
}

func TestForegroundTimeoutIsAnErrorAndBackgroundTimeoutAState(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	out, _ := recording(t, "shell-large")
	for _, reason := range []runs.Reason{runs.ReasonIdle, runs.ReasonHard} {
		end := start(t.Context(), t, s.tools, "_codex_local_run", `{"task":"Count.","format":"json"}`, nil)
		id := s.take(t).Run
		s.Begin("codex", id, runs.Start{Source: "queue", Worker: "w1"}).Out(out[:300_000]).Err([]byte("warning\n")).
			End(runs.Exit{Reason: reason, Signal: 15})
		a := end()
		if a.Error.Code != "TIMEOUT" || a.Error.Retryable || a.Error.Details["timeout_type"] != string(reason) ||
			a.Error.Details["task_id"] != id || a.Error.Duration == 0 {
			t.Errorf("%s: %.500s", reason, a.Envelope)
		}
		partial := a.Error.Details["partial_results"].(map[string]any)
		last := partial["last_output"].(string)
		if len(last) > 64<<10 || len(last) < 60<<10 || !strings.HasSuffix(last, "\nwarning\n") ||
			len(partial["last_events"].([]any)) < 3 {
			t.Errorf("%s: partial results of %d bytes, %d events", reason, len(last), len(partial["last_events"].([]any)))
		}
		r := ask(t, s.tools, "_codex_local_results", args("task_id", id, "format", "json", "max_output_bytes", 4096))
		context := r.Data["metadata"].(map[string]any)["error_context"].(map[string]any)
		if r.IsError || r.Data["state"] != "timeout" || context["timeout_type"] != string(reason) {
			t.Errorf("%s: its results: %.500s", reason, r.Envelope)
		}
		if o := r.Data["output"].(map[string]any); o["included"] != true || o["truncated"] != true ||
			o["original_size"].(float64) != 300_008 {
			t.Errorf("%s: output of %v bytes, truncated %v", reason, o["original_size"], o["truncated"])
		}
		if page := ask(t, s.tools, "_codex_local_results", args("task_id", id)); !strings.Contains(page.Text(),
			"Task timeout") {
			t.Errorf("%.200s", page.Text())
		}
	}
}

func TestForegroundFailureIsAnErrorAndBackgroundFailureAState(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	out, _ := recording(t, "failed")
	stderr := strings.Repeat("x", 5000) + "password=hunter2secret\nthe end\n"
	for _, format := range []string{"json", "markdown"} {
		end := start(t.Context(), t, s.tools, "_codex_local_run", args("task", "Fail.", "format", format), nil)
		id := s.take(t).Run
		s.Begin("codex", id, runs.Start{Source: "queue", Worker: "w1"}).OutIn(out, 20).Err([]byte(stderr)).Exit(1)
		a := end()
		d := a.Error.Details
		tail, _ := d["stderr_tail"].(string)
		if a.Error.Code != "TOOL_ERROR" || a.Error.Retryable || a.Error.Duration < 20 || d["task_id"] != id ||
			d["thread_id"] == nil || d["state"] != "failed" || d["exit_code"] != 1.0 {
			t.Errorf("%.900s", a.Envelope)
		}
		if len(tail) != 1000 || !strings.HasSuffix(tail, "\nthe end\n") || strings.Contains(tail, "hunter2") {
			t.Errorf("stderr of %d bytes: %s", len(tail), tail)
		}
		for _, tool := range []string{"_codex_local_results", "_codex_local_wait"} {
			if r := ask(t, s.tools, tool, args("task_id", id)); r.IsError || r.Data["state"] != "failed" {
				t.Errorf("%s: %.500s", tool, r.Envelope)
			}
		}
	}
}

func TestAForegroundFailureIsAnErrorOfAdCP(t *testing.T) {
	t.Parallel()
	s := remembering(t)
	answers := make(chan enveloped, 1)
	go func() {
		a, err := s.tools.Call(t.Context(), "_codex_local_run", json.RawMessage(args("task", "Fail.", "format", "adcp",
			"idempotency_key", key("fail"))), nil)
		if err != nil {
			t.Error(err)
		}
		answers <- enveloping(t, "run", a)
	}()
	id := s.take(t).Run
	out, _ := recording(t, "failed")
	s.Begin("codex", id, runs.Start{Source: "queue"}).OutIn(out, 20).Err([]byte("the end\n")).Exit(1)
	a := <-answers
	a.is(t, "failed", "TOOL_ERROR")
	var details struct {
		State  string
		Exit   int    `json:"exit_code"`
		Stderr string `json:"stderr_tail"`
	}
	if err := json.Unmarshal(a.Error.Details, &details); err != nil || !a.IsError || a.TaskID != id || a.ContextID == "" ||
		details.State != "failed" || details.Exit != 1 || details.Stderr != "the end\n" ||
		!bytes.Contains(a.Envelope, []byte(`"duration_ms":`)) {
		t.Errorf("%v: %s", err, a.Envelope)
	}
}

func TestCallerWhoLeavesEndsTheWaitAndNotTheTask(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	end := start(ctx, t, s.tools, "_codex_local_run", `{"task":"Wait."}`, nil)
	id := s.take(t).Run
	s.Begin("codex", id, runs.Start{Source: "queue", Worker: "w1"})
	s.Await(id, servicetest.Working)
	cancel()
	a := end()
	if a.Error.Code != "TIMEOUT" || a.Error.Details["timeout_type"] != "wait" || a.Error.Details["task_id"] != id ||
		!a.Error.Retryable {
		t.Errorf("got %s", a.Envelope)
	}
	if v, _ := s.Service.Get(id); v.State != runs.StateWorking {
		t.Errorf("the task is %s", v.State)
	}
}

func TestManyMayCallAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play(t, "T-1", "patch", 0)
	var ends []func() answer
	for range 8 {
		ends = append(ends,
			start(t.Context(), t, s.tools, "_codex_local_status", `{}`, nil),
			start(t.Context(), t, s.tools, "_codex_local_exec", `{"task":"x"}`, nil),
			start(t.Context(), t, s.tools, "_codex_local_wait", `{"task_id":"T-1"}`, nil),
			start(t.Context(), t, s.tools, "_codex_local_results",
				`{"task_id":"T-1","include_events":true,"include_output":true}`, nil))
	}
	for _, end := range ends {
		if a := end(); a.IsError {
			t.Errorf("%s", a.Envelope)
		}
	}
	if n := len(s.Service.Snapshot(0, nil).Queued); n != 8 {
		t.Errorf("%d tasks are queued", n)
	}
}

func TestFullQueueMayBeTriedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	js := s.jetstream(t)
	stream, err := js.Stream(t.Context(), s.Operator.Work())
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxMsgs = 1
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x"}`))
	a := ask(t, s.tools, "_codex_local_exec", `{"task":"x"}`)
	if a.Error.Code != "INTERNAL" || !a.Error.Retryable || a.Error.Details["reason"] != "queue_full" {
		t.Errorf("%s", a.Envelope)
	}
}
