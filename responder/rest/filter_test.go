package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/servicetest"
)

// A directory and a thread are found however they are written, as the tools
// find them.
func TestFiltersFindWhatTheToolsFind(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const thread = "01a1fd7c-3234-7431-a730-2b1ea25bc865"
	s.Begin("codex", "one", runs.Start{Source: "run", Attributes: runs.Attributes{Dir: "/srv/shop/"}, Worker: "w1"}).
		OutIn([]byte(`{"type":"thread.started","thread_id":"`+thread+`"}`+"\n"), 700)
	s.Await("one", func(v runs.Header) bool { return v.Thread == thread })
	for _, query := range []string{
		"workingDir=/srv/shop", "workingDir=/srv/shop/", "workingDir=/srv//shop", "threadId=" + thread,
		"threadId=" + strings.ToUpper(thread),
	} {
		var list api.RunPage
		s.want(http.StatusOK, "GET", "/v1/runs?"+query, "").read(t, &list)
		if len(list.Runs) != 1 {
			t.Errorf("%s: %d runs", query, len(list.Runs))
		}
	}
	for _, query := range []string{"workingDir=/srv", "threadId=" + strings.Replace(thread, "0", "1", 1)} {
		var list api.RunPage
		s.want(http.StatusOK, "GET", "/v1/runs?"+query, "").read(t, &list)
		if len(list.Runs) != 0 {
			t.Errorf("%s: %d runs", query, len(list.Runs))
		}
	}
}

// Each word has to be in a text of the run, whatever its capitals.
func TestWordsAreFound(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("codex", "one", runs.Start{Source: "run", Attributes: runs.Attributes{
		Dir: "/srv/Größe", Title: "Fix the Parser", Labels: runs.LabelsOf(map[string]string{"team": "A & B"}),
	}, Worker: "w1"})
	s.Begin("codex", "two", runs.Start{Source: "run", Attributes: runs.Attributes{Title: "fix the lexer"}}).Exit(1)
	s.Await("one", servicetest.Working)
	s.Await("two", servicetest.Ended)
	for query, want := range map[string]int{
		"word=FIX": 2, "word=fix+the&word=parser": 1, "word=parser&word=lexer": 0, "word=GR%C3%96SSE": 0,
		"word=GR%C3%96%C3%9FE": 1,
		"word=team%3Da+%26+b":  1, "word=running": 1, "word=w1": 1, "word=codex": 2, "state=failed&word=the": 1,
		"word=on&word=ne":            1,
		"state=failed&state=working": 2, "state=failed": 1, "word=codex&limit=1&order=changed": 1,
	} {
		var list api.RunPage
		s.want(http.StatusOK, "GET", "/v1/runs?"+query, "").read(t, &list)
		if len(list.Runs) != want {
			t.Errorf("%s: %d runs, want %d", query, len(list.Runs), want)
		}
	}
	for _, wrong := range []string{
		"word=", "word=" + strings.Repeat("x", 257), "word=%ff", strings.Repeat("word=x&", 17), "state=odd",
		"state=failed&state=",
	} {
		s.want(http.StatusBadRequest, "GET", "/v1/runs?"+wrong, "")
	}
}

// An agent is found by the name that people read, also one that takes no tasks here.
func TestRunsAreFoundByTheNameOfTheirAgent(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	s.Begin("codex_cloud", "T-cloud-1", runs.Start{Source: "cloud"})
	s.Begin("claude_code", "one", runs.Start{Source: "run"})
	s.Await("T-cloud-1", servicetest.Working)
	s.Await("one", servicetest.Working)
	for word, want := range map[string]string{"codex+cloud": "T-cloud-1", "claude+code": "one"} {
		var list api.RunPage
		s.want(http.StatusOK, "GET", "/v1/runs?word="+word, "").read(t, &list)
		if len(list.Runs) != 1 || list.Runs[0].ID != want {
			t.Errorf("%s: %+v", word, list.Runs)
		}
	}
}
