package rest_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// A session that changed just now is listed with the reason why it is not continued, and continued by force.
func TestSessionsAreListedAndContinuedByForce(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	const thread, id = "0199a213-81c0-7800-8aa1-bbab2a035001", "T-local-person"
	s.BeginAt("codex", id, time.Now().UnixMilli(), runs.Start{Source: runs.SourceSession, Worker: "w1",
		Attributes: runs.Attributes{Dir: "/srv"}}).
		Out([]byte(`{"type":"session_meta","payload":{"id":"` + thread + `"}}` + "\n"))
	s.Await(id, func(v runs.Header) bool { return v.Thread == thread })
	var all api.Sessions
	s.want(http.StatusOK, "GET", "/v1/sessions?agent=codex&workingDir=/srv&limit=1", "").read(t, &all)
	if len(all.Sessions) != 1 || all.Sessions[0].Newest.ID != id || all.Sessions[0].Refused == "" {
		t.Fatalf("%+v", all)
	}
	s.want(http.StatusBadRequest, "GET", "/v1/sessions?limit=101", "")
	s.want(http.StatusBadRequest, "GET", "/v1/sessions?cursor=x", "")
	s.want(http.StatusConflict, "POST", "/v1/runs", `{"task":"Go on.","context_id":"`+thread+`"}`)
	s.want(http.StatusConflict, "POST", "/v1/runs/"+id+"/resume", `{"task":"Go on."}`)
	for path, body := range map[string]string{
		"/v1/runs":                   `{"task":"Go on.","idempotency_key":"0123456789abcdef","context_id":"` + thread + `"}`,
		"/v1/runs/" + id + "/resume": `{"task":"Go on.","idempotency_key":"0123456789abcdeg"}`,
	} {
		if e := s.adcp(http.StatusConflict, "rejected", "POST", path, body); e.TaskID != "" || e.Error == nil ||
			e.Error.Code != "VALIDATION_ERROR" {
			t.Errorf("%s: %+v", path, e)
		}
	}
	s.want(http.StatusAccepted, "POST", "/v1/runs/"+id+"/resume", `{"task":"Go on.","force":true}`)
}
