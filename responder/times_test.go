package responder_test

import (
	"testing"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/responder"
	"github.com/linesman/linesman/runs"
)

func TestTimesOfASessionAreThoseInItsLog(t *testing.T) {
	for _, c := range []struct {
		row  runs.Row
		want api.Times
	}{
		{runs.Row{Source: "run"}, api.Written},
		{runs.Row{Source: "session"}, api.Captured},
		{runs.Row{Source: "session", Written: true}, api.Written},
		{runs.Row{Source: "tail", Written: true}, api.Written},
		{runs.Row{Source: "pipe"}, api.Captured},
		{runs.Row{Source: "cloud"}, ""},
	} {
		if got := responder.Summarize(responder.View{Row: c.row}).Times; got != c.want {
			t.Errorf("%+v: %q, want %q", c.row, got, c.want)
		}
	}
}
