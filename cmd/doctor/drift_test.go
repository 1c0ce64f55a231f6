package doctor

import (
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestDriftIsNamedByAgentAndVersion(t *testing.T) {
	record := func(agent, version string, names ...string) *runs.Record {
		r := &runs.Record{Attributes: runs.Attributes{Agent: agent}, Version: version, Drift: &runs.Drift{}}
		for _, name := range names {
			r.Drift.Things = append(r.Drift.Things, runs.Thing{What: runs.DriftField, Name: name, Hash: "1f0c2f3b9a77"})
		}
		return r
	}
	got := driftOf([]*runs.Record{
		record("gemini_cli", "", "b"), record("codex", "0.170.0", "a", "b", "c", "d"),
		record("codex", "0.170.0", "a", "e", "f", "g"), record("codex", "0.171.0", ""),
		record("claude_code", "2.1.332", "init.new_setting"),
	})
	const want = "codex 0.170.0: field a, field b, field c, field d, field e and 2 more; " +
		"codex 0.171.0: field 1f0c2f3b9a77; gemini_cli: field b"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
