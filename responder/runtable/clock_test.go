package runtable_test

import (
	"testing"
	"time"

	"github.com/linesman/linesman/api"
	"github.com/linesman/linesman/bus/embedded"
	"github.com/linesman/linesman/runs"
)

// Whoever publishes a run says himself when he captured what. One whose clock
// is hours late, or jumps to and fro, is not taken for one that has gone.
func TestARunWhoseClockIsWrongIsNotTakenForStuck(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
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
		l.reaches(run, func(v runs.Header) bool { return v.State == runs.StateWorking && v.Seq >= log.Mark().Seq })
	}
	report, err := l.table.Cleanup(l.soon(), api.Cleanup{Stuck: time.Hour, Old: time.Hour})
	if err != nil || len(report.Stuck) > 0 || report.Old > 0 {
		t.Errorf("%+v, %v: all of them have just written", report, err)
	}
	// How long they are silent is told by the clock of who listens.
	report, err = l.table.Cleanup(l.soon(), api.Cleanup{Stuck: time.Nanosecond, Old: time.Hour, DryRun: true})
	if err != nil || len(report.Stuck) != 4 {
		t.Errorf("%+v, %v: all of them are silent now", report, err)
	}
}
