package tools_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/tools"
	"github.com/linesman/linesman/runs"
)

// hasty is a context of a caller that gives up early.
func hasty(t *testing.T) context.Context {
	return responder.WithPatience(t.Context(), 50*time.Millisecond)
}

// A caller that hears nothing meanwhile gets an answer before it gives up: which state the task has, and
// what to call next. The task goes on.
func TestImpatientCallersGetAnAnswerAndTheTaskGoesOn(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	id := submitted(t, ask(t, s.tools, "_codex_local_exec", args("task", "Take your time.")))
	const wait = "_codex_local_wait"
	a := start(hasty(t), t, s.tools, wait, args("task_id", id, "timeout_sec", 3600, "format", "json"), nil)()
	if !a.IsError || a.Error.Code != "TIMEOUT" || a.Error.Details["state"] != "queued" ||
		a.Error.Details["task_id"] != id || a.Error.Details["timeout_type"] != "wait" || !a.Error.Retryable {
		t.Errorf("%s", a.Envelope)
	}
	a = start(hasty(t), t, s.tools, wait, args("task_id", id), nil)()
	if said, _ := a.Error.Details["suggestion"].(string); !strings.Contains(said, wait) ||
		!strings.Contains(a.Text(), "timeout_sec") {
		t.Errorf("it does not say what to call: %s", a.Text())
	}
	// AdCP has a status for it.
	got, err := s.tools.Call(hasty(t), wait, json.RawMessage(args("task_id", id, "format", "adcp")), nil)
	if status := gjson.GetBytes(got.Envelope, "status").String(); err != nil || got.IsError || status != "submitted" {
		t.Errorf("%v %s", err, got.Envelope)
	}
	// One that asked for no longer gets the same without the advice.
	a = start(responder.WithPatience(t.Context(), time.Hour), t, s.tools, "_codex_local_wait",
		args("task_id", id, "timeout_sec", 1), nil)()
	if a.Error.Code != "TIMEOUT" || a.Error.Details["suggestion"] != nil {
		t.Errorf("after its own time: %s", a.Envelope)
	}
	// A foreground run becomes one in the background.
	a = start(hasty(t), t, s.tools, "_codex_local_run", args("task", "Take your time, too."), nil)()
	if id := submitted(t, a); a.Data["capability"] != "background" || !strings.Contains(a.Text(), "_codex_local_wait") {
		t.Errorf("%s: %s", id, a.Text())
	}
	if n := s.logs(t); n != 2 {
		t.Errorf("%d raw logs", n)
	}
}

// own calls a tool of linesman's own, and decodes its answer.
func own(ctx context.Context, t *testing.T, s *stage, tool, args string, into any) (failed *api.Error) {
	t.Helper()
	a, err := s.tools.Call(ctx, tool, json.RawMessage(args), nil)
	if err != nil {
		t.Fatal(err)
	}
	var e struct{ Error *api.Error }
	if !a.JSON || json.Unmarshal(a.Envelope, into) != nil || json.Unmarshal(a.Envelope, &e) != nil ||
		a.IsError != (e.Error != nil) {
		t.Fatalf("%s: %s", tool, a.Envelope)
	}
	return e.Error
}

func TestAgentToolsStartAnyAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *responder.Config) { c.Agents = known.Agents })
	title := strings.Repeat("日", runs.MaxTitle) // its limit is in characters
	for _, name := range known.Agents.Names() {
		var done struct {
			api.Submitted
			Next string
		}
		if e := own(t.Context(), t, s, "_agent_run", args("prompt", "Look around.", "agent", name, "directory", "/srv/app",
			"model", "m1", "title", title, "timeout_seconds", 60), &done); e != nil {
			t.Fatalf("%s: %v", name, e)
		}
		var run struct {
			api.Run
			Next string
		}
		if e := own(t.Context(), t, s, "_agent_status", args("run", done.Run), &run); e != nil ||
			run.State != runs.StateQueued || run.Dir != "/srv/app" || run.Title != title {
			t.Errorf("%s: %+v %v", name, run, e)
		}
		if a, ok := known.Agents.Find(run.Agent); !ok || a.Short != name ||
			!strings.Contains(done.Next, "_agent_wait") {
			t.Errorf("%s: agent %s, next %q", name, run.Agent, done.Next)
		}
		// A wait that is over is an answer, not an error.
		if e := own(hasty(t), t, s, "_agent_wait", args("run", done.Run), &run); e != nil || run.State.Final() ||
			!strings.Contains(run.Next, "_agent_wait") {
			t.Errorf("%s: wait: %+v %v", name, run, e)
		}
		var none struct{}
		if e := own(t.Context(), t, s, "_agent_answer", args("run", done.Run, "option", "y"), &none); e == nil ||
			e.Code != api.NotWaiting {
			t.Errorf("%s: answer: %v", name, e)
		}
		var page api.RunPage
		if e := own(t.Context(), t, s, "_agent_list", args("agent", name, "state", "queued", "directory", "/srv/app"),
			&page); e != nil || len(page.Runs) != 1 || page.Runs[0].ID != done.Run {
			t.Errorf("%s: list: %+v %v", name, page, e)
		}
		if e := own(t.Context(), t, s, "_agent_results", args("run", done.Run), &run); e == nil || e.Code != api.NotEnded {
			t.Errorf("%s: results: %v", name, e)
		}
		var cancelled api.Cancelled
		if e := own(t.Context(), t, s, "_agent_cancel", args("run", done.Run, "reason", "enough"), &cancelled); e != nil ||
			cancelled.State != runs.StateCancelled {
			t.Errorf("%s: cancel: %+v %v", name, cancelled, e)
		}
		var result api.Result
		if e := own(t.Context(), t, s, "_agent_wait", args("run", done.Run), &result); e != nil ||
			result.State != runs.StateCancelled {
			t.Errorf("%s: wait for a cancelled run: %v", name, e)
		}
	}
}

