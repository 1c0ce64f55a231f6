package pipeline

import (
	"testing"

	"github.com/linesman/linesman/bus"
	"github.com/linesman/linesman/runs"
	"github.com/linesman/linesman/test/fixture/bustest"
)

func TestLagIsWhatTheNormalizerHasNotRecorded(t *testing.T) {
	t.Parallel()
	_, b := serve(t)
	log := bustest.CorpusLog(t, "shell-fail", 700)
	bustest.Interleave(t, b, map[string][]runs.Entry{"a": log}, "a")
	if l, err := b.Lag(t.Context()); err != nil || l != (bus.Lag{Raw: uint64(len(log))}) {
		t.Errorf("nobody works: %+v, %v", l, err)
	}
	stopAt(t, b, 5)
	if l, err := b.Lag(t.Context()); err != nil || l.Raw == 0 || l.Events != 4 {
		t.Errorf("killed before event 5: %+v, %v", l, err)
	}
	normalize(t, b)
	if l, err := b.Lag(t.Context()); err != nil || l != (bus.Lag{}) {
		t.Errorf("all is recorded: %+v, %v", l, err)
	}
}
