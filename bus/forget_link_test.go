package bus

import (
	"errors"
	"testing"

	"github.com/linesman/linesman/runs"
)

// A task that is done does not wait again because the run that ended it was
// forgotten: the runs before that go first, and then nothing stands for it.
func TestATaskIsForgottenFromItsBeginning(t *testing.T) {
	_, b := serve(t)
	leg := func(task string, code int) []runs.Entry {
		start := runs.Start{Source: "run"}
		if task != "" {
			start.Labels = map[string]string{runs.LabelContinues: task}
		}
		return []runs.Entry{
			{Kind: runs.Started, Time: 1_000, Body: runs.Encode(start)},
			{Kind: runs.Exited, Time: 2_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})},
		}
	}
	interleave(t, b, map[string][]runs.Entry{
		"t": leg("", runs.ExitNeedsAgent), "t-2": leg("t", runs.ExitNeedsAgent), "t-3": leg("t", 0), "u": leg("", runs.ExitNeedsAgent),
	}, "t", "t-2", "t-3", "u")
	normalize(t, b)
	forget := func(run string, want error) {
		t.Helper()
		if _, err := b.Forget(t.Context(), run); !errors.Is(err, want) {
			t.Errorf("forget %s: %v, want %v", run, err, want)
		}
	}
	forget("t-3", ErrNeeded)
	forget("t", nil)
	forget("t-3", ErrNeeded)
	forget("t-2", nil)
	forget("t-3", nil)
	forget("u", nil) // nobody goes on with it
	for _, run := range []string{"t", "t-2", "t-3", "u"} {
		if record, ok, err := b.Record(t.Context(), run); ok || err != nil {
			t.Errorf("%s has the record %s, %v", run, record.JSON(), err)
		}
	}
}
