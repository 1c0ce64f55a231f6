package bus_test

import (
	"errors"
	"testing"

	"github.com/linesman/linesman/bus/bucket"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

// A completed task does not await resumption again because the run that completed it
// was forgotten: its earlier runs must be forgotten first.
func TestATaskIsForgottenFromItsBeginning(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	leg := func(task string, code int) []runs.Entry {
		start := runs.Start{Source: "run"}
		if task != "" {
			start.Labels = runs.LabelsOf(map[string]string{runs.LabelContinues: task})
		}
		return []runs.Entry{
			{Kind: runs.Started, Time: 1_000, Body: runs.Encode(start)},
			{Kind: runs.Exited, Time: 2_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code})},
		}
	}
	bustest.Interleave(t, b, map[string][]runs.Entry{
		"t": leg("", runs.ExitNeedsAgent), "t-2": leg("t", runs.ExitNeedsAgent), "t-3": leg("t", 0),
	}, "t", "t-2", "t-3")
	normalize(t, b)
	forget := func(run string, want error) {
		t.Helper()
		if _, err := b.Forget(t.Context(), run); !errors.Is(err, want) {
			t.Errorf("forget %s: %v, want %v", run, err, want)
		}
	}
	forget("t-3", runs.ErrNeeded)
	forget("t", nil)
	forget("t-3", runs.ErrNeeded)
	forget("t-2", nil)
	forget("t-3", nil)
	for _, run := range []string{"t", "t-2", "t-3"} {
		if record, ok, err := b.Record(t.Context(), run); ok || err != nil {
			t.Errorf("%s has the record %s, %v", run, record.JSON(), err)
		}
	}
}

// A task that awaits resumption is open: none of its runs is forgotten, even if they
// ended, until the task is resumed or cancelled.
func TestATaskThatWaitsIsNotForgotten(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	entries := func(task string, more ...runs.Entry) []runs.Entry {
		start := runs.Start{Source: "run"}
		if task != "" {
			start.Labels = runs.LabelsOf(map[string]string{runs.LabelContinues: task})
		}
		return append([]runs.Entry{{Kind: runs.Started, Time: 1_000, Body: runs.Encode(start)}}, more...)
	}
	code := runs.ExitNeedsAgent
	asks := runs.Entry{
		Kind: runs.Exited,
		Time: 2_000,
		Body: runs.Encode(runs.Exit{Reason: runs.ReasonExited, Code: &code}),
	}
	bustest.Interleave(t, b, map[string][]runs.Entry{
		"waits": entries("", asks),
		"works": entries("", asks), "works-2": entries("works"),
		"asks": entries("", asks), "asks-2": entries("asks", asks),
		"alone": entries("", asks), "alone-2": entries(""), // the id was chosen by a caller
	}, "waits", "works", "works-2", "asks", "asks-2", "alone", "alone-2")
	normalize(t, b)
	for _, run := range []string{"waits", "works", "works-2", "asks", "asks-2", "alone"} {
		if f, err := b.Forget(t.Context(), run); !errors.Is(err, runs.ErrOpen) || f != (runs.Forgotten{}) {
			t.Errorf("forget %s: %+v, %v; want %v", run, f, err, runs.ErrOpen)
		}
	}

	bustest.Interleave(
		t,
		b,
		map[string][]runs.Entry{
			"waits-2": entries("waits", runs.Entry{Kind: runs.Cancelled, Time: 3_000, Body: runs.Encode(runs.Remark{})},
				runs.Entry{Kind: runs.Exited, Time: 3_000, Body: runs.Encode(runs.Exit{Reason: runs.ReasonCancelled})}),
		},
		"waits-2",
	)
	normalize(t, b)
	for _, run := range []string{"waits", "waits-2"} {
		if f, err := b.Forget(t.Context(), run); err != nil || !f.Record {
			t.Errorf("forget %s, given up: %+v, %v", run, f, err)
		}
	}
}

// The records are purged while a run is silent: it is still open, and nothing of it is erased.
func TestOpenRunWithoutARecordIsNotForgotten(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	start := runs.Entry{Kind: runs.Started, Time: 1_000, Body: runs.Encode(runs.Start{Source: "run"})}
	bustest.Interleave(t, b, map[string][]runs.Entry{"silent": {start}}, "silent")
	normalize(t, b)
	bustest.Purge(t, b.JetStream(), bucket.Stream(b.Runs()))
	if f, err := b.Forget(t.Context(), "silent"); !errors.Is(err, runs.ErrOpen) || f != (runs.Forgotten{}) {
		t.Errorf("%+v, %v; want %v", f, err, runs.ErrOpen)
	}
}
