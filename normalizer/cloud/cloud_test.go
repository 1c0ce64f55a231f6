package cloud_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/linesman/linesman/normalizer/cloud"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/backendtest"
)

func TestContract(t *testing.T) {
	backendtest.Run(t, backendtest.Suite{
		Backend: cloud.Backend{},
		Corpus:  "testdata/corpus",
		Golden:  "testdata/golden",
		Shown:   []string{"type", "id", "url", "environment", "status", "files[].path", "files[].kind"},
	})
}

const (
	submitted = `{"type":"cloud.submitted","id":"task_e_1","url":"https://chatgpt.com/codex/tasks/task_e_1",` +
		`"environment":"env","attempts":1}`
	pending = `{"type":"cloud.status","status":"pending"}`
	ready   = `{"type":"cloud.status","status":"ready","files":1,"added":2,"removed":3}`
	applied = `{"type":"cloud.status","status":"applied"}`
	failed  = `{"type":"cloud.status","status":"error"}`
	diff    = `{"type":"cloud.diff","files":[],"diff":"d"}`
)

// The exit entry of a cloud run is always the end of input. The lines determine
// the state.
func TestLinesDetermineTheState(t *testing.T) {
	for _, c := range []struct {
		lines  []string
		state  runs.State
		reason string
	}{
		{[]string{submitted, pending, ready, diff}, runs.StateCompleted, ""},
		{[]string{submitted, applied}, runs.StateCompleted, ""},
		{[]string{submitted, pending, failed}, runs.StateFailed, "turn failed"},
		{[]string{submitted, ready, pending, failed}, runs.StateFailed, "turn failed"}, // the task was resumed
		{[]string{submitted, pending}, runs.StateFailed, "no terminal event"},
	} {
		log := append(backendtest.Output([]byte(strings.Join(c.lines, "\n")+"\n")),
			runs.Entry{Kind: runs.Exited, Time: 3_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonEOF})})
		messages, fold := backendtest.Fold(cloud.Backend{}, log)
		if r := fold.Record; r.State == runs.StateFailed && c.reason == "turn failed" &&
			r.ErrorContext().Message != "the cloud task ended in error" {
			t.Errorf("%q: message %q", c.lines, r.ErrorContext().Message)
		}
		if r := fold.Record; r.State != c.state || r.Reason != c.reason {
			t.Errorf("%q: %s (%s), want %s (%s)", c.lines, r.State, r.Reason, c.state, c.reason)
		}
		if len(messages) != len(c.lines)+1 {
			t.Errorf("%q: %d messages", c.lines, len(messages))
		}
	}
}

func TestEventsShowTheStatusWordAlone(t *testing.T) {
	out := strings.Join([]string{submitted, pending, ready, diff, applied, failed}, "\n") + "\n"
	messages, _ := backendtest.Fold(cloud.Backend{}, backendtest.Output([]byte(out)))
	backendtest.Expect(t, cloud.Agent, messages,
		`{"kind":"Status","channel":"status","message":"cloud task submitted"}`,
		`{"kind":"Status","channel":"status","message":"cloud task pending"}`,
		`{"kind":"Status","channel":"status","message":"cloud task ready"}`,
		`{"kind":"Status","channel":"status","message":"cloud task diff"}`,
		`{"kind":"Status","channel":"status","message":"cloud task applied"}`,
		`{"kind":"Status","channel":"status","message":"cloud task error"}`)
}

func TestDiffSetsFiles(t *testing.T) {
	_, fold := backendtest.Fold(cloud.Backend{}, backendtest.Output([]byte(
		`{"type":"cloud.diff","files":[{"path":"m","kind":"update"},{"path":"a","kind":"add"},{"path":"d",`+
			`"kind":"delete"},{"path":"x","kind":"eaten"},{"path":"","kind":"add"}],`+
			`"unlisted":4,"added":5,"removed":2,"diff":"S3CR3T"}`+"\n")))
	r := fold.Record
	if r.Files == nil ||
		fmt.Sprint(r.Files.Modified, r.Files.Added, r.Files.Deleted, r.Files.Unlisted) != "[m] [a] [d] 4" ||
		r.Files.LinesChanged == nil || *r.Files.LinesChanged != 7 || r.Cloud.Added != 5 || r.Cloud.Removed != 2 {
		t.Errorf("record %s", r.JSON())
	}
	if strings.Contains(string(r.JSON()), "S3CR3T") {
		t.Error("the record has the diff")
	}
}

func FuzzLine(f *testing.F) { backendtest.FuzzLine(f, cloud.Backend{}, "testdata/corpus") }
