package rest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
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
