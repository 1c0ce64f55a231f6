package runtable_test

import (
	"testing"
	"time"

	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/responder/runtable"
	"github.com/linesman/linesman/runs"
)

// Entries carry the time of the publisher's clock. A run whose publisher's
// clock is hours late, or jumps, is not treated as stuck.
func TestARunWhoseClockIsWrongIsNotTakenForStuck(t *testing.T) {
	t.Parallel()
	l := newHarness(t, nil)
	now := time.Now()
	for run, clock := range map[string][]time.Duration{
		"late": {-3 * time.Hour, -3 * time.Hour, -3 * time.Hour}, "early": {3 * time.Hour, 3 * time.Hour, 3 * time.Hour},
		"to-and-fro": {2 * time.Hour, -3 * time.Hour, 5 * time.Hour}, "back": {0, -3 * time.Hour, -6 * time.Hour},
	} {
		log, err := l.bus(embedded.WorkerUser).OpenLog(l.soon(), "codex", run, runs.Mark{})
		if err != nil {
			t.Fatal(err)
		}
		line := []byte(`{"type":"turn.started"}` + "\n")
		for i, e := range []runs.Entry{
			{Kind: runs.Started, Body: runs.Encode(runs.Start{Source: "tail"})},
			{Kind: runs.Out, Body: line},
			{Kind: runs.Out, Body: line, Offset: int64(len(line))},
		} {
			e.Time = now.Add(clock[i]).UnixMilli()
			if err := log.Append(l.soon(), e); err != nil {
				t.Fatal(err)
			}
		}
		l.reaches(run, func(v runtable.View) bool { return v.State == runs.StateWorking && v.Seq >= log.Mark().Seq })
	}
	report, err := l.table.Cleanup(l.soon(), runtable.CleanupSpec{Stuck: time.Hour, Old: time.Hour})
	if err != nil || len(report.Stuck) > 0 || report.Old > 0 {
		t.Errorf("%+v, %v: all of them have just written", report, err)
	}
	// The duration of silence is measured by the responder's clock.
	report, err = l.table.Cleanup(l.soon(), runtable.CleanupSpec{Stuck: time.Nanosecond, Old: time.Hour, DryRun: true})
	if err != nil || len(report.Stuck) != 4 {
		t.Errorf("%+v, %v: all of them are silent now", report, err)
	}
}
