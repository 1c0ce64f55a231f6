package responder_test

import (
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// A submission that comes again, and whose task no queue has, is queued again before it is accepted: the attempt before
// failed, removed the task, and its queued entry was stored all the same. So is one that continues the last session.
func TestAnAcceptedSubmissionIsInAQueue(t *testing.T) {
	t.Parallel()
	s := stage(t)
	began(s, 1, "first", "8", "/srv").Exit(0)
	for run, of := range map[string]*api.ThreadRef{"T-1": nil, "T-2": last} {
		q := api.Submission{Run: run, Resume: of, Task: runs.Task{Attributes: runs.Attributes{Agent: "codex", Dir: "/srv"},
			Prompt: "Go on."}}
		if done, err := s.Service.Submit(t.Context(), q); err != nil || done.Run != run {
			t.Fatalf("%+v, %v", done, err)
		}
		for range 2 {
			if err := s.Operator.Unqueue(t.Context(), bus.DefaultQueue, run); err != nil {
				t.Fatal(err)
			}
			if done, err := s.Service.Submit(t.Context(), q); err != nil || done.Run != run {
				t.Errorf("%s again: %+v, %v", run, done, err)
			}
			if is, err := s.Operator.Queued(t.Context(), bus.DefaultQueue, run); err != nil || !is {
				t.Errorf("%s is in a queue: %v, %v", run, is, err)
			}
		}
		if done, err := s.Service.Submit(t.Context(), q); err != nil || !done.Replayed {
			t.Errorf("%s while it is queued: %+v, %v", run, done, err)
		}
		if got := s.Task(); got.Run != run || of != nil && got.Thread != threadID+"8" {
			t.Errorf("%s: %+v", run, got)
		}
	}
}
