package watch

import (
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
		var seen []Notice
		if open {
			seen = []Notice{{ID: "r/lost", Run: "r"}}
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
	end := []Notice{{ID: "r/failed", Run: "r"}, {ID: "r/lost", Run: "r"}}
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
