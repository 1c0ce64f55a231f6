package reader

import (
	"strconv"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

func TestOutageIsLoggedOnceForEachReasonAndEnds(t *testing.T) {
	core, logs := observer.New(zap.DebugLevel)
	out := Outage{Log: zap.New(core), Began: "away", Ended: "back", Fields: []zap.Field{zap.String("stream", "S")}}
	out.Over() // there was none
	for range 3 {
		if !out.Failed("a") || out.Failed("a") || !out.Failed("b") || out.Failed("a") {
			t.Error("a reason is not logged once")
		}
		out.Over()
		out.Over()
	}
	for i := range 100 {
		out.Failed(strconv.Itoa(i)) // reasons with numbers
	}
	counts := map[string]int{}
	for _, e := range logs.All() {
		counts[e.Message]++
		if e.ContextMap()["stream"] != "S" {
			t.Errorf("%s has no field: %v", e.Message, e.ContextMap())
		}
	}
	if counts["away"] != 6+maxReasons || counts["back"] != 3 {
		t.Errorf("%v, want 6 and %d, and 3", counts, maxReasons)
	}
}
