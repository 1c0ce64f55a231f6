package rest_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// No percentage is derived from the number of lines so far: progress is that of
// the agent's to-do list, and absent without one.
func TestProgressIsTheStepsOfAPlanOrAbsent(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const turn = `{"type":"turn.started"}` + "\n"
	const plan = `{"type":"item.started","item":{"id":"item_0","type":"todo_list","items":[{"text":"Read","completed":true},{"text":"Write","completed":false},{"text":"Test","completed":false}]}}` + "\n"
	const said = `{"type":"item.completed","item":{"id":"item_1","type":"agent_message","text":"Hi."}}` + "\n"
	for id, out := range map[string]string{"one-line": turn, "some-lines": turn + said + said, "planned": turn + plan} {
		s.Begin("codex", id, runs.Start{Source: "run"}).OutIn([]byte(out), 1000)
		s.Await(id, func(v runs.Header) bool {
			return v.Steps != nil && (id != "planned" || v.Plan().Total == 3 && v.Activity == "Write")
		})
	}
	s.play("ended", "hello", 0)
	var list api.RunPage
	s.want(http.StatusOK, "GET", "/v1/runs", "").read(t, &list)
	for _, r := range list.Runs {
		var one struct{ Progress json.RawMessage }
		s.want(http.StatusOK, "GET", "/v1/runs/"+r.ID, "").read(t, &one)
		listed, err := json.Marshal(r.Progress)
		if err != nil {
			t.Fatal(err)
		}
		want := "null" // of a list; that of one run has no such member
		if r.ID == "planned" {
			want = `{"completedSteps":1,"totalSteps":3}`
		}
		if string(listed) != want || one.Progress != nil != (r.ID == "planned") || one.Progress != nil &&
			string(one.Progress) != want {
			t.Errorf("%s: %s in a list, %s by itself, want %s", r.ID, listed, one.Progress, want)
		}
	}
	s.Begin("codex", "idle", runs.Start{Source: "run"}).OutIn(
		[]byte(turn+plan+`{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":2}}`+
			"\n"), 1000)
	s.Await("idle", func(v runs.Header) bool { return v.Plan().Total == 3 && v.Activity == "" })
	var idle struct{ Progress json.RawMessage }
	s.want(http.StatusOK, "GET", "/v1/runs/idle", "").read(t, &idle)
	if want := `{"completedSteps":1,"totalSteps":3}`; string(idle.Progress) != want {
		t.Errorf("between two turns: %s, want %s", idle.Progress, want)
	}
}
