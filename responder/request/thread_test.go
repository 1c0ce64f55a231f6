package request_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/responder/request"
)

// The objects with a thread are closed, and one mistake in them names its member.
func TestThreadsOfRequestsAreClosedObjects(t *testing.T) {
	s := responder.New(responder.Config{})
	for arguments, want := range map[string]string{
		`{"task":"x","resume":{"selector":"last"}}`:                                 "",
		`{"task":"x","fork":{"selector":"id","id":"` + threadID + `"}}`:             "",
		`{"task":"x","fork":{}}`:                                                    "fork: selector is required",
		`{"task":"x","fork":{"selector":"first"}}`:                                  "fork: selector must be one of last, id, not first",
		`{"task":"x","fork":{"selector":"last","all":true}}`:                        "fork: all is no parameter of this tool",
		`{"task":"x","resume":{"selector":"last","selector":"last"}}`:               "resume: selector is given twice",
		`{"task":"x","resume":{"selector":"id","id":7}}`:                            "resume: id must be a string",
		`{"task":"x","resume":"last"}`:                                              "resume: must be an object",
		`{"task":"x","resume":{"selector":"last"},"fork":{"selector":"last"}}`:      "fork: not with a thread to resume",
		`{"task":"x","resume":{"selector":"last"},"context_id":"` + threadID + `"}`: "", // no thread that is known
	} {
		args := request.Read(request.TaskParams, []byte(arguments))
		q := request.Submission(s, request.ToolExec, args)
		got := ""
		if err := args.Err(); err != nil {
			got = err.Error()
		}
		if got != want || want == "" && (q.Resume == nil) == strings.Contains(arguments, "resume") {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
}

const threadID = "0199a213-81c0-7800-8aa1-bbab2a035001"

// A preset is an argument like others, and the object may have it, too, but not with another value.
func TestObjectMayRepeatAPreset(t *testing.T) {
	presets := []request.Preset{{Name: "task_id", Value: "T-é/1"}, {Name: "reason", Value: "enough"}}
	for arguments, want := range map[string]string{
		`{}`: "", `{"task_id":"T-é/1"}`: "", `{"task_id":"T-\u00e9\/1"}`: "", `{"taskId":"T-é/1"}`: "",
		`{"task_id":"T-2"}`:                     "task_id: is given twice",
		`{"task_id":7}`:                         "task_id: is given twice",
		`{"taskId":"T-2"}`:                      "taskId: is given as task_id too, with another value",
		`{"reason":""}`:                         "reason: is given twice",
		`{"format":"json","format":"json"}`:     "format: is given twice",
		`{"task_id":"T-é/1","reason":"enough"}`: "",
	} {
		args := request.Read(request.CancelParams, []byte(arguments), presets...)
		got := ""
		if err := args.Err(); err != nil {
			got = err.Error()
		}
		if got != want || args.Text("task_id") != "T-é/1" || args.Text("reason") != "enough" {
			t.Errorf("%s: %q, want %q", arguments, got, want)
		}
	}
}