// The result has the answer of the agent, and its output on request only.
func TestAgentResultsHaveTheOutputOnRequest(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play(t, "T-local-hello", "hello", 1)
	var r api.Result
	if e := own(t.Context(), t, s, "_agent_wait", args("run", "T-local-hello"), &r); e != nil || r.FinalText == nil ||
		r.Output.Stdout != "" || !r.State.Final() {
		t.Errorf("wait: %+v %v", r, e)
	}
	if e := own(t.Context(), t, s, "_agent_results", args("run", "last", "include_output", true), &r); e != nil ||
		r.Output.Stdout == "" {
		t.Errorf("results: %+v %v", r, e)
	}
}

// Mistakes have the names of these parameters.
func TestMistakesInAgentToolsHaveTheirNames(t *testing.T) {
	t.Parallel()
	s := newStage(t, func(c *responder.Config) { c.Agents = known.Agents })
	for _, c := range []struct{ tool, args, field string }{
		{"_agent_run", `{}`, "prompt"},
		{"_agent_run", args("prompt", "x", "directory", "here"), "directory"},
		{"_agent_run", args("prompt", "x", "agent", "other"), "agent"},
		{"_agent_run", args("prompt", "x", "mode", "workspace-write"), "confirm"},
		{"_agent_run", args("prompt", "x", "thread", "no thread"), "thread"},
		{"_agent_run", args("prompt", "x", "timeout_seconds", 0), "timeout_seconds"},
		{"_agent_run", args("prompt", "x", "workingDir", "/srv"), "workingDir"},
		{"_agent_status", args("run", ".."), "run"},
		{"_agent_answer", `{}`, "run"},
		{"_agent_answer", args("run", "last", "option", "y", "answer", "y"), "answer"},
		{"_agent_wait", args("run", "last", "known_questions", "q1"), "known_questions"},
		{"_agent_list", args("limit", 101), "limit"},
		{"_agent_list", args("cursor", "none"), "cursor"},
	} {
		var none struct{}
		e := own(t.Context(), t, s, c.tool, c.args, &none)
		if e == nil || e.Code != api.Validation {
			t.Errorf("%s %s: %v", c.tool, c.args, e)
			continue
		}
		if e.Field != c.field && !slices.ContainsFunc(e.Issues, func(i api.Issue) bool { return i.Field == c.field }) {
			t.Errorf("%s %s: %+v, want the field %s", c.tool, c.args, e, c.field)
		}
	}
	var none struct{}
	e := own(t.Context(), t, s, "_agent_status", args("run", "T-local-none"), &none)
	if e == nil || e.Code != api.NotFound {
		t.Errorf("an unknown run: %v", e)
	}
	if n := s.logs(t); n != 0 {
		t.Errorf("%d raw logs", n)
	}
}

// The list is short, and offers every agent.
func TestAgentToolsAreFewAndSmall(t *testing.T) {
	list := tools.Named("agents")
	size := 0
	for _, tool := range list {
		size += len(tool.Description) + len(tool.InputSchema)
		if !strings.HasPrefix(tool.Name, "_agent_") || tool.Category != "" || tool.Title == "" {
			t.Errorf("%+v", tool.Name)
		}
		enum := gjson.GetBytes(tool.InputSchema, "properties.agent.enum")
		if enum.Exists() {
			var names []string
			for _, n := range enum.Array() {
				names = append(names, n.String())
			}
			if !slices.Equal(names, known.Agents.Names()) {
				t.Errorf("%s: agents %q, want %q", tool.Name, names, known.Agents.Names())
			}
		}
	}
	if len(list) != 7 || size > 6000 {
		t.Errorf("%d tools, %d bytes", len(list), size)
	}
	for _, tool := range tools.List() {
		if strings.HasPrefix(tool.Name, "_agent_") {
			t.Errorf("%s is among those of v3.6", tool.Name)
		}
	}
}
