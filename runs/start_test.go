package runs_test

import (
	"testing"

	"github.com/linesman/linesman/runs"
)

// A raw log is kept for as long as its owner likes: three fields had other names in the first ones.
func TestStartOfTheFirstRawLogsIsRead(t *testing.T) {
	now := runs.Start{
		Source: runs.SourceQueue, Governance: "token",
		Attributes: runs.Attributes{Dir: "/srv", Thread: "a thread", Title: "Fix it", Labels: "team=core"},
	}
	former := `{"source":"queue","dir":"/srv","thread":"a thread","governance_context":"token","title":"Fix it",` +
		`"labels":{"team":"core"}}`
	for _, body := range []string{former, string(runs.Encode(now))} {
		got, err := runs.DecodeStart([]byte(body))
		if err != nil || string(runs.Encode(got)) != string(runs.Encode(now)) {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
	if _, err := runs.DecodeStart([]byte(`{"source":7}`)); err == nil {
		t.Error("a body that is not valid was read")
	}
}
