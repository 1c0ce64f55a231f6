package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// The output and its size are those of the requested run, even if another run
// resumed its task: reading up to the size ends.
func TestOutputOfAResumedTaskHasItsOwnSize(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const task, link = "T-local-task", "T-local-task-2"
	const said = "I need somebody.\n"
	first := s.Begin("codex", task, runs.Start{Source: "run", Worker: "w1"}).OutIn([]byte(said), 700)
	code := runs.ExitNeedsAgent
	first.Append(runs.Entry{Kind: runs.Exited, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})})
	s.Await(task, func(v runs.Header) bool { return v.State == runs.StateInputRequired })
	s.Begin("codex", link, runs.Start{Source: "run", Worker: "w1",
		Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{runs.LabelContinues: task})}}).
		OutIn([]byte(strings.Repeat("more\n", 100)), 700).Exit(0)
	s.Await(task, func(v runs.Header) bool { return v.State == runs.StateCompleted && v.ContinuedBy == link })
	for path, want := range map[string]string{task: "17", link: "500"} {
		r := s.want(http.StatusOK, "GET", "/v1/runs/"+path+"/output", "")
		if got := r.header.Get("X-Linesman-Size"); got != want {
			t.Errorf("%s: %d bytes, and a size of %s, want %s", path, len(r.body), got, want)
		}
	}
	if got := s.want(http.StatusOK, "GET", "/v1/runs/"+task+"/output?offset=17",
		"").header.Get("X-Linesman-Size"); got != "17" {
		t.Errorf("at its end the size is %s", got)
	}
}
