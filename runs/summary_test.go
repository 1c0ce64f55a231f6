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
		{runs.Record{Source: runs.SourceRun}, runs.Written},
		{runs.Record{Source: runs.SourceSession}, runs.Captured},
		{runs.Record{Source: runs.SourceSession, WrittenAt: 1}, runs.Written},
		{runs.Record{Source: runs.SourceTail, WrittenAt: 1}, runs.Written},
		{runs.Record{Source: runs.SourcePipe}, runs.Captured},
		{runs.Record{Source: runs.SourceCloud}, ""},
	} {
		if got := c.record.Header().Times; got != c.want {
			t.Errorf("%+v: %q, want %q", c.record, got, c.want)
		}
	}
}
