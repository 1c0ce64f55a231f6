package runs_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

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
			Labels: map[string]string{runs.LabelContinues: c.task}})})
		if got := r.Continues == c.task && c.task != ""; got != c.is || !got && r.Continues != "" {
			t.Errorf("run %q of task %q: continues %q", c.run, c.task, r.Continues)
		}
	}
	if _, err := runs.LinkID(long+"x-", 2); err == nil {
		t.Error("an id of more than 64 bytes")
	}
}

// Rows with and without the optional fields survive a round trip.
func TestRowRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aé -%+\n")), 0, 8, -1)
		row := runs.Row{
			ID: "T-local-a", Agent: "codex", State: runs.StateInputRequired, Source: "run",
			Worker: text.Draw(t, "worker"), Dir: text.Draw(t, "dir"),
			Thread: text.Draw(t, "thread"), Reason: runs.NeedsAgent,
			Activity: text.Draw(t, "activity"), EndedAt: 7, Seq: 9,
			Continues: rapid.SampledFrom([]string{"", "T-local-b", "-"}).Draw(t, "continues"),
		}
		row.Asked = rapid.Bool().Draw(t, "asked")
		if total := rapid.IntRange(0, 3).Draw(t, "steps"); total > 0 {
			row.Plan = runs.Todo{Done: rapid.IntRange(0, total).Draw(t, "done"), Total: total}
		}
		got, err := runs.ParseRow(row.Text())
		if err != nil || fmt.Sprint(got) != fmt.Sprint(row) {
			t.Fatalf("got %+v, %v; want %+v", got, err, row)
		}
	})
}
