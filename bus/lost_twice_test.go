package bus_test

import (
	"errors"
	"testing"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
)

// RAW was lost, but RUNS was not. The writer of a run knows that its log is empty, and
// checks it again, for example after another loss of the connection: what the
// record remembers of the former RAW is not in this one.
func TestLogThatWasLostStaysEmptyHoweverOftenItIsChecked(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	l, err := b.OpenLog(t.Context(), "codex", "a", runs.Mark{})
	if err != nil {
		t.Fatal(err)
	}
	start := runs.Entry{Kind: runs.Started, Time: 1, Body: runs.Encode(runs.Start{Source: "run"})}
	for _, e := range []runs.Entry{start, {Kind: runs.Out, Time: 2, Body: []byte("x\n")},
		{Kind: runs.Out, Time: 3, Offset: 2, Body: []byte("x\n")}} {
		if err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	normalize(t, b)
	if known, err := b.Remembered(t.Context(), "a"); err != nil || !known.Started {
		t.Fatalf("the record remembers %+v, %v", known, err)
	}
	if err := b.JetStream().DeleteStream(t.Context(), b.Raw()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Ensure(t.Context(), bus.DefaultLimits()); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(
		t.Context(),
		runs.Entry{Kind: runs.Out, Time: 4, Offset: 4, Body: []byte("x\n")},
	); !errors.Is(err, runs.ErrMoved) ||
		l.Mark() != (runs.Mark{At: 3}) {
		t.Fatalf("got %v and %+v, want that the log has moved, to nothing", err, l.Mark())
	}
	b.Reconnected() // another connection
	if err := l.Append(t.Context(), start); err != nil || l.Mark().Seq != 1 || l.Mark().Out != 0 {
		t.Errorf("got %v and %+v, want that it begins again", err, l.Mark())
	}
}
