package bus_test

import (
	"errors"
	"sync"
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

// The records are purged while runs are open: nothing of them is erased. One that has ended is forgotten.
func TestOpenRunWithoutARecordIsNotForgotten(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	entry := func(k runs.Kind, body any) runs.Entry {
		return runs.Entry{Kind: k, Time: 1_000, Body: runs.Encode(body)}
	}
	start := entry(runs.Started, runs.Start{Source: "run"})
	live := entry(runs.Started, runs.Start{Source: "run", Live: &runs.Terms{}})
	cancel := entry(runs.Cancelled, runs.Remark{})
	logs := map[string][]runs.Entry{
		"silent":     {start},
		"live":       {live, entry(runs.Ordered, runs.Command{})},
		"cancelling": {start, cancel},
	}
	open := len(logs)
	logs["unstarted"] = []runs.Entry{entry(runs.Queued, runs.Start{Source: "queue"}), cancel}
	logs["external"] = []runs.Entry{entry(runs.Started, runs.Start{Source: runs.SourceExternal}), cancel}
	logs["exited"] = []runs.Entry{start, cancel, entry(runs.Exited, runs.Exit{Reason: runs.ReasonCancelled})}
	order := []string{"silent", "live", "cancelling", "unstarted", "external", "exited"}
	bustest.Interleave(t, b, logs, order...)
	normalize(t, b)
	for i, run := range order {
		if r, ok, err := b.Record(t.Context(), run); err != nil || !ok || r.State.Final() != (i >= open) {
			t.Errorf("run %s: %+v, %v", run, r, err)
		}
	}
	bustest.Purge(t, b.JetStream(), bucket.Stream(b.Runs()))
	var all sync.WaitGroup
	defer all.Wait()
	for i, run := range order { // each waits for the record
		all.Go(func() {
			f, err := b.Forget(t.Context(), run)
			if i < open && (!errors.Is(err, runs.ErrOpen) || f != (runs.Forgotten{})) {
				t.Errorf("run %s: %+v, %v; want %v", run, f, err, runs.ErrOpen)
			}
			if i >= open && (err != nil || f.Entries != uint64(len(logs[run]))) {
				t.Errorf("run %s: %+v, %v; want %d entries", run, f, err, len(logs[run]))
			}
		})
	}
}
