package main

import (
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/daemon/daemontest"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture"
)

// Who gives both ids of a request, as they are listed, has not said an answer.
func TestAnIDOfTheRequestIsNoAnswer(t *testing.T) {
	t.Parallel()
	d := daemontest.Start(t, nil).Responder.Service()
	const run = "T-local-asked"
	if _, err := d.Ask(t.Context(), api.AskRequest{Run: run, Prompt: "Which one?", Timeout: time.Hour.Milliseconds(),
		Labels: runs.LabelsOf(map[string]string{"request_id": "id-1"})}); err != nil {
		t.Fatal(err)
	}
	var asked []api.Question
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(fixture.Patience); ; {
		if all, err := d.Waiting(t.Context(), api.QuestionsRequest{Request: run}); err == nil {
			asked = all.Requests
			break
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("the run asks nothing")
		}
	}
	for text, want := range map[string]int{run: exitUsage, "id-1": exitUsage, "id-2": exitDone, "": exitDone} {
		if err := mixedUp(text, asked); exitCode(err) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
