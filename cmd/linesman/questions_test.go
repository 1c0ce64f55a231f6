package main

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// While somebody waits for a run on a terminal, each of its questions is told once, and read when it is new.
func TestQuestionsAreToldOnce(t *testing.T) {
	t.Parallel()
	var open []string
	var fail error
	requests := 0
	read := func(_ context.Context, q api.QuestionsRequest) (all api.Questions, err error) {
		requests++
		for _, id := range open {
			all.Requests = append(all.Requests, api.Question{Run: q.Request, ID: id, Kind: api.KindPermission,
				Title: "a\x1b[2J\ntitle", Command: "SENTINEL", Options: []api.QuestionOption{{ID: "y", Kind: "allow_once"}}})
		}
		return all, fail
	}
	var out strings.Builder
	tell := tellQuestions(t.Context(), read, &out)
	state := func(ids ...string) {
		open = ids
		tell(&api.Run{Summary: runs.Summary{ID: "r", Questions: ids}})
	}
	state()
	fail = errors.New("away")
	state("q1")
	fail = nil
	state("q1")
	state("q1")
	state("q1", "q2")
	state("q2")
	state()
	state("q3")
	line := func(id string) string {
		return `linesman: r asks: a\x1b[2J title — answer with: linesman answer r/` + id + " allow (or deny)\n"
	}
	if got, want := out.String(), line("q1")+line("q2")+line("q3"); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if requests != 4 {
		t.Errorf("%d requests", requests)
	}
}

func TestQuestionRefs(t *testing.T) {
	t.Parallel()
	for ref, want := range map[questionRef][2]string{
		"last": {"last", ""}, "T-1/q1": {"T-1", "q1"}, "team=a/b": {"team=a/b", ""}, "team=a/q2": {"team=a", "q2"},
		"last/q0": {"last/q0", ""}, "last/q1x": {"last/q1x", ""},
	} {
		if run, id := ref.split(); string(run) != want[0] || id != want[1] {
			t.Errorf("%s: %s, %s", ref, run, id)
		}
	}
	if questionRef("last/q0").Validate() == nil || questionRef("last/q1").Validate() != nil {
		t.Error("a name of no question is valid, or one of a question is not")
	}
}
