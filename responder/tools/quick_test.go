package tools_test

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/tools"
	v36 "github.com/linesman/linesman/responder/v36"
	"github.com/linesman/linesman/test/servicetest"
)

// What is quick says the same as what is not, and nothing waits in it.
func TestQuickIsCallForWhatIsInMemory(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.play(t, "T-done", "hello", 0)
	s.Await("T-done", servicetest.Ended)
	for args, quick := range map[string]bool{
		`{"task_id":"T-done","format":"json"}`:     true,
		`{"taskId":"T-done"}`:                      true,
		`{"task_id":"T-none","format":"json"}`:     false,
		`{"task_id":"T-done","format":"adcp"}`:     false,
		`{"task_id":"T-done","verbose":true}`:      false,
		`{"task_id":"T-done","verb\u006fse":true}`: false,
		`{"task_id":"T-done","no":1}`:              false,
		`{"format":"json"}`:                        false,
		`{"task_id":"T-done"`:                      false,
	} {
		got, done := s.tools.Quick("_codex_local_status", json.RawMessage(args))
		if done != quick {
			t.Errorf("%s: quick is %v", args, done)
		}
		if !done {
			continue
		}
		want, err := s.tools.Call(t.Context(), "_codex_local_status", json.RawMessage(args), nil)
		told := func(a v36.Answer) string { return gjson.GetBytes(a.Envelope, "data").Raw }
		if err != nil || told(got) != told(want) || told(got) == "" || got.JSON != want.JSON {
			t.Errorf("%s:\n%s\n%s", args, got.Text(), want.Text())
		}
	}
	if _, done := s.tools.Quick("_codex_local_results", json.RawMessage(`{"task_id":"T-done"}`)); done {
		t.Error("results are quick")
	}
	unread := tools.New(responder.New(responder.Config{Streams: s.Operator}))
	if _, done := unread.Quick("_codex_local_status", json.RawMessage(`{"task_id":"T-done"}`)); done {
		t.Error("a table that is not read is quick")
	}
}
