package runtable_test

import (
	"testing"

	"github.com/linesman/linesman/api"
)

// TestGrowthOfAStart counts the messages of a start: each run is one, and requests are for hundreds of them. What is
// read afterwards asks the server for nothing.
func TestGrowthOfAStart(t *testing.T) {
	t.Parallel()
	for _, n := range []int{300, 3000} {
		o := newOffice(t, n)
		conn := o.bus.Inside()
		before := conn.Stats()
		s, stop := o.responder(t)
		after := conn.Stats()
		in, out := after.InMsgs-before.InMsgs, after.OutMsgs-before.OutMsgs
		t.Logf("%d runs: %d messages, %d requests", n, in, out)
		if most := uint64(50 + n/200); in < uint64(n) || in > uint64(n)+most || out > most {
			t.Errorf("%d runs: %d messages, %d requests", n, in, out)
		}
		if p, err := s.List(api.List{}); err != nil || p.Next == "" {
			t.Errorf("%d runs, %v", len(p.Runs), err)
		}
		if all, err := s.Overview(api.List{}, 5, true); err != nil || all.Total != n || len(all.Ended) != 5 {
			t.Errorf("%d of %d ended runs, %v", all.Total, n, err)
		}
		if _, ok := s.Get(runID(n / 2)); !ok {
			t.Error("no run")
		}
		if _, ok := s.Thread("01a2b3c4-0000-7000-8000-000000000007"); !ok {
			t.Error("no thread")
		}
		if asked := conn.Stats().OutMsgs - after.OutMsgs; asked > 20 { // background
			t.Errorf("%d runs: reads send %d messages", n, asked)
		}
		stop()
	}
}
