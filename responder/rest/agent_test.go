package rest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/linesman/linesman/agent/known"
	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/rest"
	"github.com/linesman/linesman/runs"
)

// A task of each agent is submitted, listed and resumed alike; what the agent cannot do is
// refused with its reason.
func TestRunsOfAllAgents(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	sessions := s.Sessions()
	for _, one := range sessions {
		kind, short := one.Agent.Kind(), one.Agent.Short
		var ids []string
		for _, name := range []string{short, kind} {
			var queued api.Run
			s.want(202, "POST", "/v1/runs", fmt.Sprintf(`{"task":"go","agent":%q,"mode":"workspace-write","confirm":true}`,
				name)).read(t, &queued)
			if task := s.Task(); queued.Agent != kind || task.Agent != kind || task.Mode != runs.WorkspaceWrite {
				t.Errorf("%s: run of %s, task of %s", name, queued.Agent, task.Agent)
			}
			ids = append(ids, queued.ID)
			s.Await(queued.ID, func(runs.Header) bool { return true })
		}
		var next api.Run
		s.want(202, "POST", "/v1/runs/"+one.Run+"/resume",
			`{"task":"go on","skipGitRepoCheck":true}`).read(t, &next)
		if task := s.Task(); next.Agent != kind || next.Thread != one.ID || task.Agent != kind || task.Thread != one.ID ||
			task.Dir != "/srv/"+short || !task.SkipGit {
			t.Errorf("%s: resumed as %+v by the task %+v", kind, next, task)
		}
		s.want(202, "POST", "/v1/runs", fmt.Sprintf(`{"task":"go on","context_id":%q}`, one.ID)).read(t, &next)
		if task := s.Task(); next.Agent != kind || task.Thread != one.ID {
			t.Errorf("%s: a task in the context is %+v", kind, next)
		}
		s.want(400, "POST", "/v1/runs/"+one.Run+"/resume", `{"task":"go","agent":"codex"}`)
		for _, name := range []string{short, kind} {
			listed := s.list("agent="+name+"&limit=100", nil)
			if len(listed) != 5 || !slices.Contains(listed, ids[0]) || !slices.Contains(listed, one.Run) {
				t.Errorf("of %s are listed %q", name, listed)
			}
		}
		// A live run needs the thread for itself.
		status := 409
		if short == "gemini" { // it continues no session live
			status = 400
		}
		s.want(status, "POST", "/v1/runs/"+one.Run+"/resume", `{"task":"go on","live":true,"keep":true,"ask":false}`)
	}

	for body, want := range map[string]api.Issue{
		`{"task":"go","agent":"unknown"}`: {Field: "agent", Problem: "must be one of codex, claude, gemini, opencode"},
		`{"task":"go","agent":7}`:         {Field: "agent", Problem: "must be a string"},
		`{"task":"go","agent":"gemini","outputSchema":{}}`: {
			Field: "outputSchema", Problem: "is not for Gemini CLI: it cannot keep to a schema"},
		`{"task":"go","agent":"opencode","live":true,"policy":["ask edit","allow *"]}`: {Field: "policy",
			Problem: "its rules only deny and ask: allow is for the setting live.policy of a worker"},
		`{"task":"go","agent":"opencode","policy":["ask edit"]}`: {Field: "policy", Problem: "only with live"},
		`{"task":"go","agent":"opencode","context_id":"é"}`:      {Field: "context_id", Problem: "must be printable ASCII"},
		`{"task":"go","agent":"codex","contextId":"` + sessions[1].ID + `"}`: {
			Field: "contextId", Problem: "belongs to Claude Code, which alone can resume it"},
	} {
		var p rest.Problem
		s.want(400, "POST", "/v1/runs", body).read(t, &p)
		if len(p.Issues) != 1 || p.Issues[0] != want || p.Field != want.Field {
			t.Errorf("%s: %+v, want %+v", body, p, want)
		}
	}
}

// What an agent tells of itself is in its run.
func TestRunHasWhatItsAgentTells(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("claude_code", "T-claude", runs.Start{Source: "run", Worker: "w1", Version: "2.1.330"}).
		Out([]byte(`{"type":"result","subtype":"success","is_error":false,"result":"Done.","total_cost_usd":0.5,` +
			`"usage":{"input_tokens":1,"output_tokens":2},"modelUsage":{"claude-a":{"inputTokens":3,"outputTokens":4,"costUSD":0.5}}}` + "\n")).
		Exit(0)
	var run api.Run
	s.want(200, "GET", "/v1/runs/T-claude", "").read(t, &run)
	if run.Agent != "claude_code" || run.Version != "2.1.330" || run.Cost == nil || *run.Cost != 0.5 ||
		len(run.Models) != 1 || run.Models[0].Name != "claude-a" || run.Models[0].Input != 3 || run.Usage.Total.Output != 4 ||
		*run.FinalText != "Done." {
		b, _ := json.Marshal(run)
		t.Errorf("%s", b)
	}

	record := runs.NewRecord("T-drift", "codex")
	record.Line(runs.Facts{Drift: []runs.Unknown{{What: runs.DriftField, Name: "item.new"}}}, 1)
	told := responder.Describe(record.Header(), record)
	body, err := json.Marshal(told)
	if err != nil || told.Drift.Count != 1 || told.Drift.Things[0].Name != "item.new" {
		t.Errorf("%s, %v", body, err)
	}
	s.document.check(t, "GET", "/v1/runs/T-drift", reply{200,
		http.Header{"Content-Type": {"application/json"}, "Etag": {`"x"`}}, body})
}

func TestDocumentNamesTheAgents(t *testing.T) {
	for _, name := range known.Agents.Names() {
		if !strings.Contains(string(rest.Document), "`"+name+"`") {
			t.Errorf("openapi.json does not name %s", name)
		}
	}
}
