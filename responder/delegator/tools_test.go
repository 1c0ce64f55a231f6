package delegator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/responder/delegator"
	"github.com/linesman/linesman/runs"
)

func TestWritingModesNeedConfirm(t *testing.T) {
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
	s := newStage(t, nil)
	s.begin(t, "codex", "T-before", runs.Start{Source: "queue", Dir: "/srv/project"}).
		out([]byte(`{"type":"thread.started","thread_id":"01a1fd7b-f84f-78d0-8880-a6cacce2ab1b"}` + "\n")).exit(exited(1))
	base := runs.Task{Agent: "codex", Prompt: "Fix it.", Mode: runs.ReadOnly}
	for _, c := range []struct {
		tool string
		args []any
		want func(*runs.Task)
	}{
		{"_codex_local_exec", []any{"task", "Fix it."}, func(*runs.Task) {}},
		{"_codex_local_exec", []any{"task", "Fix it.", "working_dir", "/srv/x", "mode", "workspace-write", "confirm", true, "skip_git_repo_check", true,
			"model", "m-1", "output_schema", map[string]any{"type": "object"}, "idle_timeout_sec", 60, "timeoutSec", 90}, func(w *runs.Task) {
			w.Dir, w.Mode, w.SkipGit, w.Model, w.Schema, w.Idle, w.Hard = "/srv/x", runs.WorkspaceWrite, true, "m-1", json.RawMessage(`{"type":"object"}`), 60, 90
		}},
		{"_codex_local_run", []any{"task", "Fix it.", "async", true, "envPolicy", "allow-list", "envAllowList", []string{"LANG", "TERM"}}, func(w *runs.Task) {
			w.Env = runs.EnvPolicy{Policy: runs.InheritList, Allow: []string{"LANG", "TERM"}}
		}},
		{"_codex_local_resume", []any{"task", "Fix it.", "threadId", "01A1FD7B-F84F-78d0-8880-a6cacce2ab1b"}, func(w *runs.Task) {
			w.Thread, w.Dir = "01A1FD7B-F84F-78d0-8880-a6cacce2ab1b", "/srv/project"
		}},
		{"_codex_local_resume", []any{"task", "Fix it.", "thread_id", "01a1fd7b-0000-78d0-8880-a6cacce2ab1b"}, func(w *runs.Task) {
			w.Thread = "01a1fd7b-0000-78d0-8880-a6cacce2ab1b"
		}},
	} {
		a := ask(t, s.tools, c.tool, args(c.args...))
		want := base
		want.Run = submitted(t, a)
		c.want(&want)
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

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// take is the next task of the queue, as a worker gets it.
func (s *stage) take(t *testing.T) runs.Task {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	d, err := s.bus.Queue(bus.DefaultQueue).Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	task, err := d.Task()
	if err == nil {
		err = d.Done()
	}
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestPreviewOnlyPlans(t *testing.T) {
	s := newStage(t, nil)
	submitted(t, ask(t, s.tools, "_codex_local_run", `{"task":"Fix it.","mode":"preview","async":true}`))
	got := s.take(t)
	if got.Mode != runs.ReadOnly || !strings.HasPrefix(got.Prompt, "Plan only") || !strings.HasSuffix(got.Prompt, "\n\nFix it.") {
		t.Errorf("a preview is %s of %q", got.Mode, got.Prompt)
	}
	long := strings.Repeat("é", 10_000)
	refused(t, ask(t, s.tools, "_codex_local_run", args("task", long, "mode", "preview", "async", true)), "task", false)
	submitted(t, ask(t, s.tools, "_codex_local_run", args("task", long, "async", true)))
}

func TestResumeTakesThreadsOnly(t *testing.T) {
	s := newStage(t, nil)
	for _, id := range []string{"thread_xyz", "my thread", "--last", "01a1fd7bf84f78d08880a6cacce2ab1b", "01a1fd7b-f84f-78d0-8880-a6cacce2ab1"} {
		refused(t, ask(t, s.tools, "_codex_local_resume", args("threadId", id, "task", "Go on.")), "threadId", false)
	}
}

func TestLimitsOfTheResponderNameTheParameter(t *testing.T) {
	s := newStage(t, nil)
	refused(t, ask(t, s.tools, "_codex_local_exec", args("task", "x", "timeout_sec", 7200)), "timeout_sec", false)
	refused(t, ask(t, s.tools, "_codex_local_exec", args("task", "x", "timeoutSec", 7200)), "timeoutSec", false)
}

func TestGitGateGuardsOnlyWhereItIsConfigured(t *testing.T) {
	open, gated := newStage(t, nil), newStage(t, func(c *delegator.Config) { c.GitGate = true })
	for _, task := range []string{"Run git reset --hard", "git push -f origin main", "then GIT CLEAN -fdx", "git push origin --force"} {
		submitted(t, ask(t, open.tools, "_codex_local_exec", args("task", task)))
		refused(t, ask(t, gated.tools, "_codex_local_exec", args("task", task)), "allow_destructive_git", false)
		submitted(t, ask(t, gated.tools, "_codex_local_exec", args("task", task, "allow_destructive_git", true)))
	}
	submitted(t, ask(t, gated.tools, "_codex_local_exec", args("task", "Explain what a git rebasement is; push the button; remove this repo")))
}

// TestForegroundRunAnswersAtTheEnd plays the worker while the call waits.
func TestForegroundRunAnswersAtTheEnd(t *testing.T) {
	s := newStage(t, nil)
	out, stderr := recording(t, "patch")
	var told []delegator.Progress
	end := start(t.Context(), t, s.tools, "_codex_local_run", `{"task":"Patch it.","mode":"workspace-write","confirm":true,"format":"json"}`,
		func(p delegator.Progress) { told = append(told, p) })
	id := s.take(t).Run
	l := s.begin(t, "codex", id, runs.Start{Source: "queue", Worker: "w1"})
	l.out(out[:len(out)/2])
	s.awaitActivity(t, id)
	l.out(out[len(out)/2:]).err(stderr).exit(exited(0))
	a := end()
	ext, _ := a.Data["ext"].(map[string]any)
	if a.IsError || a.Data["task_id"] != id || a.Data["capability"] != "foreground" || ext["state"] != "completed" || a.Data["thread_id"] == nil {
		t.Errorf("got %s", a.Envelope)
	}
	last := delegator.Progress{Percent: -1}
	for _, p := range told {
		if p.Percent < last.Percent || p == last {
			t.Errorf("progress %v after %v", p, last)
		}
		last = p
	}
	if last.Percent != 100 || len(told) < 2 {
		t.Errorf("progress ended at %v after %d", last, len(told))
	}
	if r := ask(t, s.tools, "_codex_local_results", args("task_id", id, "format", "json")); r.Data["state"] != "completed" {
		t.Errorf("its results: %s", r.Envelope)
	}
}

func TestForegroundTimeoutIsAnErrorAndBackgroundTimeoutAState(t *testing.T) {
	s := newStage(t, nil)
	out, _ := recording(t, "shell-large")
	for _, reason := range []runs.Reason{runs.ReasonIdle, runs.ReasonHard} {
		end := start(t.Context(), t, s.tools, "_codex_local_run", `{"task":"Count.","format":"json"}`, nil)
		id := s.take(t).Run
		s.begin(t, "codex", id, runs.Start{Source: "queue", Worker: "w1"}).out(out[:300_000]).err([]byte("warning\n")).
			exit(runs.Exit{Reason: reason, Signal: 15})
		a := end()
		if a.Error.Code != "TIMEOUT" || a.Error.Retryable || a.Error.Details["timeout_type"] != string(reason) || a.Error.Details["task_id"] != id || a.Error.Duration == 0 {
			t.Errorf("%s: %.500s", reason, a.Envelope)
		}
		partial := a.Error.Details["partial_results"].(map[string]any)
		last := partial["last_output"].(string)
		if len(last) > 64<<10 || len(last) < 60<<10 || !strings.HasSuffix(last, "\nwarning\n") || len(partial["last_events"].([]any)) < 3 {
			t.Errorf("%s: partial results of %d bytes, %d events", reason, len(last), len(partial["last_events"].([]any)))
		}
		r := ask(t, s.tools, "_codex_local_results", args("task_id", id, "format", "json", "max_output_bytes", 4096))
		context := r.Data["metadata"].(map[string]any)["error_context"].(map[string]any)
		if r.IsError || r.Data["state"] != "timeout" || context["timeout_type"] != string(reason) {
			t.Errorf("%s: its results: %.500s", reason, r.Envelope)
		}
		if o := r.Data["output"].(map[string]any); o["included"] != true || o["truncated"] != true || o["original_size"].(float64) != 300_008 {
			t.Errorf("%s: output of %v bytes, truncated %v", reason, o["original_size"], o["truncated"])
		}
		if page := ask(t, s.tools, "_codex_local_results", args("task_id", id)); !strings.Contains(page.Text, "Task timeout") {
			t.Errorf("%.200s", page.Text)
		}
	}
}

func TestCallerWhoLeavesEndsTheWaitAndNotTheTask(t *testing.T) {
	s := newStage(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	end := start(ctx, t, s.tools, "_codex_local_run", `{"task":"Wait."}`, nil)
	id := s.take(t).Run
	s.begin(t, "codex", id, runs.Start{Source: "queue", Worker: "w1"})
	s.await(t, id, func(st runs.State) bool { return st == runs.StateWorking })
	cancel()
	a := end()
	if a.Error.Code != "TIMEOUT" || a.Error.Details["timeout_type"] != "wait" || a.Error.Details["task_id"] != id || !a.Error.Retryable {
		t.Errorf("got %s", a.Envelope)
	}
	if v, _ := s.responder.Get(id); v.State != runs.StateWorking {
		t.Errorf("the task is %s", v.State)
	}
}

func TestWaitEndsAtItsDeadline(t *testing.T) {
	s := newStage(t, nil)
	s.begin(t, "codex", "T-1", runs.Start{Source: "run"})
	s.await(t, "T-1", func(st runs.State) bool { return st == runs.StateWorking })
	a := ask(t, s.tools, "_codex_local_wait", `{"task_id":"T-1","timeout_sec":1}`)
	if a.Error.Code != "TIMEOUT" || !a.Error.Retryable || a.Error.Details["timeout_type"] != "wait" || a.Error.Details["state"] != "working" ||
		a.Error.Details["elapsed_seconds"] != 1.0 {
		t.Errorf("got %s", a.Envelope)
	}
}

func TestResultsOfARunningTaskAreRefusedForNow(t *testing.T) {
	s := newStage(t, nil)
	s.begin(t, "codex", "T-1", runs.Start{Source: "run"})
	s.await(t, "T-1", func(st runs.State) bool { return st == runs.StateWorking })
	queued := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x"}`))
	for id, state := range map[string]string{"T-1": "working", queued: "queued"} {
		a := ask(t, s.tools, "_codex_local_results", args("task_id", id))
		if a.Error.Code != "VALIDATION" || !a.Error.Retryable || a.Error.Details["state"] != state || a.Error.Details["task_id"] != id {
			t.Errorf("got %s", a.Envelope)
		}
	}
}

func TestUnknownTaskIsNotFound(t *testing.T) {
	s := newStage(t, nil)
	for _, tool := range []string{"_codex_local_results", "_codex_local_wait", "_codex_local_cancel", "_codex_local_status"} {
		for id, code := range map[string]string{"T-local-none": "NOT_FOUND", "a b": "VALIDATION", "../x": "VALIDATION", "a.>": "VALIDATION", "T-cloud-1": "VALIDATION",
			"task_e_1": "VALIDATION", "https://chatgpt.com/codex/tasks/task_e_1": "VALIDATION"} {
			if a := ask(t, s.tools, tool, args("task_id", id)); a.Error.Code != code || a.Error.Retryable {
				t.Errorf("%s %s: %s", tool, id, a.Envelope)
			}
		}
	}
}

func TestOutputFollowsTheState(t *testing.T) {
	s := newStage(t, nil)
	s.play(t, "T-good", "hello", 0)
	s.play(t, "T-bad", "http-401", 1)
	for _, c := range []struct {
		id       string
		pairs    []any
		included bool
	}{
		{"T-good", nil, false}, {"T-good", []any{"include_output", true}, true}, {"T-bad", nil, true}, {"T-bad", []any{"include_output", false}, true},
	} {
		for _, tool := range []string{"_codex_local_results", "_codex_local_wait"} {
			a := ask(t, s.tools, tool, args(append([]any{"task_id", c.id}, c.pairs...)...))
			if got := a.Data["output"].(map[string]any)["included"]; got != c.included {
				t.Errorf("%s %s %v: included %v", tool, c.id, c.pairs, got)
			}
		}
	}
	out, stderr := recording(t, "hello")
	o := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-good","include_output":true}`).Data["output"].(map[string]any)
	if o["stdout"] != string(out) || o["stderr"] != string(stderr) || o["truncated"] != false {
		t.Errorf("output %v", o)
	}
}

func TestEventsAreTheLastFifty(t *testing.T) {
	s := newStage(t, nil)
	var out []byte
	for i := range 80 {
		out = fmt.Appendf(out, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"message %d"}}`+"\n", i, i)
	}
	s.begin(t, "codex", "T-1", runs.Start{Source: "run"}).out(out).exit(exited(0))
	e := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-1","include_events":true}`).Data["events"].(map[string]any)
	items := e["items"].([]any)
	if len(items) != 50 || e["count"] != 81.0 {
		t.Errorf("%d items of %v", len(items), e["count"])
	}
	last, _ := json.Marshal(items[49])
	if !strings.Contains(string(last), "message 79") { // the completion holds the final text
		t.Errorf("the last one is %s", last)
	}
	// Large ones: fewer are shown.
	out = nil
	for i := range 30 {
		out = fmt.Appendf(out, `{"type":"item.completed","item":{"id":"item_%d","type":"agent_message","text":"%s"}}`+"\n", i, strings.Repeat(`\u0001`, 6000))
	}
	s.begin(t, "codex", "T-2", runs.Start{Source: "run"}).out(out).exit(exited(0))
	a := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-2","include_events":true}`)
	if n := len(a.Data["events"].(map[string]any)["items"].([]any)); n == 0 || n == 31 || len(a.Envelope) > 700<<10 {
		t.Errorf("%d events in %d bytes", n, len(a.Envelope))
	}
}

// TestOutputIsCutWithinItsBudget has characters at all borders.
func TestOutputIsCutWithinItsBudget(t *testing.T) {
	s := newStage(t, nil)
	text := strings.Repeat("a€𝄞é", 40_000) // 10 bytes each
	s.begin(t, "codex", "T-1", runs.Start{Source: "run"}).out([]byte(text)).err([]byte("x\xff\xfey")).exit(exited(1))
	for _, most := range []int{1024, 1025, 1026, 1027, 1030, 4099, 65536, 1 << 20} {
		a := ask(t, s.tools, "_codex_local_results", args("task_id", "T-1", "max_output_bytes", most))
		o := a.Data["output"].(map[string]any)
		stdout, cut := o["stdout"].(string), o["truncated"].(bool)
		if !utf8.ValidString(stdout) || strings.ContainsRune(stdout, utf8.RuneError) {
			t.Errorf("%d: a character was cut", most)
		}
		if o["stderr"] != "x\uFFFDy" {
			t.Errorf("%d: stderr %q", most, o["stderr"])
		}
		if want := len(text) > most/2; cut != want {
			t.Errorf("%d: truncated %v", most, cut)
			continue
		} else if !want {
			continue
		}
		head, tail, found := strings.Cut(stdout, "\n... [truncated] ...\n")
		if !found || len(head)+len(tail) > most/2 || len(head)+len(tail) < most/2-8 || !strings.HasPrefix(text, head) || !strings.HasSuffix(text, tail) {
			t.Errorf("%d: %d and %d bytes", most, len(head), len(tail))
		}
		if o["original_size"].(float64) != float64(len(text)+4) {
			t.Errorf("%d: original size %v", most, o["original_size"])
		}
	}
}

func TestStatusTellsWhatRunsWaitsAndEnded(t *testing.T) {
	s := newStage(t, nil)
	if a := ask(t, s.tools, "_codex_local_status", `{}`); len(a.Data) != 1 || a.Meta["total"] != 0.0 {
		t.Errorf("of nothing: %s", a.Envelope)
	}
	for i := range 7 {
		s.play(t, fmt.Sprintf("T-done-%d", i), "hello", i%2) // every other one fails
	}
	out, _ := recording(t, "shell-fail")
	working := s.begin(t, "codex", "T-working", runs.Start{Source: "queue", Dir: "/srv/a", Worker: "w1"})
	working.out(out[:900])
	s.awaitActivity(t, "T-working")
	q1 := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x","workingDir":"/srv/a"}`))
	q2 := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x","workingDir":"/srv/b"}`))
	a := ask(t, s.tools, "_codex_local_status", `{"verbose":true}`)
	summary := a.Data["summary"].(map[string]any)
	if summary["running"] != 1.0 || summary["queued"] != 2.0 || summary["recently_completed"] != 7.0 || a.Meta["total"] != 3.0 {
		t.Errorf("summary %v, meta %v", summary, a.Meta)
	}
	task := a.Data["tasks"].([]any)[0].(map[string]any)
	progress := task["progress"].(map[string]any)
	if progress["current_activity"] == "" || progress["percent"].(float64) <= 0 {
		t.Errorf("progress %v", progress)
	}
	if lines := task["last_lines"].([]any); len(lines) == 0 || len(lines) > 5 {
		t.Errorf("%d last lines", len(lines))
	}
	if got := ids(a, "queue"); !slices.Equal(got, []string{q1, q2}) {
		t.Errorf("queue %q", got)
	}
	if p := a.Data["queue"].([]any)[1].(map[string]any)["position"]; p != 1.0 {
		t.Errorf("position %v", p)
	}
	if got := ids(a, "recently_completed"); !slices.Equal(got, []string{"T-done-6", "T-done-5", "T-done-4", "T-done-3", "T-done-2"}) {
		t.Errorf("recently completed %q", got)
	}
	for _, c := range []struct {
		args                   string
		running, queued, ended int
		recent                 int
	}{
		{`{"limit":100}`, 1, 2, 7, 7},
		{`{"showAll":false}`, 1, 2, 0, 0},
		{`{"workingDir":"/srv/a"}`, 1, 1, 0, 0},
		{`{"workingDir":"/srv/a/"}`, 1, 1, 0, 0},
		{`{"workingDir":"/home/dev/project","limit":2}`, 0, 0, 7, 2},
		{`{"task_id":"T-working"}`, 1, 0, 0, 0},
		{`{"task_id":"` + q2 + `"}`, 0, 1, 0, 0},
		{`{"task_id":"T-done-1"}`, 0, 0, 1, 1},
	} {
		a := ask(t, s.tools, "_codex_local_status", c.args)
		sum := a.Data["summary"].(map[string]any)
		got := []float64{sum["running"].(float64), sum["queued"].(float64), sum["recently_completed"].(float64), float64(len(ids(a, "recently_completed")))}
		if want := []float64{float64(c.running), float64(c.queued), float64(c.ended), float64(c.recent)}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", c.args, got, want)
		}
	}
	if ext := a.Data["ext"].(map[string]any)["stream"].(map[string]any); ext["seq"].(float64) < 1 {
		t.Errorf("based on %v", ext)
	}
}

func ids(a answer, list string) (all []string) {
	entries, _ := a.Data[list].([]any)
	for _, e := range entries {
		all = append(all, e.(map[string]any)["task_id"].(string))
	}
	return all
}

func TestCancelSaysWhatBecameOfIt(t *testing.T) {
	s := newStage(t, nil)
	id := submitted(t, ask(t, s.tools, "_codex_local_exec", `{"task":"x"}`))
	a := ask(t, s.tools, "_codex_local_cancel", args("task_id", id, "reason", "No longer <needed>"))
	if a.Data["state"] != "cancelled" || a.Data["previous_state"] != "queued" || a.Data["reason"] != "No longer <needed>" {
		t.Errorf("a queued one: %s", a.Envelope)
	}
	s.await(t, id, runs.State.Final)
	a = ask(t, s.tools, "_codex_local_cancel", args("taskId", id))
	if a.Error.Code != "VALIDATION" || a.Error.Details["state"] != "cancelled" || a.Error.Details["field"] != "taskId" {
		t.Errorf("one that has ended: %s", a.Envelope)
	}
	s.begin(t, "codex", "T-1", runs.Start{Source: "run"}) // its worker is gone
	s.await(t, "T-1", func(st runs.State) bool { return st == runs.StateWorking })
	a = ask(t, s.tools, "_codex_local_cancel", `{"task_id":"T-1"}`)
	if a.Data["state"] != "cancelling" || a.Data["previous_state"] != "working" {
		t.Errorf("one that works: %s", a.Envelope)
	}
	r := ask(t, s.tools, "_codex_local_results", args("task_id", id))
	if r.Data["state"] != "cancelled" || r.Data["duration_seconds"] != 0.0 {
		t.Errorf("results of a cancelled one: %s", r.Envelope)
	}
}

func TestCleanupCountsAndBoundsWhatItLists(t *testing.T) {
	s := newStage(t, nil)
	for i := range 60 {
		s.begin(t, "codex", fmt.Sprintf("T-stuck-%02d", i), runs.Start{Source: "run"})
	}
	s.play(t, "T-old", "hello", 0)
	s.await(t, "T-stuck-59", func(st runs.State) bool { return st == runs.StateWorking })
	for _, dry := range []bool{true, false} {
		a := ask(t, s.tools, "_codex_cleanup_registry", args("dryRun", dry))
		stuck, old := a.Data["stuck_tasks"].(map[string]any), a.Data["old_tasks"].(map[string]any)
		done := map[bool]float64{true: 0, false: 60}[dry]
		if stuck["found"] != 60.0 || stuck["cleaned"] != done || len(stuck["task_ids"].([]any)) != 50 || old["found"] != 1.0 || old["deleted"] != min(done, 1) ||
			old["oldest_age_hours"].(float64) < 24 {
			t.Errorf("dry %v: %s", dry, a.Envelope)
		}
		if a.Meta["dry_run"] != dry || a.Meta["stuck_threshold_seconds"] != 3600.0 || a.Meta["old_threshold_hours"] != 24.0 {
			t.Errorf("meta %v", a.Meta)
		}
	}
	if a := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-old"}`); a.Error.Code != "NOT_FOUND" {
		t.Errorf("an old one that was removed: %s", a.Envelope)
	}
}

func TestStreamsThatAreGoneAreAnInternalError(t *testing.T) {
	s := newStage(t, nil)
	s.play(t, "T-1", "hello", 0)
	s.bus.Close()
	for _, tool := range []string{"_codex_local_exec", "_codex_local_results"} {
		a := ask(t, s.tools, tool, args(map[string][]any{"_codex_local_exec": {"task", "x"}, "_codex_local_results": {"task_id", "T-1"}}[tool]...))
		if a.Error.Code != "INTERNAL" || !a.Error.Retryable || strings.Contains(string(a.Envelope), "nats") {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
	}
}

// TestAgentCannotBreakOutOfThePage has an agent that prints markdown.
func TestAgentCannotBreakOutOfThePage(t *testing.T) {
	s := newStage(t, nil)
	evil := "```\n# OWNED\n````\n## OWNED\n`````"
	out := []byte(`{"type":"item.completed","item":{"id":"item_0","type":"file_change","changes":[{"path":"a` + "`" + `b\n# OWNED","kind":"add"}],"status":"completed"}}` + "\n")
	text, _ := json.Marshal(evil + " [x](y) <b>")
	out = fmt.Appendf(out, `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":%s}}`+"\n", text)
	out = append(out, `{"type":"turn.failed","error":{"message":"bad\n# OWNED `+"```"+`"}}`+"\n"...)
	s.begin(t, "codex", "T-1", runs.Start{Source: "run"}).out(out).err([]byte(evil + "\x1b[2J")).exit(exited(1))
	page := ask(t, s.tools, "_codex_local_results", `{"task_id":"T-1","include_events":true}`).Text
	fence := ""
	for line := range strings.Lines(page) {
		line = strings.TrimRight(line, "\n")
		ticks := len(line) - len(strings.TrimLeft(line, "`"))
		switch {
		case fence != "":
			if ticks >= len(fence) && strings.Trim(line, "`") == "" {
				fence = ""
			}
		case ticks >= 3:
			fence = line[:ticks]
		case strings.HasPrefix(line, "#") && strings.Contains(line, "OWNED"):
			t.Errorf("out of the fence: %q", line)
		}
	}
	if fence != "" || strings.Contains(page, "\x1b") {
		t.Errorf("the page does not close its fences, or obeys escapes:\n%s", page)
	}
}
