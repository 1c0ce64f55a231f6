package rest_test

import (
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/runs"
)

// A cancel that is sent again is told what came of it also when the run is gone
// meanwhile; without its key nobody knows the run.
func TestARepeatedCancelOutlivesTheRecordOfItsRun(t *testing.T) {
	t.Parallel()
	s := newStage(t, nil)
	path := s.want(202, "POST", "/v1/runs", `{"task":"go","workingDir":"/srv"}`).header.Get("Location")
	const key = `{"idempotencyKey":"0123456789abcdef"}`
	s.want(200, "POST", path+"/cancel", key)
	id := path[len("/v1/runs/"):]
	s.Await(id, func(v runs.Header) bool { return v.State.Final() })
	if _, err := s.Service.Cleanup(t.Context(), api.Cleanup{Stuck: time.Hour, Old: 1}); err != nil {
		t.Fatal(err)
	}
	s.want(404, "GET", path, "")
	s.want(200, "POST", path+"/cancel", key)
	s.want(404, "POST", path+"/cancel", "")
	s.adcp(404, "unknown", "POST", path+"/cancel", `{"idempotency_key":"0123456789abcdeg"}`)
	s.adcp(200, "canceled", "POST", path+"/cancel", `{"idempotency_key":"0123456789abcdef"}`)
}
