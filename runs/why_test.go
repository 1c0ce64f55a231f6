package runs_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestTheReasonOfARefusalIsInTheRecord(t *testing.T) {
	t.Parallel()
	why := "working directory: is outside of the directories of the setting work.roots: /srv"
	for _, c := range []struct {
		spawn, why, want string
	}{
		{runs.SpawnNoDir, why, why},
		{runs.SpawnRefused, "agent:\nis not\x1b known", "agent: is not known"},
		{runs.SpawnNotFound, why, ""},
		{runs.SpawnNoDir, strings.Repeat("é", 5000), strings.Repeat("é", 999) + "…"},
	} {
		x := runs.DecodeExit(runs.Encode(runs.Exit{Reason: runs.ReasonSpawn, Spawn: c.spawn, Why: c.why}))
		if x.Why != c.want {
			t.Errorf("%s %.80q: %.80q, want %.80q", c.spawn, c.why, x.Why, c.want)
		}
		r := runs.Record{ID: "r", Attributes: runs.Attributes{Agent: "codex"}}
		r.Entry(runs.Entry{Kind: runs.Queued, Time: 1, Body: runs.Encode(runs.Start{Source: "queue"})})
		r.End(x, 2)
		if c.want == why && (r.ErrorContext().Message != why || !strings.HasSuffix(r.Summary(), why)) {
			t.Errorf("the record says %q, %q", r.ErrorContext().Message, r.Summary())
		}
	}
}
