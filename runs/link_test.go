package runs_test

import (
	"strings"
	"testing"

	"github.com/linesman/linesman/runs"
)

// The label makes a run a link only if its id is derived from the task.
func TestOnlyDerivedIDsAreLinks(t *testing.T) {
	long := strings.Repeat("x", 62)
	for _, c := range []struct {
		run, task string
		is        bool
	}{
		{"a-2", "a", true}, {"a-1000", "a", true}, {"a-2-3", "a-2", true}, {long + "-2", long, true},
		{"a", "a", false}, {"a-1", "a", false}, {"a-0", "a", false}, {"a-02", "a", false},
		{"a-+2", "a", false}, {"a--2", "a", false},
		{"a-1001", "a", false}, {"b-2", "a", false}, {"-2", "", false}, {"a-2", "a b", false},
	} {
		r := runs.NewRecord(c.run, "codex")
		r.Entry(runs.Entry{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: "run",
			Attributes: runs.Attributes{Labels: runs.LabelsOf(map[string]string{runs.LabelContinues: c.task})}})})
		if got := r.Continues == c.task && c.task != ""; got != c.is || !got && r.Continues != "" {
			t.Errorf("run %q of task %q: continues %q", c.run, c.task, r.Continues)
		}
	}
	if _, err := runs.LinkID(long+"x-", 2); err == nil {
		t.Error("an id of more than 64 bytes")
	}
}
