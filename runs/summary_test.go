package runs_test

import (
	"testing"

	"github.com/linesman/linesman/runs"
)

func TestTimesOfASessionAreThoseInItsLog(t *testing.T) {
	for _, c := range []struct {
		record runs.Record
		want   runs.Times
	}{
		{runs.Record{Source: runs.SourceRun}, "written"},
		{runs.Record{Source: runs.SourceSession}, runs.Captured},
		{runs.Record{Source: runs.SourceSession, WrittenAt: 1}, "written"},
		{runs.Record{Source: runs.SourceTail, WrittenAt: 1}, "written"},
		{runs.Record{Source: runs.SourcePipe}, runs.Captured},
		{runs.Record{Source: "cloud"}, ""},
	} {
		if got := c.record.Header().Times; got != c.want {
			t.Errorf("%+v: %q, want %q", c.record, got, c.want)
		}
	}
}
