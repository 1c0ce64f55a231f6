package tools_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/linesman/linesman/api"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// A live run that asks people is one that works, in the terms of v3.6: its results are an error, and a wait for its end
// goes on.
func TestRunThatAsksPeople(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const run = "T-local-live00000000001"
	l := s.BeginLive("codex", run, runs.Start{
		Source: "queue", Attributes: runs.Attributes{Dir: "/home/dev/project", Mode: runs.ReadOnly}, Worker: "w1",
	})
	l.Permission("rm sentinel", servicetest.Begun+3_600_000)
	l.Asks("q1")
	golden(t, s.tools, "status-asks", "_codex_local_status", `{}`)
	golden(t, s.tools, "results-asks", "_codex_local_results", `{"task_id":"`+run+`"}`)
	if a := ask(t, s.tools, "_codex_local_wait", `{"task_id":"`+run+`","timeout_sec":1}`); a.Error.Code != "TIMEOUT" {
		t.Errorf("a wait that is over: %s", a.Envelope)
	}
	for tool, pairs := range map[string][]any{
		"_codex_local_status": {}, "_codex_local_results": {"task_id", run},
		"_codex_local_wait": {"task_id", run, "timeout_sec", 1},
	} {
		a := envelope(t, s.tools, tool, pairs...)
		if strings.Contains(string(a.Envelope), "sentinel") && tool != "_codex_local_status" ||
			a.Status != "input-required" &&
				tool != "_codex_local_status" {
			t.Errorf("%s: %s", tool, a.Envelope)
		}
	}
	var mu sync.Mutex
	var told []string
	end := start(t.Context(), t, s.tools, "_codex_local_wait", `{"task_id":"`+run+`","format":"json"}`,
		func(p v36.Progress) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, p.Message)
		})
	fixture.Eventually(t, fixture.Patience, "it tells that it waits", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(told) > 0 && told[len(told)-1] == "Waiting for an answer"
	})
	if _, err := s.Service.Decide(t.Context(), api.AnswerRequest{Request: run, Question: "q1", Option: "no"}); err != nil {
		t.Fatal(err)
	}
	l.Turn("Not done.")
	if a := end(); a.Status != "ok" || a.Data["state"] != "completed" {
		t.Errorf("waited: %s", a.Envelope)
	}
}
