package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

func TestEveryAnswerHasTheRun(t *testing.T) {
	t.Parallel()
	for _, answer := range []any{
		api.Submitted{Run: "T-1"}, &api.Submitted{Run: "T-1"}, api.Cancelled{Run: "T-1"}, api.Question{Run: "T-1"},
		api.Questions{Requests: []api.Question{{Run: "T-1"}}}, api.Answered{Run: "T-1", State: runs.StateCompleted},
		&api.Error{Code: api.Ended, Message: "a < b & c", Run: "T-1"},
	} {
		b, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(b); !strings.Contains(text, `"run":"T-1"`) {
			t.Errorf("%T: %s", answer, text)
		}
	}
	b, err := json.Marshal(&api.Error{Code: api.Internal, Message: "x"})
	if err != nil || strings.Contains(string(b), "run") {
		t.Errorf("%s: %v", b, err)
	}
	var back api.Error
	if err := json.Unmarshal([]byte(`{"code":"ENDED","run":"T-1"}`), &back); err != nil || back.Run != "T-1" {
		t.Errorf("%+v: %v", back, err)
	}
}

func TestAResultIsARunWithMore(t *testing.T) {
	t.Parallel()
	in := api.Result{
		Run:    &api.Run{Summary: runs.Summary{ID: "T-1"}, Detail: &api.Detail{Events: map[string]int64{"status": 2}}},
		Output: api.Output{Stdout: "hello"}, Events: &api.RecentEvents{Count: 3},
	}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var flat map[string]any
	var out api.Result
	if err := json.Unmarshal(b, &flat); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"run", "state", "events", "recentEvents", "output"} {
		if _, ok := flat[key]; !ok {
			t.Errorf("no member %s in %s", key, b)
		}
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	if out.Run.ID != "T-1" || out.Run.Events["status"] != 2 || out.Events.Count != 3 || out.Output.Stdout != "hello" {
		t.Errorf("read back: %+v", out)
	}
}
