package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
)

// A look at the open runs takes time: a run may end, and its end be read, before what the
// look has seen is added.
func TestLookThatIsOvertakenByAnEndReportsNothingAgain(t *testing.T) {
	t.Parallel()
	o, err := openOutbox("", noon, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	look := func(open bool) {
		t.Helper()
		var seen []notice
		if open {
			seen = []notice{{ID: "r/lost", Run: "r"}}
		}
		if err := o.holding(t.Context(), seen, map[string]bool{"r": open}, "", nil); err != nil {
			t.Fatal(err)
		}
	}
	deliver := func() (n int) {
		for {
			one, _, ok := o.take(time.Now())
			if !ok {
				return n
			}
			o.done(one.ID)
			n++
		}
	}
	look(true)
	if n := deliver(); n != 1 {
		t.Errorf("%d notices", n)
	}
	end := []notice{{ID: "r/failed", Run: "r"}, {ID: "r/lost", Run: "r"}}
	if err := o.ended(t.Context(), "r", end, 7, noon); err != nil {
		t.Fatal(err)
	}
	look(true)
	if n := deliver(); n != 1 {
		t.Errorf("%d notices about the end", n)
	}
	look(false)
	if n := deliver(); n != 0 || len(o.state.Reported)+len(o.state.Over) != 0 {
		t.Errorf("%d notices, still known: %q %q", n, o.state.Reported, o.state.Over)
	}
}

// More conditions hold than can be remembered: each is reported once at most, and again nothing when
// those before have ended.
func TestReportedConditionsAreBounded(t *testing.T) {
	t.Parallel()
	o, err := openOutbox("", noon, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	look := func(from, to int) (delivered int) {
		t.Helper()
		open := map[string]bool{}
		var all []notice
		for i := from; i < to; i++ {
			run := fmt.Sprint("r", i)
			open[run] = true
			all = append(all, notice{ID: run + "/lost", Run: run})
		}
		for part := range slices.Chunk(all, maxPending) {
			if err := o.holding(t.Context(), part, open, "", nil); err != nil {
				t.Fatal(err)
			}
			for _, n := range o.pending() {
				o.done(n.ID)
				delivered++
			}
		}
		return delivered
	}
	for i, want := range []int{maxReported, 0, 0} {
		if got := look(0, maxReported+500); got != want {
			t.Errorf("look %d: %d notices, want %d", i, got, want)
		}
	}
	if got := look(maxReported, maxReported+500); got != 500 { // the others have ended, unread
		t.Errorf("%d notices about others", got)
	}
}

// A run that asks again and again leaves room for its next question.
func TestQuestionsOfLongAgoAreForgotten(t *testing.T) {
	t.Parallel()
	o, err := openOutbox("", noon, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxReported {
		o.state.Reported = append(o.state.Reported, fmt.Sprintf("r/needs-input/q%d", i))
	}
	o.state.Reported[0] = "r/stalled/1"
	last, next := notice{ID: o.state.Reported[maxReported-1], Run: "r"}, notice{ID: "r/needs-input/q99999", Run: "r"}
	if err := o.holding(t.Context(), []notice{last, next}, map[string]bool{"r": true}, "", nil); err != nil {
		t.Fatal(err)
	}
	if got := o.pending(); len(got) != 1 || got[0].ID != next.ID {
		t.Errorf("pending: %v", got)
	}
	if want := []string{"r/stalled/1", last.ID, next.ID}; !slices.Equal(o.state.Reported, want) {
		t.Errorf("%d reported, want %q", len(o.state.Reported), want)
	}
}
